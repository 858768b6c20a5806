/**
 * Implements `step`, `sleep`, `waitFor` and `signals` inside `process`. If an earlier attempt has journaled a checkpoint under
 * the same name, it is returned. A new step is journaled before the code goes on. A new sleep or wait suspends the task: it
 * ends the attempt as soon as no step of another branch is running. The receipt then contains all open waits, and the first one
 * that is answered continues the task.
 * The code between steps runs again in each attempt. After the end of an attempt, its promises never settle, so that its code
 * does not go on. A step that contains a sleep cannot end before the sleep, so the attempt does not wait for such a step.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { LIMITS } from "../kernel/definition/definition.ts";
import { NAME_RULE, whyNoName } from "../kernel/definition/names.ts";
import type { ChildRequest, StepFailure, StepResult, TaskWait } from "../kernel/message.ts";
import { CHECKPOINTS_MAX } from "../kernel/tasks/checkpoint.ts";
import { startedId, taskChildId } from "../kernel/tasks/child-messages.ts";
import { delayMs } from "../kernel/tasks/retry.ts";
import { encodeAttempt, reportedAttempt } from "../protocol/attempt-id.ts";
import { idempotencyKey } from "../protocol/idempotency-key.ts";
import { ChildFailed, MapFailed, readError, StepFailed, WaitTimeout } from "../protocol/step-errors.ts";
import type { UpdateAnswer } from "../protocol/update-answer.ts";
import type { Checkpoint, Grant, GrantItem, Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { StepRun } from "./attempt-streams.ts";
import type {
  MapContext,
  MapHandler,
  ResultsReader,
  StepCode,
  StepContext,
  StepOptions,
  WaitOptions,
} from "./handler-code.ts";
import { type Batch, JournaledMap, journalItems } from "./journaled-map.ts";
import { threw } from "./outcome.ts";
import { ReplayOrder } from "./replay-order.ts";
import { type MapChild, type MapCounts, type ResultsSource, readMap } from "./results-reader.ts";
import {
  fatal,
  matchOf,
  NO_BUDGET,
  readStepOptions,
  refused,
  type StepBudget,
  signalsOf,
} from "./step-options.ts";

/** The parts of the attempt that steps use. */
export interface StepsOptions {
  readonly grant: Grant;
  readonly item: GrantItem;
  readonly clock: Clock;
  readonly results: ResultsSource;
  /** The signal of the attempt, which is aborted when the attempt ends early. */
  readonly signal: () => AbortSignal;
  /** Redacts secrets in the JSON text of an error. */
  readonly redact: (error: string) => string;
  readonly isOver: () => boolean;
  /** Reports an event of the attempt. Resolves with the engine's verdict after the commit. */
  readonly ask: (report: Report) => Promise<string | undefined>;
  /** Ends the attempt because the task waits for something. */
  readonly suspend: (waits: readonly TaskWait[]) => void;
  /** Reports an event of the attempt, without waiting for its verdict. */
  readonly send: (report: Report) => void;
  /** Ends the attempt because this worker no longer has its lease. */
  readonly lose: () => void;
}

/** The longest back-off for which a step waits within its attempt. A longer back-off suspends the task. */
const SHORT_BACK_OFF_MS = 1_000;

/** A workflow to start, by its name, with its input as JSON text. */
export interface ChildStart {
  readonly workflow: string;
  readonly input: string;
}

/** The most items of a map. */
const MAP_ITEMS_MAX = 1_000_000;

type Known = Exclude<Checkpoint, { kind: "run" | "time" }>;

/** A step or map that runs or is being journaled. `above` is the step or map that contains it. */
interface Frame {
  /** The attempt to which the step belongs. */
  readonly of: JournaledSteps;
  readonly above: Frame | undefined;
  /** How many failures of steps and children the code had seen when this step began. */
  readonly failures: number;
  /** The name of the map; undefined if this is not a map. */
  readonly map?: string;
  /** The name of the step; undefined if this is not a step. */
  readonly step?: string;
  /** Identifies the current try of the step: each try has a new object. */
  run: object;
}

/** A sleep or wait that ends the attempt once no step of another branch is running. */
interface Held {
  readonly above: Frame | undefined;
  /** How many failures of steps and children the code had seen when this wait began. */
  readonly failures: number;
  readonly wait: () => TaskWait;
  /** When a sleep ends; null for a wait. `resolve` lets the code go on if the sleep ends within this attempt. */
  readonly due: number | null;
  readonly resolve: () => void;
  stop: (() => void) | null;
}

