/**
 * One attempt at a simulated worker. It interprets a program as the real worker runs code: journaled steps are not repeated, a
 * step is journaled before the code goes on, a sleep or a wait ends the attempt. Log lines are sent before other reports, and
 * repeated until they are acknowledged.
 */
import { COMPENSATION } from "../../../src/kernel/definition/definition.ts";
import {
  endsEnumeration,
  type Outcome,
  type RunNotice,
  type TaskWait,
  type Verdict,
} from "../../../src/kernel/message.ts";
import { startedId } from "../../../src/kernel/tasks/child-messages.ts";
import { updateSignal } from "../../../src/kernel/updates.ts";
import { idempotencyKey } from "../../../src/protocol/idempotency-key.ts";
import { pieceLine } from "../../../src/protocol/stream-piece.ts";
import type { Checkpoint, Grant, GrantItem, Report, ReportedLine } from "../../../src/protocol/work.ts";
import { assert } from "../../../src/std/assert.ts";
import { checksum } from "../../../src/std/hash.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import { takenItem } from "../check/succession-model.ts";
import { must } from "../trace.ts";
import { countOf, decisionOf, growthSeed, troubleOf } from "../workload/behaviour.ts";
import { addedTexts } from "../workload/growth.ts";
import {
  ANSWER,
  ASK,
  type Branch,
  ITEM_SIGNALS,
  KID,
  LAST,
  MAPPED,
  mapPages,
  type Op,
  programOf,
  talks,
} from "../workload/program.ts";
import type { World } from "../world.ts";
import { attemptOf, keyOf, placeOf } from "./place.ts";
import { enumerate } from "./sim-enumeration.ts";
import { readSimReceipt } from "./sim-receipt.ts";

/** The parts of its worker that an attempt uses. */
export interface AttemptHost {
  readonly world: World;
  readonly random: SeededRandom;
  readonly local: boolean;
  /** Sends repeatedly until there is an answer. */
  send(reports: readonly Report[], onVerdicts: (verdicts: readonly (readonly Verdict[])[]) => void): void;
  later(ms: number, run: () => void): void;
  ended(attempt: SimAttempt): void;
  /** The code crashes its process. */
  dies(): void;
}

export class SimAttempt {
  readonly host: AttemptHost;
  readonly grant: Grant;
  readonly item: GrantItem;
  readonly key: string;
  isStarted = false;
  isOver = false;
  /** The checkpoints of earlier attempts, as granted. */
  readonly #known: readonly Checkpoint[];
  readonly #values: Record<string, string | null> = {};
  #lines: ReportedLine[] = [];
  #lastLine = 0;
  /** The number of chunks that were written so far. */
  #chunks = 0;
  #isTelling = false;
  /** Times that the code has read and that are not reported yet. */
  #times: Record<string, number> = {};
  /** Failures after which the code has gone on, and that are not reported yet. */
  #failures: string[] = [];

  /** The time of the grant. */
  readonly #since: number;

  constructor(host: AttemptHost, grant: Grant, { item, since }: { item: GrantItem; since: number }) {
    this.host = host;
    this.#since = since;
    this.grant = grant;
    this.item = item;
    this.key = keyOf(attemptOf(grant, item));
    this.#known = (item.checkpoints ?? []).slice();
  }

  start(): void {
    if (this.isOver) return;
    const { grant, item, host } = this;
    const { world, random, local } = host;
    this.isStarted = true;
    world.noteRun(grant, item);
    if (grant.do === "enumerate") {
      enumerate(this);
      return;
    }
    const isProgram = grant.do === "process" && world.drill === undefined;
    const ops = isProgram ? programOf(world.behaviour.seed, grant.use, item.number) : [];
    const trouble = troubleOf(world.behaviour, grant, { task: item.number, attempt: item.attempt });
    const length = grant.script?.runs.length ?? ops.length;
    const troubleAt = trouble === null ? -1 : random.below(length + 1);
    if (trouble === "dies" && troubleAt === 0) {
      host.dies();
      return;
    }
    if (!local || random.chance(0.5)) {
      const { number: task, attempt, claim } = item;
      const said = { ...placeOf(grant), attempts: [{ task, attempt, claim }] };
      const accepted = grant.script === null ? [] : [{ kind: "accepted" as const, ...said }];
      host.send([...accepted, { kind: "started", ...said }], () => {});
    }
    this.#log();
    // In a drill some attempts outlive the node that granted them.
    const isDrill = world.drill !== undefined && !world.behaviour.healed;
    host.later(random.pick(isDrill ? [5, 50, 2_500] : [0, 5, 50]), () => {
      this.#charge();
      if (grant.script === null) this.#go(ops, 0, { trouble, troubleAt });
      else this.#runScript(this.#finishedRuns(), { trouble, troubleAt });
    });
  }

