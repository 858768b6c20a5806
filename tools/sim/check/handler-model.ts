/**
 * A model of one handler of a visit, read from the journal: tasks, attempts, checkpoints, waits and children. It is simpler
 * than the kernel's fold and shares no code with it. If the two disagree, one of them is wrong.
 */

import type { HandlerPlan } from "../../../src/kernel/definition/plan.ts";
import type {
  CommandReceipted,
  Event,
  TaskNoted,
  TaskRun,
  TaskRunCrashed,
  TaskRunStarted,
  TaskStep,
  TaskStepFailed,
  TaskStepRetrying,
  TasksLate,
  TasksSettled,
  TasksWaiting,
  TaskWaiting,
} from "../../../src/kernel/event.ts";
import { isUpdate } from "../../../src/kernel/updates.ts";
import { must } from "../trace.ts";
import { countOf, growthSeed } from "../workload/behaviour.ts";
import { programOf } from "../workload/program.ts";
import { GrowthModel } from "./growth-model.ts";

/** The place of a handler, on which its tasks depend. */
type GrowthPlace = Parameters<typeof growthSeed>[1];

type ChildEvent = Extract<Event, { kind: "child.started" | "child.finished" }>;

/** A checkpoint that later attempts get. */
export interface CheckpointModel {
  readonly kind: "step" | "sleep" | "run" | "tries" | "child" | "time";
  readonly name: string;
  /** The sequence number of the event; for a sleep, its end; for failed tries, their number; for a time, itself; for a child, 0. */
  readonly at: number;
  /** The result of a step or the state of a run; null for a sleep, or a wait that timed out. */
  readonly text: string | null;
  /** Whether it is a step that failed for good. */
  readonly failed?: true;
  /** Whether the code has gone on after the failure. */
  readonly passed?: true;
}

interface ProgressModel {
  /** The newest attempt with a journaled event. */
  attempt: number;
  checkpoints: CheckpointModel[];
}

interface WaitModel {
  readonly name: string;
  /** The signals that answer it; empty for a sleep. */
  readonly signals: readonly string[];
  /** When a sleep ends; null for a wait for signals. */
  readonly due: number | null;
}

/** The open waits of a task, and since when it is suspended; null while an attempt may run. */
interface WaitsModel {
  readonly open: readonly WaitModel[];
  readonly since: number | null;
}

/** A retry time that never comes by itself. */
const NOT_BY_TIME = Number.POSITIVE_INFINITY;

export class HandlerModel {
  plan: HandlerPlan;
  /** The plan before the execution was moved, and the time of the first grant since. */
  former: { readonly plan: HandlerPlan; grantedAt: number | null } | null = null;
  readonly #at: string;
  readonly #seed: number;
  total: number;
  sealed: boolean;
  finished = false;
  readonly settled = new Map<number, { status: string; attempt: number }>();
  readonly ended = new Map<number, number>();
  readonly started = new Map<number, number>();
  /** Attempts whose starts a former owner recorded before it ended uncleanly. */
  inDoubt: ReadonlyMap<number, number> = new Map();
  readonly until = new Map<number, number>();
  readonly fails = new Map<number, number>();
  readonly crashes = new Map<number, number>();
  readonly identities = new Set<string>();
  /** The keys of tasks, by number. */
  readonly keys: (string | undefined)[] = [];
  readonly progress = new Map<number, ProgressModel>();
  /** The open run of each task, by its index. */
  readonly openRuns = new Map<number, number>();
  /** Waits by task, in the order in which they began. */
  readonly waiting = new Map<number, WaitsModel>();
  readonly children = new Map<number, { child: string; attempt: number; isOpen: boolean }>();
  /** Children of code, by task and name: whether they are open, and how they ended last. */
  readonly taskChildren = new Map<string, { child: string; isOpen: boolean; status: string | null }>();
  /** Results of commands whose tasks are not done, and the sequence numbers of their events. */
  readonly receipted = new Map<number, { readonly result: string; readonly seq: number }>();
  /** Whether the handler cannot succeed in this round. */
  isHopeless = false;
  /** In a round of chosen tasks, these tasks; null if every task may run. */
  chosen: Set<number> | null = null;
  /** Tasks of which an attempt was recorded in any round. */
  readonly begun = new Set<number>();
  /** Results of tasks that are done, if they may be compensated. */
  readonly results = new Map<number, string>();
  /** Tasks that are not compensated, because they never began. */
  readonly exempt = new Set<number>();
  /** The handler whose tasks this one compensates; null if there is none. */
  origin: HandlerModel | null = null;
  /** Tasks that were added, and tasks that wait for others. */
  readonly growth: GrowthModel;