/**
 * The step that contains the running code. The context of a step also reaches the work that its reports cause in this process, so the
 * code of another attempt may begin in it: each attempt reads its own frames only.
 */
const inside = new AsyncLocalStorage<Frame>();

export class JournaledSteps {
  readonly #options: StepsOptions;
  readonly #known = new Map<string, Known>();
  /** The position of each known checkpoint in the order in which they were journaled. */
  readonly #order = new Map<string, number>();
  readonly #replay: ReplayOrder;
  readonly #used = new Set<string>();
  /** The number of step names in this attempt that earlier attempts did not have. */
  #added = 0;
  readonly #underWay = new Set<Frame>();
  /** Sleeps and waits of this attempt that are not over yet, by name. */
  readonly #held = new Map<string, Held>();
  #isReleasing = false;
  /** Times that the code has read by `now`, in this attempt or in earlier ones, by name. */
  readonly #times = new Map<string, number>();
  /** Times that the code has read in this attempt and that are not reported yet. */
  #unreported: Record<string, number> = {};
  #clockReads = 0;
  /** Names of steps and children whose failure the code has seen in this attempt. The value is true once that is reported. */
  readonly #failures = new Map<string, boolean>();

  constructor(options: StepsOptions) {
    this.#options = options;
    for (const known of options.item.checkpoints ?? []) {
      if (known.kind === "time") this.#times.set(known.name, known.at);
      if (known.kind === "run" || known.kind === "time") continue;
      this.#order.set(known.name, this.#known.size);
      this.#known.set(known.name, known);
    }
    this.#replay = new ReplayOrder(options.clock, () => this.#release());
  }

  async step<T>(name: string, given: StepOptions | StepCode<T>, code?: StepCode<T>): Promise<T> {
    const known = this.#enter(name, "step");
    if (this.#options.isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a step");
    if (known?.kind === "step") return (await this.#recall(name, known, stepFailed)) as T;
    const run = typeof given === "function" ? given : code;
    if (typeof run !== "function") throw fatal(`step "${name}" has no function to run`);
    const budget = typeof given === "function" ? NO_BUDGET : readStepOptions(given, `step "${name}"`);
    if (isRejection(budget)) throw refused(budget);
    return this.#besideOthers((frame) => this.#try(name, run, { budget, frame, known }), { step: name });
  }

  /**
   * Returns the time. Later attempts get the same time if a checkpoint follows. Without a name, the n-th call of each attempt
   * gets the same time.
   */
  now(name?: string): number {
    const key = name ?? `#${++this.#clockReads}`;
    const known = this.#times.get(key);
    if (known !== undefined) return known;
    if (this.#known.size + this.#times.size >= CHECKPOINTS_MAX)
      throw fatal(
        `a task can have at most ${CHECKPOINTS_MAX} steps and journaled times; use Date.now() where the time may differ between attempts`,
      );
    const at = this.#options.clock.now();
    this.#times.set(key, at);
    this.#unreported[key] = at;
    return at;
  }

  async sleep(name: string, duration: Duration): Promise<void> {
    const known = this.#enter(name, "sleep");
    const ms = this.#duration(duration, `sleep "${name}"`);
    const { clock, isOver } = this.#options;
    if (isOver()) return never();
    const now = clock.now();
    // A sleep that ended within an earlier attempt is journaled as a step.
    const isOld = known?.kind === "step" || (known?.kind === "sleep" && known.due <= now);
    if (isOld) return this.#replay.recall(this.#order.get(name) ?? 0, Promise.resolve());
    const due = known?.kind === "sleep" ? known.due : now + ms;
    await this.#hold(name, {
      due,
      wait: () =>
        known?.kind === "sleep"
          ? { name, untilMs: due }
          : { name, untilMs: due, forMs: Math.max(0, due - clock.now()) },
    });
    // The sleep ended within this attempt, while other branches were running. This is journaled, so that later attempts do not sleep again.
    await this.#besideOthers((frame) => this.#journal(name, null, frame));
  }

  async waitFor(name: string, options: WaitOptions = {}): Promise<unknown> {
    const known = this.#enter(name, "waitFor");
    const { timeout, signal = name, match } = options;
    const ms = timeout === undefined ? undefined : this.#duration(timeout, `waitFor "${name}".timeout`);
    const { clock, isOver } = this.#options;
    if (isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a wait");
    if (known?.kind === "step") return this.#recall(name, known, waitTimeout);
    const until = ms === undefined ? undefined : clock.now() + ms;
    const asked = { name, ...signalsOf(name, signal), ...matchOf(name, match) };
    await this.#hold(name, {
      due: null,
      wait: () => (until === undefined ? asked : { ...asked, timeoutMs: Math.max(0, until - clock.now()) }),
    });
    return never();
  }