  /** The engine wants the attempt ended: hands it back. */
  handBack(): void {
    this.end({ status: "cancelled", payload: "null" });
  }

  /** Ends the attempt: sends its receipt with its log lines. */
  end(outcome: Outcome): void {
    if (this.isOver) return;
    this.isOver = true;
    const { grant, item, host } = this;
    host.ended(this);
    if (outcome.status === "done" && item.compensates !== undefined) this.#refund();
    if (outcome.status === "done" && grant.do !== "enumerate")
      host.world.ledger.effects.produced(grant, item.number, outcome.payload);
    const { number: task, attempt, claim } = item;
    const { seed } = host.world.behaviour;
    const told = grant.do === "command" ? readSimReceipt(grant, item, outcome, seed) : outcome;
    let receipt: Report;
    if (grant.do === "enumerate") {
      assert(endsEnumeration(outcome), "an enumeration that is done says how many tasks there are");
      receipt = { kind: "enumeration", ...placeOf(grant), attempt, claim, ms: 1, outcome };
    } else
      receipt = {
        kind: "receipts",
        ...placeOf(grant),
        receipts: [{ task, attempt, claim, ms: 1, outcome: told }],
      };
    this.#send(receipt, () => {});
  }

  /** The code of a task that may be compensated begins with its effect. */
  #charge(): void {
    const { grant, item, host } = this;
    if (this.isOver || item.number < 0 || host.world.handlerPlan(grant)?.isCompensated !== true) return;
    const { phase, visit, handler } = grant;
    const key = idempotencyKey(grant, item.number);
    host.world.ledger.payments.charge(grant.execution, key, {
      place: { phase, visit, handler },
      task: item.number,
    });
  }

  /** Undoes the effect of a task, before it is known that this is done. */
  #refund(): void {
    const { grant, item, host } = this;
    const { visit, handler } = grant;
    const phase = grant.phase.slice(0, -COMPENSATION.length);
    const key = idempotencyKey(grant, item.number);
    host.world.ledger.payments.refund(grant.execution, key, {
      place: { phase, visit, handler },
      task: item.number,
    });
  }

  /** Reports something about the attempt after its log lines. */
  ask(report: Report, onVerdict: (verdict: Verdict | undefined) => void): void {
    this.#send(report, (verdict) => {
      if (!this.isOver) onVerdict(verdict);
    });
  }

  /** Runs the program from an operation on. */
  #go(ops: readonly Op[], at: number, end: { trouble: Outcome | "dies" | null; troubleAt: number }): void {
    if (this.isOver) return;
    const { host, grant, item } = this;
    if (end.trouble !== null && at >= end.troubleAt) {
      if (end.trouble === "dies") host.dies();
      else this.end(end.trouble);
      return;
    }
    const op = ops[at];
    this.#talk(at);
    if (op !== undefined) {
      const next = () => host.later(host.random.pick([0, 5, 50]), () => this.#go(ops, at + 1, end));
      this.#do(op, next);
      return;
    }
    // Later attempts take longer, so that the first one, which was lost, may report while they run.
    host.later(host.random.pick([0, 5, 50, item.attempt === 1 ? 400 : 3_000]), () => {
      if (grant.do === "next") {
        const among = host.world.among(grant);
        this.end({ status: "done", payload: decisionOf(host.world.behaviour.seed, grant, among) });
      } else {
        // Each attempt of a command has a different result, because other commands refer to it.
        const by = grant.do === "command" ? ` by ${grant.visit}.${item.attempt}` : "";
        this.end({ status: "done", payload: this.#result(by), ...this.#adds() });
      }
    });
  }

  /** The result of the task, with the values of its steps. */
  #result(by = ""): string {
    const { grant, item } = this;
    return JSON.stringify({ r: `${grant.handler}#${item.number}${by}`, s: this.#values });
  }

  /** The tasks that the code adds, if its handler has `adds`. */
  #adds(): Pick<Outcome, "adds"> {
    const { grant, item, host } = this;
    const plan = host.world.handlerPlan(grant);
    if (plan?.adds !== true) return {};
    const { seed } = host.world.behaviour;
    const count = countOf(seed, grant, false);
    const tasks = addedTexts(growthSeed(seed, grant), item.task ?? "{}", count, plan.definition);
    return tasks.length === 0 ? {} : { adds: { tasks, keys: null, identities: null } };
  }

  #do(op: Op, next: () => void): void {
    if (op.kind === "waits") return this.#waitForAll(op.branches, next);
    if (op.kind === "tries") return this.#try(op, next);
    if (op.kind === "now") return this.#readClock(op.name, next);
    if (op.kind === "update") return this.#update(op, next);
    if (op.kind === "take") return this.#take(op.name, next);
    if (op.kind === "continue") return this.#continue();
    const known = this.#known.find(({ kind, name }) => kind !== "run" && name === op.name);
    if (op.kind === "child" && known?.kind !== "step") return this.#child(op, known?.kind === "child", next);
    if (op.kind === "map" && known?.kind !== "step") return this.#map(op.name, known?.kind === "child");
    if (op.kind === "sleep") {
      const now = this.host.world.clock;
      if (known?.kind === "sleep" && known.due <= now) return next();
      const untilMs = known?.kind === "sleep" ? known.due : now + op.ms;
      return this.end({ status: "suspended", payload: "null", wait: { name: op.name, untilMs } });
    }
    if (known?.kind === "step") return this.#recall(op, known.seq, next);
    if (op.kind === "step") return op.isLater && this.item.attempt === 1 ? next() : this.#step(op.name, next);
    if (op.kind === "child" || op.kind === "map") return;
    const timeout = op.timeoutMs === null ? {} : { timeoutMs: op.timeoutMs };
    this.end({
      status: "suspended",
      payload: "null",
      wait: { name: op.name, signal: op.name, ...timeout },
    });
  }

  /** Reads the clock, or gets the time that an earlier attempt has read. */
  #readClock(name: string, next: () => void): void {
    const known = this.#known.find((one) => one.kind === "time" && one.name === name);
    const at = known?.kind === "time" ? known.at : this.host.world.clock;
    if (known === undefined) this.#times[name] = at;
    this.#values[name] = JSON.stringify(at);
    next();
  }

  /** Takes the next item of an entity. The last one ends the code. */
  #take(name: string, next: () => void): void {
    const known = this.#known.find((one) => one.kind === "step" && one.name === name);
    if (known?.kind !== "step")
      return this.end({ status: "suspended", payload: "null", waits: [{ name, anyOf: ITEM_SIGNALS }] });
    const event = this.host.world.readEvent(this.grant.execution, known.seq);
    if (event?.kind !== "task.step") return this.handBack();
    this.#values[name] = event.result;
    if (takenItem(event).endsWith(LAST)) this.end({ status: "done", payload: this.#result() });
    else next();
  }

  /** Continues as the next execution of an entity, with the items that were taken. */
  #continue(): void {
    const payload = this.#result();
    this.end({ status: "done", payload, continueAs: payload });
  }

  /** Takes an update and answers it, once. */
  #update({ name, timeoutMs }: Extract<Op, { kind: "update" }>, next: () => void): void {
    const { host, grant, item } = this;
    const known = this.#known.find((one) => one.kind !== "run" && one.name === name);
    if (known?.kind !== "step") {
      const wait = { name, signal: updateSignal(ASK), timeoutMs };
      return this.end({ status: "suspended", payload: "null", wait });
    }
    const event = host.world.readEvent(grant.execution, known.seq);
    if (event?.kind !== "task.step") return this.handBack();
    const step = `${name}${ANSWER}`;
    if (event.error !== null || this.#known.some((one) => one.kind === "step" && one.name === step))
      return next();
    const { id } = JSON.parse(event.result ?? "null") as { id: string };
    const { effects } = host.world.ledger;
    const { number: task } = item;
    effects.executed(grant, { task, name: step, since: this.#since });
    const result = JSON.stringify({ value: `${id} by ${this.key}` });
    this.ask({ kind: "step", ...attemptOf(grant, item), name: step, result, answers: id }, (verdict) => {
      if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
      effects.acknowledged(grant, { task, name: step, now: host.world.timeline.now });
      next();
    });
  }

  /** Sometimes writes chunks to a stream, and publishes values. */
  #talk(at: number): void {
    const { host, grant, item } = this;
    if (!talks(host.world.behaviour.seed) || this.isOver) return;
    const dice = this.#draw(at, "talk");
    if (dice % 3 > 0) {
      const chunks = Array.from({ length: 1 + (dice % 2) }, (_, i) => String(this.#chunks + i));
      const line = pieceLine({ stream: "out", index: this.#chunks }, chunks);
      this.#chunks += chunks.length;
      this.#lines.push({ n: ++this.#lastLine, at: host.world.clock, ...line });
    }
    if (dice % 5 > 1) return;
    const key = `${grant.handler}#${item.number}`;
    const values = { [key]: `${at} by ${this.key}`, ...(dice % 5 === 0 ? { last: null } : { last: key }) };
    host.send([{ kind: "published", ...attemptOf(grant, item), values }], () => {});
  }

  /** Asks for a child, and waits for its end unless it is on its own. */
  #child(op: Extract<Op, { kind: "child" }>, isAsked: boolean, next: () => void): void {
    const { host, grant, item } = this;
    const { name, isDetached, isLeft } = op;
    const wait = (): void => {
      if (isLeft) next();
      else this.end({ status: "suspended", payload: "null", waits: [{ name, child: true }] });
    };
    if (isAsked && !isDetached) return wait();
    const input = JSON.stringify(`${idempotencyKey(grant, item.number)}/${name}`);
    const asked = { kind: "child" as const, name, workflow: KID, input };
    host.later(host.random.pick([0, 20]), () =>
      this.ask(
        { ...attemptOf(grant, item), ...asked, ...(isDetached ? { detached: true as const } : {}) },
        (verdict) => {
          if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
          if (!isDetached) return wait();
          this.#values[name] = JSON.stringify(startedId(grant.execution, grant, item.number, name));
          next();
        },
      ),
    );
  }

  /** Journals the pages of a map that no earlier attempt has journaled, asks for the child that runs them, and waits for its end. */
  #map(name: string, isAsked: boolean): void {
    const { host, grant, item } = this;
    const wait = (): void =>
      this.end({ status: "suspended", payload: "null", waits: [{ name, child: true }] });
    if (isAsked) return wait();
    const { execution, phase, visit, handler } = grant;
    const place = { execution, phase, visit, handler, task: item.number, name };
    const pages = mapPages(host.world.behaviour.seed, place);
    const go = (page: number): void => {
      if (this.isOver) return;
      const items = pages[page];
      const step = `${name}/${page + 1}`;
      if (items !== undefined && this.#known.some((one) => one.name === step)) return go(page + 1);
      const report =
        items === undefined
          ? {
              kind: "child" as const,
              name,
              workflow: MAPPED,
              input: `${pages.flat().length}`,
              mapped: true as const,
            }
          : { kind: "step" as const, name: step, result: `[${items.join(",")}]`, map: name };
      host.later(host.random.pick([0, 20]), () =>
        this.ask({ ...attemptOf(grant, item), ...report }, (verdict) => {
          if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
          if (items === undefined) wait();
          else go(page + 1);
        }),
      );
    };
    go(0);
  }

  /** Suspends the task until all branches have ended, with all that have not. */
  #waitForAll(branches: readonly Branch[], next: () => void): void {
    const now = this.host.world.clock;
    const waits: TaskWait[] = [];
    for (const { name, ms, anyOf, timeoutMs } of branches) {
      const known = this.#known.find((one) => one.kind !== "run" && one.name === name);
      if (known?.kind === "step") {
        const event = this.host.world.readEvent(this.grant.execution, known.seq);
        if (event?.kind !== "task.step") return this.handBack();
        this.#values[name] = event.result;
      } else if (ms === null) {
        const timeout = timeoutMs === null ? {} : { timeoutMs };
        const [signal = ""] = anyOf;
        waits.push({ name, ...(anyOf.length > 1 ? { anyOf } : { signal }), ...timeout });
      } else if (known?.kind !== "sleep" || known.due > now)
        waits.push({ name, untilMs: known?.kind === "sleep" ? known.due : now + ms });
    }
    if (waits.length === 0) return next();
    this.end({ status: "suspended", payload: "null", waits });
  }

  /** Tries a step within its budget. It is tried once in each attempt, or several times. */
  #try(op: Extract<Op, { kind: "tries" }>, next: () => void): void {
    const known = this.#known.find((one) => one.kind !== "run" && one.name === op.name);
    if (known?.kind === "step") return this.#recall(op, known.seq, next);
    this.#tryOnce(op, known?.kind === "tries" ? known.tries + 1 : 1, next);
  }

  #tryOnce(op: Extract<Op, { kind: "tries" }>, tries: number, next: () => void): void {
    if (this.isOver) return;
    const { host, grant, item } = this;
    const { name, fails, attempts, isCaught } = op;
    host.world.ledger.effects.tried(grant, { task: item.number, name, tries, since: this.#since });
    if (tries > fails) return this.#step(name, next);
    const error = JSON.stringify({ name: "Error", message: `try ${tries} of ${name}` });
    const isLast = tries >= attempts;
    const failure = { ...attemptOf(grant, item), name, tries, error };
    const forMs = host.random.pick([0, 30, 2_000]);
    const report: Report = isLast
      ? { kind: "step.failed", ...failure }
      : { kind: "step.retrying", ...failure, forMs };
    this.ask(report, (verdict) => {
      if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
      host.world.ledger.effects.triedOnce(grant, {
        task: item.number,
        name,
        tries,
        now: host.world.timeline.now,
      });
      if (isLast && isCaught) return this.#goOnAfter(name, next);
      if (isLast) return this.end({ status: "failed", payload: error, fatal: true });
      if (forMs > 1_000)
        return this.end({ status: "suspended", payload: "null", waits: [{ name, forMs, retry: true }] });
      host.later(forMs, () => this.#tryOnce(op, tries + 1, next));
    });
  }

  /** Reads a value or a time-out from the journal. */
  #recall(op: Op, seq: number, next: () => void): void {
    const event = this.host.world.readEvent(this.grant.execution, seq);
    if (event?.kind === "task.step.failed" && op.kind === "tries") {
      if (op.isCaught) return this.#goOnAfter(op.name, next);
      return this.end({ status: "failed", payload: event.error, fatal: true });
    }
    if (event?.kind !== "task.step") {
      this.handBack();
      return;
    }
    this.#values[op.name] = event.result;
    const isChild = op.kind === "child" || op.kind === "map";
    const isCaught = (op.kind === "wait" || isChild) && op.isCaught;
    if (event.error !== null && isCaught && isChild) this.#goOnAfter(op.name, next);
    else if (event.error === null || isCaught) next();
    else this.end({ status: "failed", payload: event.error, fatal: true });
  }

  /** Goes on after the failure of a step or a child. */
  #goOnAfter(name: string, next: () => void): void {
    this.#failures.push(name);
    next();
  }

  #step(name: string, next: () => void): void {
    const { host, grant, item } = this;
    const { effects } = host.world.ledger;
    const { number: task } = item;
    effects.executed(grant, { task, name, since: this.#since });
    const result = JSON.stringify(`${name} by ${this.key}`);
    this.#values[name] = result;
    this.#log();
    host.later(host.random.pick([0, 20]), () =>
      this.ask({ kind: "step", ...attemptOf(grant, item), name, result }, (verdict) => {
        if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
        effects.acknowledged(grant, { task, name, now: host.world.timeline.now });
        next();
      }),
    );
  }

  #finishedRuns(): readonly Extract<Checkpoint, { kind: "run" }>[] {
    if (this.grant.script?.resume !== true) return [];
    return this.#known.filter((known) => known.kind === "run");
  }

  /** Does the unfinished runs of a script. */
  #runScript(
    finished: readonly { readonly seq: number }[],
    end: { trouble: Outcome | "dies" | null; troubleAt: number },
  ): void {
    const last = finished.at(-1);
    let state: string[] = [];
    if (last !== undefined) {
      const event = this.host.world.readEvent(this.grant.execution, last.seq);
      if (event?.kind !== "task.run") return this.handBack();
      state = JSON.parse(event.state) as string[];
    }
    this.#run(finished.length, state, end);
  }

  #run(
    index: number,
    state: readonly string[],
    end: { trouble: Outcome | "dies" | null; troubleAt: number },
  ): void {
    if (this.isOver) return;
    const { host, grant, item } = this;
    const run = grant.script?.runs[index];
    if (end.trouble !== null && index >= end.troubleAt) {
      const { trouble } = end;
      const isSaid = run !== undefined && this.#draw(index, "begun") % 2 === 0;
      if (isSaid) this.#notice({ kind: "run.started", name: run.name, index: null });
      if (trouble === "dies") host.later(isSaid ? 20 : 0, () => host.dies());
      else {
        const stats = { durationMs: 2, memoryBytes: 3 };
        if (run !== undefined && this.#draw(index, "crashed") % 2 === 0)
          this.#notice({ kind: "run.crashed", name: run.name, index, message: "no", stats });
        this.end(trouble);
      }
      return;
    }
    if (run === undefined) {
      const payload = JSON.stringify(state);
      host.later(host.random.pick([0, 50, 400]), () => this.end({ status: "done", payload }));
      return;
    }
    const { name } = run;
    const { effects } = host.world.ledger;
    const { number: task } = item;
    const isKept = grant.script?.resume === true;
    if (isKept) effects.executed(grant, { task, name, since: this.#since });
    if (this.#draw(index, "begun") % 2 === 0) this.#notice({ kind: "run.started", name, index });
    this.#misreport(index);
    const next = [...state, `${name} by ${item.attempt}`];
    this.#log();
    host.later(host.random.pick([0, 5, 100]), () =>
      this.ask(
        {
          kind: "run",
          ...attemptOf(grant, item),
          name,
          index,
          state: JSON.stringify(next),
          oversized: false,
          stats: { durationMs: 1, memoryBytes: 1 },
        },
        (verdict) => {
          if (verdict !== "accepted" && verdict !== "duplicate") return this.handBack();
          if (isKept) effects.acknowledged(grant, { task, name, now: host.world.timeline.now });
          this.#run(index + 1, next, end);
        },
      ),
    );
  }

  /**
   * Sometimes reports something that is never true: a run that the script does not have, a run with the index of another, or a
   * run again with another state.
   */
  #misreport(index: number): void {
    const { grant, item } = this;
    const runs = grant.script?.runs ?? [];
    const wrong = [
      { name: "unknown", index: null },
      { name: runs[index]?.name ?? "unknown", index: index + 1 },
      { name: runs[0]?.name ?? "unknown", index: index > 0 ? 0 : 7 },
    ][checksum(`${this.key}/${index}`, 0) % 12];
    if (wrong === undefined) return;
    const stats = { durationMs: 1, memoryBytes: 1 };
    const run = { kind: "run" as const, ...attemptOf(grant, item), ...wrong, oversized: false, stats };
    this.ask({ ...run, state: '"wrong"' }, (verdict) =>
      must(verdict !== "accepted", `${this.key}: run ${wrong.name} at ${wrong.index} is not taken`),
    );
  }

  #notice(notice: RunNotice): void {
    this.host.send([{ ...attemptOf(this.grant, this.item), ...notice }], () => {});
  }

  #draw(index: number, what: string): number {
    return checksum(`${this.key}/${index}/${what}`, 0);
  }

  /** Sometimes logs a line, which waits for the next report or is sent alone. */
  #log(): void {
    const { random, world } = this.host;
    if (this.isOver || !random.chance(0.3)) return;
    const n = ++this.#lastLine;
    this.#lines.push({ n, at: world.clock, level: "info", text: `${n} of ${this.key}` });
    if (this.#isTelling || !random.chance(0.5)) return;
    this.#isTelling = true;
    const lines = this.#lines.slice();
    this.host.send([this.#logs(lines)], (verdicts) => this.#logged(lines, verdicts[0]?.[0]));
  }

  /** Sends a report together with all unacknowledged lines. */
  #send(report: Report, onVerdict: (verdict: Verdict | undefined) => void): void {
    const lines = this.#lines.slice();
    const times = this.#notesBefore(report);
    const reports = lines.length === 0 ? [...times, report] : [this.#logs(lines), ...times, report];
    this.host.send(reports, (verdicts) => {
      if (lines.length > 0) this.#logged(lines, verdicts[0]?.[0]);
      onVerdict(verdicts.at(-1)?.[0]);
    });
  }

  /** Notes of the code are reported before a checkpoint. An attempt that ends otherwise forgets them. */
  #notesBefore(report: Report): readonly Report[] {
    const isEnd = report.kind === "receipts" && report.receipts[0]?.outcome.status !== "suspended";
    if (isEnd || (Object.keys(this.#times).length === 0 && this.#failures.length === 0)) return [];
    const times = this.#times;
    const failures = this.#failures;
    this.#times = {};
    this.#failures = [];
    return [{ kind: "noted", ...attemptOf(this.grant, this.item), times, failures }];
  }

  #logs(lines: readonly ReportedLine[]): Report {
    return { kind: "logs", ...attemptOf(this.grant, this.item), lines };
  }

  #logged(lines: readonly ReportedLine[], verdict: Verdict | undefined): void {
    this.#isTelling = false;
    const last = lines.at(-1)?.n ?? 0;
    // Lines that are not accepted now never will be: the attempt is over.
    this.#lines = verdict === "accepted" ? this.#lines.filter(({ n }) => n > last) : [];
  }
}