  constructor(plan: HandlerPlan, at: string, { seed, place }: { seed: number; place: GrowthPlace }) {
    this.plan = plan;
    this.#at = at;
    this.#seed = seed;
    const growth = { seed: growthSeed(seed, place), count: countOf(seed, place, plan.mode === "workflow") };
    this.growth = new GrowthModel(this, at, growth);
    const { tasks, enumerate } = plan.definition;
    // A worker that serves a topic enumerates nothing.
    const isOne = plan.waits || (plan.mode === "command" && tasks === undefined && enumerate === undefined);
    this.total = isOne ? 1 : 0;
    this.sealed = isOne;
  }

  /** Called when the execution was moved to another definition. */
  moved(plan: HandlerPlan): void {
    this.former = { plan: this.plan, grantedAt: null };
    this.plan = plan;
  }

  /** Called for a handler that compensates another one: its tasks are those that are done or may have begun. */
  compensate(origin: HandlerModel): void {
    this.origin = origin;
    // The one task that is the input is not enumerated.
    this.total = Math.max(origin.total, 1 + Math.max(-1, ...origin.begun));
    this.sealed = true;
    for (let task = 0; task < this.total; task++) if (!origin.begun.has(task)) this.exempt.add(task);
  }

  /** The number of tasks that must settle. */
  get needed(): number {
    return this.total - this.exempt.size;
  }

  /** Whether a task or the enumeration has failed for good. */
  get hasFailed(): boolean {
    if (this.isHopeless) return true;
    for (const { status } of this.settled.values()) if (status !== "done") return true;
    return false;
  }

  /** Whether more tasks failed than the definition tolerates. */
  get isFailing(): boolean {
    if (this.isHopeless) return true;
    let failures = 0;
    for (const { status } of this.settled.values()) if (status !== "done") failures++;
    const { tolerate } = this.plan.definition;
    if (typeof tolerate === "string")
      return (
        (this.plan.adds ? this.finished : this.sealed) &&
        failures * 100 > Number.parseFloat(tolerate) * this.total
      );
    return failures > (tolerate ?? 0);
  }

  get openChildren(): number {
    let n = 0;
    for (const { isOpen } of this.children.values()) if (isOpen) n++;
    return n;
  }

  /** All children that are or were asked for. */
  *eachChild(): Generator<{ readonly child: string; readonly isOpen: boolean }> {
    yield* this.children.values();
    yield* this.taskChildren.values();
  }

  checkpoints(task: number): readonly CheckpointModel[] {
    return this.progress.get(task)?.checkpoints ?? [];
  }

  /** Whether the task is closed, so that no report of an attempt changes it any more. */
  isClosed(task: number): boolean {
    return this.settled.has(task) || this.receipted.has(task);
  }

  /** Applies the result of a command. If `holds`, its task is done only after the post-operations. */
  receipt({ task, attempt, result }: CommandReceipted, seq: number, holds: boolean): void {
    const at = `${this.#at}#${task}`;
    must(this.plan.mode === "command" && !this.isClosed(task), `${at}: a command has one result`);
    if (result === null) return;
    this.receipted.set(task, { result, seq });
    if (!holds) return;
    this.begun.add(task);
    this.ended.set(task, Math.max(attempt, this.ended.get(task) ?? 0));
    this.started.delete(task);
    this.until.set(task, NOT_BY_TIME);
  }