  /** Runs an execution of another workflow, once per name, and returns its output. The attempt ends while the child runs. */
  async run(name: string, prepare: () => Promise<ChildStart>): Promise<unknown> {
    const known = this.#enter(name, "run");
    if (this.#options.isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a child");
    if (known?.kind === "step") return this.#recall(name, known, childFailed);
    if (known?.kind !== "child")
      await this.#besideOthers(async (frame) =>
        this.#report({ kind: "child", name, ...(await prepare()) }, frame),
      );
    await this.#hold(name, { due: null, wait: () => ({ name, child: true }) });
    return never();
  }

  /** Starts an execution of another workflow, once per name, and returns its id. */
  async start(name: string, prepare: () => Promise<ChildStart>): Promise<string> {
    const known = this.#enter(name, "start");
    if (this.#options.isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a start");
    if (known?.kind === "step") return (await this.#recall(name, known, childFailed)) as string;
    await this.#besideOthers(async (frame) =>
      this.#report({ kind: "child", name, ...(await prepare()), detached: true }, frame),
    );
    const { grant, item } = this.#options;
    return startedId(grant.execution, grant, item.number, name);
  }

  /** Journals the answer to an update, once. */
  async answer(name: string, update: string, answer: UpdateAnswer): Promise<void> {
    const known = this.#enter(name, "answer");
    if (this.#options.isOver()) return never();
    if (known !== undefined) return this.#replay.recall(this.#order.get(name) ?? 0, Promise.resolve());
    const result = toStoredText(answer, { bytesMax: LIMITS.resultBytes, what: "the answer to an update" });
    if (isRejection(result)) throw refused(result);
    await this.#besideOthers((frame) => this.#report({ kind: "step", name, result, answers: update }, frame));
  }

  /** Runs code for each item, and journals the results in batches. */
  async map<Item, Result>(
    name: string,
    items: readonly Item[],
    run: (item: Item, context: MapContext) => Result | Promise<Result>,
    { concurrency = 10 }: { readonly concurrency?: number } = {},
  ): Promise<readonly unknown[]> {
    if (this.#enter(name, "map") !== undefined) throw changed(name, "a step or a sleep", "a map");
    // The name must leave room, because the names of batches are the name of the map plus a number.
    if (whyNoName(`${name}/${MAP_ITEMS_MAX}`) !== null)
      throw fatal(`the name of a map is too long: "${name}"`);
    if (!Array.isArray(items) || items.length > MAP_ITEMS_MAX)
      throw fatal(`map "${name}": items must be an array of at most ${MAP_ITEMS_MAX} items`);
    if (typeof run !== "function") throw fatal(`map "${name}" has no function to run`);
    if (!Number.isInteger(concurrency) || concurrency < 1)
      throw fatal(`map "${name}": concurrency must be a whole number of at least 1`);
    const { clock, signal, isOver } = this.#options;
    if (isOver()) return never();
    return this.#besideOthers(
      async (frame) => {
        const known: unknown[] = [];
        for (;;) {
          const batch = `${name}/${known.length + 1}`;
          const journaled = this.#known.get(batch);
          if (journaled?.kind !== "step") break;
          this.#enter(batch, "map");
          known.push(await this.#recall(batch, journaled, stepFailed));
        }
        const journal = (number: number, value: Batch): Promise<unknown> => {
          const batch = `${name}/${number}`;
          this.#enter(batch, "map");
          return this.#journal(batch, value, frame);
        };
        const idempotencyKey = this.#keyOf(name);
        return new JournaledMap({
          ...{ name, items, run, concurrency, clock, signal, isOver, known, journal, idempotencyKey },
        }).run();
      },
      { map: name },
    );
  }

  /** Runs a handler for each item as a task of a child, and returns a reader of the results. The attempt ends while the child runs. */
  async mapTo(
    name: string,
    items: Iterable<unknown> | AsyncIterable<unknown>,
    { handler: { name: workflow }, ...options }: { readonly handler: MapHandler },
  ): Promise<ResultsReader> {
    const known = this.#enter(name, "map");
    if (typeof workflow !== "string")
      throw fatal(`map "${name}": the handler has no name: give handler({ name, ... })`);
    const [unknown] = Object.entries(options).find(([, value]) => value !== undefined) ?? [];
    if (unknown !== undefined)
      throw fatal(
        `map "${name}": "${unknown}" is an option of the handler: give handler({ ${unknown}, ... })`,
      );
    if (this.#options.isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a map");
    const { grant, item, results } = this.#options;
    const execution = taskChildId(grant.execution, grant, item.number, name);
    const child = { name, execution, attempt: encodeAttempt(reportedAttempt(grant, item)) };
    if (known?.kind === "step") {
      const counts = await this.#recall(name, known, (_, error) => mapFailed(child, error, results));
      return readMap(child, counts as MapCounts, results);
    }
    if (known?.kind !== "child")
      await this.#besideOthers(async (frame) => {
        const total = await journalItems(name, items, {
          known: [...this.#known.values()].flatMap((one) =>
            one.kind === "step" && one.map === name ? [one.name] : [],
          ),
          journal: async (page, result) => {
            if (this.#options.isOver()) return never();
            this.#enter(page, "map");
            if (!this.#known.has(page))
              await this.#report({ kind: "step", name: page, result, map: name }, frame);
          },
        });
        await this.#report({ kind: "child", name, workflow, input: `${total}`, mapped: true }, frame);
      });
    await this.#hold(name, { due: null, wait: () => ({ name, child: true }) });
    return never();
  }

  /**
   * Returns the step that contains the running code; null outside of steps. Throws inside a map: a later attempt runs only some
   * of its items again, so a reader could not tell which chunks are valid.
   */
  stepAround(): StepRun | null {
    for (let one = this.#frame(); one !== undefined; one = one.above) {
      if (one.map !== undefined)
        throw fatal(
          `a stream cannot be written inside the map "${one.map}": write it in steps, or after the map`,
        );
      if (one.step !== undefined) return { step: one.step, run: one.run };
    }
    return null;
  }

  /** Stops the timers of sleeps. Called when the attempt has ended. */
  close(): void {
    for (const held of this.#held.values()) held.stop?.();
    this.#held.clear();
  }

  /** Returns the step or map of this attempt that contains the running code. */
  #frame(): Frame | undefined {
    const frame = inside.getStore();
    return frame?.of === this ? frame : undefined;
  }

  /** Runs a step or map. While it runs, sleeps and waits of other branches do not end the attempt. */
  async #besideOthers<T>(
    run: (frame: Frame) => Promise<T>,
    named: Pick<Frame, "map" | "step"> = {},
  ): Promise<T> {
    const above = this.#frame();
    const frame: Frame = { of: this, above, failures: this.#failures.size, run: {}, ...named };
    this.#underWay.add(frame);
    try {
      return await inside.run(frame, () => run(frame));
    } finally {
      this.#underWay.delete(frame);
      // The check comes one turn later, because the code must first see the result of the step. It may then end the attempt or
      // begin another step.
      if (this.#held.size > 0) this.#release();
    }
  }

  /** Runs a step until it is done or has no tries left, and journals its outcome. */
  async #try<T>(
    name: string,
    run: StepCode<T>,
    { budget, frame, known }: { budget: StepBudget; frame: Frame; known: Known | undefined },
  ): Promise<T> {
    const { clock, isOver, redact } = this.#options;
    const before = known?.kind === "tries" ? known : { tries: 0, due: 0 };
    if (before.due > clock.now()) await this.#backOff(name, before.due - clock.now(), frame);
    const key = this.#keyOf(name);
    for (let tries = before.tries + 1; ; tries++) {
      let value: T;
      frame.run = {};
      try {
        value = await this.#call(run, budget, { attempt: tries, idempotencyKey: key });
      } catch (thrown) {
        if (isOver()) return never();
        const { retry } = budget;
        if (retry === null) {
          await this.#replay.turn();
          if (isOver()) return never();
          throw thrown;
        }
        const { payload, fatal: isFatal, retryAfterMs } = threw(thrown);
        const failure = { name, tries, error: redact(payload) };
        if (isFatal === true || tries >= retry.attempts) {
          await this.#report({ kind: "step.failed", ...failure }, frame);
          this.#failures.set(name, false);
          throw new StepFailed(name, thrown);
        }
        const forMs = delayMs(retry, tries, { id: `${key}/${tries}`, retryAfterMs });
        await this.#report({ kind: "step.retrying", ...failure, forMs }, frame);
        await this.#backOff(name, forMs, frame);
        continue;
      }
      return this.#journal(name, value, frame);
    }
  }

  #keyOf(name: string): string {
    const { grant, item } = this.#options;
    return `${idempotencyKey(grant, item.number)}/${encodeURIComponent(name)}`;
  }

  /** Calls the code of a step once, within its time limit. */
  async #call<T>(
    run: StepCode<T>,
    { timeoutMs }: StepBudget,
    given: Pick<StepContext, "attempt" | "idempotencyKey">,
  ): Promise<T> {
    const { signal: ofAttempt, clock } = this.#options;
    if (timeoutMs === null)
      return run({
        ...given,
        get signal() {
          return ofAttempt();
        },
      });
    const limit = new AbortController();
    const late = new Error(`ran longer than ${timeoutMs} ms`);
    Object.assign(late, { name: "Timeout", code: "timeout" });
    let stop = (): void => {};
    const outOfTime = new Promise<never>((_, reject) => {
      stop = clock.after(timeoutMs, () => {
        limit.abort(late);
        reject(late);
      });
    });
    const signal = AbortSignal.any([ofAttempt(), limit.signal]);
    try {
      return await Promise.race([run({ ...given, signal }), outOfTime]);
    } finally {
      stop();
    }
  }

  /** Waits before the next try of a step. */
  async #backOff(name: string, ms: number, above: Frame): Promise<void> {
    const { clock, isOver } = this.#options;
    // Inside a map, a long back-off does not end the attempt either, because the other items would then run again.
    if (ms <= SHORT_BACK_OFF_MS || mapAround(above) !== undefined)
      await new Promise<void>((resolve) => clock.after(ms, resolve));
    else {
      const due = clock.now() + ms;
      const wait = (): TaskWait => ({ name, forMs: Math.max(0, due - clock.now()), retry: true });
      await this.#hold(name, { due, wait, above });
    }
    if (isOver()) await never();
  }

  /** Journals the result of a step. Returns the result in the form in which later attempts get it. */
  async #journal<T>(name: string, value: T, frame: Frame): Promise<T> {
    if (this.#options.isOver()) return never();
    const result = toStoredText(value, { bytesMax: LIMITS.resultBytes, what: `step "${name}"` });
    if (isRejection(result)) {
      const { code, message, hint, path } = result;
      throw Object.assign(fatal(message), { name: "NotStorable", code, hint, path });
    }
    await this.#report({ kind: "step", name, result }, frame);
    return JSON.parse(result) as T;
  }

  /** Reports a step and waits for its commit. If the attempt has lost its lease, the promise never settles, so its code does not go on. */
  async #report(done: StepResult | StepFailure | ChildRequest, { failures }: Frame): Promise<void> {
    const { grant, item, ask, lose, isOver } = this.#options;
    this.#reportNotes(failures);
    const verdict = await ask({ ...reportedAttempt(grant, item), ...done });
    await this.#replay.turn();
    if (isOver()) return never();
    if (verdict === "accepted" || verdict === "duplicate") return;
    lose();
    return never();
  }

  /**
   * Reports what the code has seen, just before the checkpoint that may depend on it: the times that it has read, and the first `seen`
   * failures of steps and children. A step that began before a failure does not depend on that failure, even if the step ends later.
   */
  #reportNotes(seen: number): void {
    const times = this.#unreported;
    const failures = [...this.#failures]
      .slice(0, seen)
      .flatMap(([name, isReported]) => (isReported ? [] : [name]));
    if (Object.keys(times).length === 0 && failures.length === 0) return;
    this.#unreported = {};
    for (const name of failures) this.#failures.set(name, true);
    const { grant, item, send } = this.#options;
    send({ ...reportedAttempt(grant, item), kind: "noted", times, failures });
  }

  /** Suspends the code at a sleep or wait. The promise resolves only if a sleep ends within this attempt. */
  #hold(
    name: string,
    { wait, due, above = this.#frame() }: Pick<Held, "wait" | "due"> & { readonly above?: Frame | undefined },
  ): Promise<void> {
    const map = mapAround(above);
    if (map !== undefined)
      throw fatal(
        `"${name}" waits inside the map "${map}"; a wait there would make the other items run again: wait before or after the map`,
      );
    return new Promise((resolve) => {
      const failures = this.#failures.size;
      this.#held.set(name, { above, failures, wait, due, resolve, stop: null });
      this.#release();
    });
  }