  settle(event: TasksSettled, takeSignal: (name: string) => string | undefined): void {
    event.tasks.forEach((task, i) => {
      const attempt = event.attempts[i] as number;
      const status = event.statuses[i] as string;
      const at = `${this.#at}#${task}`;
      must(task < Math.max(this.total, 1), `${at}: a settled task exists`);
      must(!this.exempt.has(task), `${at}: is compensated, and never began`);
      this.#mayRun(task);
      if (attempt > 0) this.begun.add(task);
      else this.growth.checkVerdict(task, event.reasons[i] ?? null);
      must(
        attempt > 0 || (this.growth.openDependency(task) !== null && !this.begun.has(task)),
        `${at}: fails without an attempt, and it could run`,
      );
      if (status === "done" && this.plan.isCompensated) this.results.set(task, event.payloads[i] as string);
      must(!this.settled.has(task), `${at} is counted once`);
      must(!this.openRuns.has(task), `${at}: settled while a run is open`);
      if (status === "done") this.#checkDone(task, attempt, event.payloads[i] as string);
      must(this.children.get(task)?.isOpen !== true, `${at}: settled while its child is open`);
      this.#checkBudget(task, event.reasons[i] ?? null);
      if (this.plan.mode === "command" && status === "done") {
        must(
          this.receipted.get(task)?.result === event.payloads[i],
          `${at}: a command is done with the result that was journaled`,
        );
        this.receipted.delete(task);
      }
      this.settled.set(task, { status, attempt });
      this.started.delete(task);
      this.waiting.delete(task);
      if (status === "done") this.progress.delete(task);
      if (status === "done") this.growth.done(task);
      if (event.reasons[i] === "signalled")
        must(
          takeSignal(this.plan.definition.waitFor ?? "") === event.payloads[i],
          `${at}: a wait takes the oldest signal`,
        );
    });
  }

  start(task: number, attempt: number): void {
    must(!this.isClosed(task), `${this.#at}#${task}: a settled task does not start`);
    this.#mayRun(task);
    must(!this.#isSuspended(task), `${this.#at}#${task}: a task that waits does not start`);
    this.#checkDependencies(task);
    this.started.set(task, attempt);
    this.begun.add(task);
  }

  checkLost(task: number, attempt: number): void {
    must(
      this.started.get(task) === attempt,
      `${this.#at}#${task}: the start of attempt ${attempt}, which is lost, is journaled`,
    );
  }

  /** Applies the end of an attempt that did not settle its task. */
  end(task: number, attempt: number, end: { until: number; burns: "attempt" | "crash" | "nothing" }): void {
    const at = `${this.#at}#${task}`;
    must(!this.isClosed(task), `${at}: a settled task is not retried`);
    must(!this.openRuns.has(task), `${at}: an attempt ends while a run is open`);
    const before = this.ended.get(task) ?? 0;
    // The end of a child has its own event, before the events that follow from it.
    const isNew = this.plan.mode === "workflow" ? attempt === before : attempt > before;
    must(isNew, `${at}: an attempt ends once (attempt ${attempt} after ${before})`);
    this.ended.set(task, attempt);
    this.begun.add(task);
    this.started.delete(task);
    this.until.set(task, end.until);
    if (end.burns === "nothing") return;
    const burnt = end.burns === "crash" ? this.crashes : this.fails;
    burnt.set(task, (burnt.get(task) ?? 0) + 1);
    const { attempts, crashes } = this.plan;
    must((this.fails.get(task) ?? 0) < attempts, `${at}: goes on though it is out of attempts`);
    // If it was lost for the last time, the next event settles it.
    must((this.crashes.get(task) ?? 0) <= crashes, `${at}: goes on though it is out of crashes`);
  }

  /** A late receipt counts only if it is done and no later attempt has begun. */
  late(event: TasksLate): void {
    event.tasks.forEach((task, i) => {
      const isPassed = (this.progress.get(task)?.attempt ?? 0) > (event.attempts[i] as number);
      if (event.accepted[i] === true)
        must(
          event.statuses[i] === "done" && !isPassed && !this.settled.has(task),
          `${this.#at}#${task}: a late word is accepted though it may not be`,
        );
    });
  }

  wait(event: TasksWaiting, now: number): void {
    event.tasks.forEach((task, i) => {
      const attempt = event.attempts[i] as number;
      const name = event.names[i] as string;
      const signal = event.signals[i] ?? null;
      const due = event.dues[i] as number;
      must(!this.#isSuspended(task), `${this.#at}#${task}: waits once at a time`);
      this.end(task, attempt, { until: signal === null ? due : NOT_BY_TIME, burns: "nothing" });
      const wait = { name, signals: signal === null ? [] : [signal], due: signal === null ? due : null };
      this.#suspend(task, attempt, [wait], now);
    });
  }

  /** Applies several waits of a task. If one was answered while the attempt ran, the task continues at once. */
  waitAll(event: TaskWaiting, now: number): void {
    const { task, attempt } = event;
    const at = `${this.#at}#${task}`;
    must(!this.#isSuspended(task), `${at}: waits once at a time`);
    const isAnswered = (name: string) =>
      this.checkpoints(task).some((one) => one.name === name && one.kind === "step");
    const open = event.waits.filter(({ name }) => !isAnswered(name));
    const dues = open.flatMap(({ due }) => due ?? []);
    const isOver = open.length < event.waits.length;
    this.end(task, attempt, { until: isOver ? 0 : Math.min(NOT_BY_TIME, ...dues), burns: "nothing" });
    const waits = open.map(({ name, signals = [], due = null, retry }) => ({ name, signals, due, retry }));
    this.#suspend(task, attempt, waits, isOver ? null : now);
  }

  #suspend(
    task: number,
    attempt: number,
    waits: readonly (WaitModel & { readonly retry?: true | undefined })[],
    since: number | null,
  ): void {
    for (const { name, due, retry } of waits) {
      if (due === null || retry === true) continue;
      const known = this.checkpoints(task).find((other) => other.name === name);
      must(
        known === undefined || (known.kind === "sleep" && known.at === due),
        `${this.#at}#${task}: the sleep ${name} keeps its end (${known?.at}, then ${due})`,
      );
      this.#note(task, attempt, { kind: "sleep", name, at: due, text: null });
    }
    this.waiting.delete(task);
    this.waiting.set(task, { open: waits, since });
    this.#progressOf(task, attempt);
  }

  /** Whether the task waits for signals only. A task that also sleeps may run on when its time has come. */
  #isSuspended(task: number): boolean {
    const waits = this.waiting.get(task);
    return waits !== undefined && waits.since !== null && waits.open.every(({ due }) => due === null);
  }

  /** Signals that tasks wait for without a time limit. */
  get awaited(): string[] {
    return Array.from(this.waiting).flatMap(([task, { open, since }]) =>
      since === null
        ? []
        : open.flatMap(({ name, signals }) => (this.#timeoutOf(task, name) === null ? signals : [])),
    );
  }

  /** A timer for a wait inside a task must have the duration that its code asked for. */
  armed({ task, wait: name }: { task: number; wait: string | undefined }, due: number, now: number): void {
    const open = this.waiting.get(task)?.open ?? [];
    const wait = open.find((one) => name === undefined || one.name === name);
    const timeout = wait === undefined ? null : this.#timeoutOf(task, wait.name);
    must(
      wait !== undefined && timeout !== null && due === now + timeout,
      `${this.#at}#${task}: a timer is set for a wait with a time limit (${wait?.name})`,
    );
  }

  step(
    event: TaskStep,
    { seq, now }: { readonly seq: number; readonly now: number },
    takeSignal: (name: string, id?: string) => string | undefined,
  ): void {
    const { task, attempt, name, reason, result, takes } = event;
    const at = `${this.#at}#${task}`;
    must(!this.settled.has(task), `${at}: a settled task takes no step`);
    const waits = this.waiting.get(task);
    const wait = waits?.open.find((one) => one.name === name);
    if (reason === "done") {
      must(!this.#isSuspended(task), `${at}: takes no step while it waits`);
      must(attempt > (this.ended.get(task) ?? 0), `${at}: an attempt that is over takes no step`);
      must(
        !this.checkpoints(task).some((known) => known.name === name && known.kind === "step"),
        `${at}: step ${name} is done once`,
      );
    } else if (reason === "child") {
      const ended = this.taskChildren.get(`${task}/${name}`);
      must(
        ended?.isOpen === false && (event.error === null) === (ended.status === "done"),
        `${at}: child ${name} has ended as ${ended?.status}`,
      );
      if (waits !== undefined && wait !== undefined) {
        this.waiting.set(task, { open: waits.open.filter((one) => one !== wait), since: null });
        if (waits.since !== null) this.until.set(task, 0);
      }
    } else {
      must(waits !== undefined && wait !== undefined, `${at}: an answer is to what it waits for`);
      this.waiting.set(task, { open: waits.open.filter((one) => one !== wait), since: null });
      if (waits.since !== null) this.until.set(task, 0);
      if (reason === "signalled") {
        const signal = takes?.signal ?? wait.signals[0] ?? "";
        must(wait.signals.includes(signal), `${at}: a wait takes a signal of its own`);
        const data = takeSignal(signal, takes?.id);
        const value: unknown = JSON.parse(data ?? "null");
        const given = isUpdate(signal) ? { id: takes?.id, data: value } : { name: signal, value };
        const answer = takes === undefined ? data : JSON.stringify(given);
        must(answer === result, `${at}: a wait takes the oldest signal`);
        for (const [other, { open, since }] of this.waiting)
          must(
            since === null ||
              waits.since === null ||
              since >= waits.since ||
              open.some(({ due }) => due !== null && due <= now) ||
              !open.some(({ signals }) => signals.includes(signal)),
            `${at}: took a signal before #${other}, which has waited longer`,
          );
      } else must(event.error !== null, `${at}: a wait that is out of time says so`);
    }
    const failed = reason === "child" && event.error !== null ? ({ failed: true } as const) : {};
    this.#note(task, attempt, { kind: "step", name, at: seq, text: result, ...failed });
  }

  /** Applies what code has read: a time is read once, and a failure after which the code has gone on stays. */
  noted({ task, attempt, times = {}, failures = [] }: TaskNoted): void {
    const at = `${this.#at}#${task}`;
    must(!this.settled.has(task), `${at}: a settled task reads no clock`);
    must(attempt > (this.ended.get(task) ?? 0), `${at}: an attempt that is over reads no clock`);
    for (const [name, time] of Object.entries(times)) {
      must(!this.checkpoints(task).some((one) => one.name === name), `${at}: time ${name} is read once`);
      this.#note(task, attempt, { kind: "time", name, at: time, text: JSON.stringify(time) });
    }
    for (const name of failures) {
      const known = this.checkpoints(task).find((one) => one.name === name);
      must(
        known?.failed === true && known.passed !== true,
        `${at}: goes on after the failure of ${name} once`,
      );
      this.#note(task, attempt, { ...known, passed: true });
    }
  }

  /** Applies a failed try of a step: tries are counted, and the last one that the code allows is final. */
  stepFailed(event: TaskStepRetrying | TaskStepFailed, seq: number): void {
    const { task, attempt, name, tries } = event;
    const at = `${this.#at}#${task}`;
    must(!this.settled.has(task), `${at}: a settled task tries no step`);
    must(attempt > (this.ended.get(task) ?? 0), `${at}: an attempt that is over tries no step`);
    const known = this.checkpoints(task).find((one) => one.name === name);
    must(known === undefined || known.kind === "tries", `${at}: step ${name} is tried until it has ended`);
    must(tries > (known?.at ?? 0), `${at}: try ${tries} of ${name} follows ${known?.at ?? 0}`);
    const op = programOf(this.#seed, this.plan.use, task).find((other) => other.name === name);
    const attempts = op?.kind === "tries" ? op.attempts : 0;
    must(
      event.kind === "task.step.failed" ? tries === attempts : tries < attempts,
      `${at}: try ${tries} of ${attempts} of ${name} is the last, or not`,
    );
    this.#note(
      task,
      attempt,
      event.kind === "task.step.failed"
        ? { kind: "step", name, at: seq, text: null, failed: true }
        : { kind: "tries", name, at: tries, text: null },
    );
  }

  run(event: TaskRun, seq: number): void {
    const { task, attempt, index, name, state } = event;
    const at = `${this.#at}#${task}`;
    must(!this.settled.has(task), `${at}: a settled task has no runs`);
    must(attempt > (this.ended.get(task) ?? 0), `${at}: an attempt that is over finishes no run`);
    const before = this.progress.get(task);
    const isFromStart = this.plan.definition.resume === false && attempt > (before?.attempt ?? 0);
    const runs = isFromStart ? [] : (before?.checkpoints ?? []);
    must(index === runs.length, `${at}: run ${index} follows ${runs.length} finished ones`);
    must(this.plan.definition.script?.[index]?.name === name, `${at}: run ${index} of its script is ${name}`);
    const progress = this.#progressOf(task, attempt);
    this.openRuns.delete(task);
    progress.checkpoints = [...runs, { kind: "run", name, at: seq, text: state }];
  }

  /** Applies a notice about a run: it begins after the finished ones, once until it ends. */
  runNotice(event: TaskRunStarted | TaskRunCrashed): void {
    const { task, attempt, index, name } = event;
    const at = `${this.#at}#${task}`;
    must(!this.settled.has(task), `${at}: a settled task has no runs`);
    must(attempt > (this.ended.get(task) ?? 0), `${at}: an attempt that is over has no open run`);
    must(this.plan.definition.script?.[index]?.name === name, `${at}: run ${index} of its script is ${name}`);
    const before = this.progress.get(task);
    const isFromStart = this.plan.definition.resume === false && attempt > (before?.attempt ?? 0);
    const finished = isFromStart ? 0 : (before?.checkpoints.length ?? 0);
    must(index === finished, `${at}: run ${index} begins or crashes after ${finished} finished ones`);
    const isOpen = this.openRuns.get(task) === index;
    if (event.kind === "task.run.started") {
      must(!isOpen, `${at}: run ${index} begins once`);
      this.openRuns.set(task, index);
    } else {
      must(isOpen || event.reason === "crashed", `${at}: run ${index} is open when its attempt ends`);
      this.openRuns.delete(task);
    }
  }

  /** Applies an event of a child that the code of a task runs: it is asked for once at a time, and ends once. */
  #taskChild({ kind, task, attempt, child, status }: ChildEvent, name: string): void {
    const at = `${this.#at}#${task}`;
    const key = `${task}/${name}`;
    const known = this.taskChildren.get(key);
    must(known === undefined || known.child === child, `${at}: ${name} is always the same child`);
    if (kind === "child.finished") {
      must(known?.isOpen === true, `${at}: the child ${name} that ends is waited for`);
      this.taskChildren.set(key, { child, isOpen: false, status: status ?? null });
      return;
    }
    must(!this.settled.has(task), `${at}: a settled task asks for no child`);
    must(
      !this.checkpoints(task).some((one) => one.name === name && one.kind !== "sleep"),
      `${at}: the child ${name} is asked for once`,
    );
    this.taskChildren.set(key, { child, isOpen: true, status: null });
    this.#note(task, attempt, { kind: "child", name, at: 0, text: null });
  }

  child(event: ChildEvent): void {
    const { task, attempt, child, name } = event;
    if (name !== undefined) return this.#taskChild(event, name);
    const at = `${this.#at}#${task}`;
    const known = this.children.get(task);
    must(this.plan.mode === "workflow" && !this.settled.has(task), `${at}: an open task has a child`);
    if (event.kind === "child.started") {
      must(known?.isOpen !== true, `${at}: its child is asked for once at a time`);
      this.#mayRun(task);
      this.#checkDependencies(task);
      must(known === undefined || known.child === child, `${at}: always has the same child`);
      must(attempt === (this.ended.get(task) ?? 0) + 1, `${at}: attempts of a child are numbered`);
      this.children.set(task, { child, attempt, isOpen: true });
      this.begun.add(task);
      const limit = this.plan.definition.concurrency ?? Number.POSITIVE_INFINITY;
      must(
        this.openChildren <= limit,
        `${this.#at}: ${this.openChildren} children run, at most ${limit} may`,
      );
      return;
    }
    must(
      known?.isOpen === true && known.child === child && known.attempt === attempt,
      `${at}: a child that ends is waited for`,
    );
    this.children.set(task, { child, attempt, isOpen: false });
    this.ended.set(task, attempt);
    this.until.set(task, NOT_BY_TIME);
  }

  /** An attempt begins only when all dependencies of its task are done. */
  #checkDependencies(task: number): void {
    const open = this.growth.openDependency(task);
    must(open === null, `${this.#at}#${task}: begins before ${open} is done`);
  }

  #mayRun(task: number): void {
    must(this.chosen?.has(task) !== false, `${this.#at}#${task}: runs, and only chosen tasks may`);
  }

  /** Begins a round of chosen tasks: no task is pending yet. */
  leaveOut(): void {
    this.chosen = new Set();
    this.started.clear();
    this.inDoubt = new Map();
    this.waiting.clear();
  }

  /** Makes chosen tasks pending again, with fresh budgets. */
  retry(tasks: readonly number[], now: number): void {
    this.finished = false;
    for (const task of tasks) {
      const settled = this.settled.get(task);
      must(
        settled === undefined ? this.chosen !== null : settled.status !== "done",
        `${this.#at}#${task}: is retried and had not failed`,
      );
      this.chosen?.add(task);
      this.settled.delete(task);
      this.ended.set(task, Math.max(this.ended.get(task) ?? 0, settled?.attempt ?? 0));
      this.fails.delete(task);
      this.crashes.delete(task);
      this.waiting.delete(task);
      this.until.set(task, this.receipted.has(task) ? NOT_BY_TIME : now);
      const progress = this.progress.get(task);
      if (progress !== undefined) progress.checkpoints = kept(progress.checkpoints);
    }
  }

  /** Begins a new round: unfinished tasks are pending again. Checkpoints stay, except for waits that timed out. */
  reopen(): void {
    this.finished = false;
    this.chosen = null;
    this.isHopeless = false;
    this.started.clear();
    this.inDoubt = new Map();
    this.until.clear();
    this.fails.clear();
    this.crashes.clear();
    this.waiting.clear();
    for (const progress of this.progress.values()) progress.checkpoints = kept(progress.checkpoints);
    for (const [task, { status, attempt }] of [...this.settled]) {
      if (status === "done") continue;
      this.settled.delete(task);
      this.ended.set(task, Math.max(attempt, this.ended.get(task) ?? 0));
    }
    for (const task of this.receipted.keys()) this.until.set(task, NOT_BY_TIME);
  }

  /** A task that fails for lack of attempts or crashes must have used them up. The end that settles it counts too. */
  #checkBudget(task: number, reason: string | null): void {
    const { attempts, crashes } = this.plan;
    const at = `${this.#at}#${task}`;
    const fails = (this.fails.get(task) ?? 0) + 1;
    if (reason === "attempts")
      must(fails >= attempts, `${at}: out of attempts after ${fails} of ${attempts}`);
    // A loss has its own event, before the events that follow from it.
    const died = (this.crashes.get(task) ?? 0) + 1;
    if (reason === "crashes") must(died >= crashes, `${at}: out of crashes after ${died} of ${crashes}`);
  }