  /** Suspends the task in the next turn, unless a step of another branch is running then. */
  #release(): void {
    if (this.#isReleasing || this.#held.size === 0) return;
    this.#isReleasing = true;
    // The check waits for the next turn, because the code may begin other branches in this turn.
    this.#options.clock.soon(() => {
      this.#isReleasing = false;
      if (this.#options.isOver() || this.#replay.isBusy || this.#held.size === 0) return;
      if (this.#runsBeside()) return this.#armSleeps();
      const held = [...this.#held.values()];
      const waits = held.map(({ wait }) => wait());
      this.#reportNotes(Math.max(...held.map(({ failures }) => failures)));
      this.#options.suspend(waits);
    });
  }

  /** Whether a step is running that contains none of the open sleeps and waits. */
  #runsBeside(): boolean {
    const around = new Set<Frame>();
    for (const { above } of this.#held.values())
      for (let frame = above; frame !== undefined; frame = frame.above) around.add(frame);
    for (const frame of this.#underWay) if (!around.has(frame)) return true;
    return false;
  }

  /** Starts timers for the sleeps, so that they can end within this attempt while other branches are running. */
  #armSleeps(): void {
    const { clock } = this.#options;
    for (const [name, held] of this.#held) {
      if (held.due === null || held.stop !== null) continue;
      held.stop = clock.after(Math.max(0, held.due - clock.now()), () => {
        this.#held.delete(name);
        if (!this.#options.isOver()) held.resolve();
      });
    }
  }

  /** Checks the name of a step, sleep or wait. Returns the checkpoint that is journaled under the name, if there is one. */
  #enter(name: string, what: string): Known | undefined {
    const known = this.#known.get(name);
    const wrong = known === undefined ? whyNoName(name) : null;
    if (wrong !== null) throw fatal(`the name of a ${what} ${wrong} (a name has ${NAME_RULE})`);
    if (this.#used.has(name)) {
      const isChild = what === "run" || what === "start";
      throw fatal(
        `"${name}" is used twice in one attempt: each step, sleep, wait and child of a task needs a name of its own${isChild ? `, as in ${what}(workflow, input, { name: "second" })` : ""}`,
      );
    }
    this.#used.add(name);
    if (known !== undefined) return known;
    if (this.#known.size + ++this.#added > CHECKPOINTS_MAX)
      throw fatal(
        `a task can have ${CHECKPOINTS_MAX} steps, sleeps and waits over all of its attempts; "${name}" is one more`,
      );
    return undefined;
  }

  #duration(duration: Duration, what: string): number {
    const ms = parseDuration(duration, what);
    if (isRejection(ms)) throw refused(ms);
    return ms;
  }

  /** Reads a checkpoint: returns its value, or throws its error. */
  async #recall(
    name: string,
    { seq }: { readonly seq: number },
    failed: (name: string, error: string) => Error,
  ): Promise<unknown> {
    const { grant, results, isOver } = this.#options;
    const reading = results.checkpoint(grant.execution, seq);
    const found = await this.#replay.recall(this.#order.get(name) ?? 0, reading);
    if (isOver()) return never();
    if ("result" in found) return JSON.parse(found.result) as unknown;
    this.#failures.set(name, false);
    throw failed(name, found.error);
  }
}

/** Returns the name of the map that contains a step or a wait; undefined if there is none. */
function mapAround(frame: Frame | undefined): string | undefined {
  for (let one = frame; one !== undefined; one = one.above) if (one.map !== undefined) return one.map;
  return undefined;
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function changed(name: string, was: string, is: string): Error {
  return fatal(`"${name}" was ${was} in an earlier attempt and is ${is} now: give it another name`);
}

function stepFailed(name: string, error: string): Error {
  return new StepFailed(name, readError(error));
}

function childFailed(_name: string, error: string): Error {
  return new ChildFailed(JSON.parse(error));
}

function mapFailed(child: MapChild, error: string, source: ResultsSource): Error {
  return new MapFailed(JSON.parse(error), child.name, () => readMap(child, NO_COUNTS, source).failures());
}

/** The counts of a map that failed. They are not known, so they are 0. */
const NO_COUNTS: MapCounts = { total: 0, done: 0, failed: 0 };

function waitTimeout(name: string, error: string): Error {
  const { message } = (JSON.parse(error) ?? {}) as { message?: unknown };
  return new WaitTimeout(typeof message === "string" ? message : `no signal "${name}" came in time`);
}