  /** A done task was completed by its newest attempt, with the journaled values. */
  #checkDone(task: number, attempt: number, payload: string): void {
    const progress = this.progress.get(task);
    if (progress === undefined) return;
    const at = `${this.#at}#${task}`;
    must(
      progress.attempt <= attempt,
      `${at}: done by attempt ${attempt} though attempt ${progress.attempt} has gone further`,
    );
    const { s: values } = JSON.parse(payload) as { s?: Record<string, string | null> };
    for (const { kind, name, text } of progress.checkpoints)
      if ((kind === "step" || kind === "time") && values !== undefined && name in values)
        must(values[name] === text, `${at}: its result has another ${name} than the journal`);
  }

  #timeoutOf(task: number, name: string): number | null {
    const ops = programOf(this.#seed, this.plan.use, task);
    const branch = ops
      .flatMap((op) => (op.kind === "waits" ? op.branches : []))
      .find((one) => one.name === name);
    if (branch !== undefined) return branch.timeoutMs;
    const op = ops.find((other) => other.name === name);
    return op?.kind === "wait" || op?.kind === "update" ? op.timeoutMs : null;
  }

  #note(task: number, attempt: number, checkpoint: CheckpointModel): void {
    const progress = this.#progressOf(task, attempt);
    const known = progress.checkpoints.findIndex(({ name }) => name === checkpoint.name);
    if (known >= 0) progress.checkpoints[known] = checkpoint;
    else progress.checkpoints.push(checkpoint);
  }

  #progressOf(task: number, attempt: number): ProgressModel {
    const progress = this.progress.get(task) ?? { attempt, checkpoints: [] };
    progress.attempt = Math.max(progress.attempt, attempt);
    this.progress.set(task, progress);
    return progress;
  }
}

/**
 * The checkpoints that a new round keeps: not those of waits that timed out and of failed tries, nor a step that failed for good
 * unless the code has gone on after it.
 */
function kept(checkpoints: readonly CheckpointModel[]): CheckpointModel[] {
  return checkpoints.filter(({ kind, text, failed, passed }) => {
    if (kind === "tries" || kind === "child") return false;
    if (kind !== "step" || text !== null) return true;
    return failed === true && passed === true;
  });
}
