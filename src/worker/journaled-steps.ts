/**
 * `step`, `sleep`, `waitFor` and `signals` inside `process`. A checkpoint that an earlier attempt journaled under a name is
 * returned. A new step is journaled before the code goes on. A new sleep or wait ends the attempt until it is over, as soon as no
 * step runs beside it; then the receipt has all open waits, and the first answer continues the task. The code between steps runs
 * again in each attempt.
 * A promise of an attempt that is over never settles, so that its code does not go on. A step that contains a sleep cannot end
 * before it, so it is not awaited.
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
import { Heap } from "../std/heap.ts";
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

/** The parts of the attempt that steps need. */
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
  /** Reports an event of the attempt; resolves with the verdict after the commit. */
  readonly ask: (report: Report) => Promise<string | undefined>;
  /** Ends the attempt because the task waits. */
  readonly suspend: (waits: readonly TaskWait[]) => void;
  /** Reports an event of the attempt, without waiting for its verdict. */
  readonly tell: (report: Report) => void;
  /** Ends the attempt because this worker does not own it any more. */
  readonly lose: () => void;
}

/** The longest back-off between two tries that a step waits out in its attempt. A longer one suspends the task. */
const SHORT_BACK_OFF_MS = 1_000;

/** A workflow to start, by its name, with its input as JSON text. */
export interface ChildStart {
  readonly workflow: string;
  readonly input: string;
}

/** The most items of a map. */
const MAP_ITEMS_MAX = 1_000_000;

type Known = Exclude<Checkpoint, { kind: "run" | "time" }>;

/** A step that runs or is being journaled, and the step that contains this one. */
interface Frame {
  readonly above: Frame | undefined;
  /** How many failures the code had got when the step began. */
  readonly failures: number;
  /** The name of the map, if this is one. */
  readonly map?: string;
  /** The name of the step, if this is one. */
  readonly step?: string;
  /** Identifies the current try of the step: each try has a new object. */
  run: object;
}

/** A sleep or wait that ends the attempt when no step runs beside it. */
interface Held {
  readonly above: Frame | undefined;
  /** How many failures the code had got when the wait began. */
  readonly failures: number;
  readonly wait: () => TaskWait;
  /** For a sleep: when it ends, and the function that lets the code go on if it ends within this attempt. */
  readonly due: number | null;
  readonly resolve: () => void;
  stop: (() => void) | null;
}

/** The step that contains the running code. */
const inside = new AsyncLocalStorage<Frame>();

export class JournaledSteps {
  readonly #options: StepsOptions;
  readonly #known = new Map<string, Known>();
  /** The place of each known checkpoint in the order in which they were journaled. */
  readonly #order = new Map<string, number>();
  readonly #replay: ReplayOrder;
  readonly #used = new Set<string>();
  /** The number of step names that earlier attempts did not have. */
  #added = 0;
  readonly #underWay = new Set<Frame>();
  /** Sleeps and waits of this attempt that have no answer, by name. */
  readonly #held = new Map<string, Held>();
  #isReleasing = false;
  /** Times that the code has read, in this attempt or in earlier ones, by name. */
  readonly #times = new Map<string, number>();
  /** Times of this attempt that are not reported yet. */
  #unreported: Record<string, number> = {};
  #clockReads = 0;
  /** Names of steps and children whose failure the code has got in this attempt; true if that is reported. */
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

  /** The time; the same in later attempts if a checkpoint follows. Without a name, it is that of the n-th call. */
  now(name?: string): number {
    const key = name ?? `#${++this.#clockReads}`;
    const known = this.#times.get(key);
    if (known !== undefined) return known;
    if (this.#known.size + this.#times.size >= CHECKPOINTS_MAX)
      throw fatal(
        `a task can have ${CHECKPOINTS_MAX} steps and times; use Date.now() where the time need not stay`,
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
    // The journal may contain an ended sleep as a step.
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
    // The time has passed while other branches ran. Later attempts must find the sleep ended, too.
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

  /** Runs an execution of another workflow, once, and returns its output. The attempt ends while the child runs. */
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

  /** Starts an execution of another workflow, once, and returns its id. */
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
    // The names of batches are longer than that of the map.
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

  /** Runs a handler for each item as a task of a child, and gives a reader of the results. The attempt ends while the child runs. */
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

  /** Called when the attempt has ended: stops the timers of its sleeps. */
  close(): void {
    for (const held of this.#held.values()) held.stop?.();
    this.#held.clear();
  }

  /** Runs a part of the code beside which no sleep or wait ends the attempt. */
  async #besideOthers<T>(
    run: (frame: Frame) => Promise<T>,
    named: Pick<Frame, "map" | "step"> = {},
  ): Promise<T> {
    const frame: Frame = { above: inside.getStore(), failures: this.#failures.size, run: {}, ...named };
    this.#underWay.add(frame);
    try {
      return await inside.run(frame, () => run(frame));
    } finally {
      this.#underWay.delete(frame);
      // The code must first see the result of the step: it may then end the attempt or begin another step.
      if (this.#held.size > 0) this.#release();
    }
  }

  /** Runs a step until it is done or its budget is used up, and journals its outcome. */
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
        if (retry === null) throw thrown;
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
    // Inside a map, a longer back-off is waited out, too: to end the attempt would run the other items again.
    if (ms <= SHORT_BACK_OFF_MS || mapAround(above) !== undefined)
      await new Promise<void>((resolve) => clock.after(ms, resolve));
    else {
      const due = clock.now() + ms;
      const wait = (): TaskWait => ({ name, forMs: Math.max(0, due - clock.now()), retry: true });
      await this.#hold(name, { due, wait, above });
    }
    if (isOver()) await never();
  }

  /** Journals the result of a step; returns the result as later attempts get it. */
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

  /** Reports a step and waits for its commit. If the attempt is lost, its code does not go on. */
  async #report(done: StepResult | StepFailure | ChildRequest, { failures }: Frame): Promise<void> {
    const { grant, item, ask, lose, isOver } = this.#options;
    this.#reportNotes(failures);
    const verdict = await ask({ ...reportedAttempt(grant, item), ...done });
    if (isOver()) return never();
    if (verdict === "accepted" || verdict === "duplicate") return;
    lose();
    return never();
  }

  /**
   * Reports what the code has read, just before the checkpoint that may depend on it: times, and the first `seen` failures that
   * the code has got. A step that began before a failure does not depend on it, though it ends later.
   */
  #reportNotes(seen: number): void {
    const times = this.#unreported;
    const failures = [...this.#failures]
      .slice(0, seen)
      .flatMap(([name, isReported]) => (isReported ? [] : [name]));
    if (Object.keys(times).length === 0 && failures.length === 0) return;
    this.#unreported = {};
    for (const name of failures) this.#failures.set(name, true);
    const { grant, item, tell } = this.#options;
    tell({ ...reportedAttempt(grant, item), kind: "noted", times, failures });
  }

  /** Holds the code at a sleep or wait; resolves only if the time of a sleep passes within this attempt. */
  #hold(
    name: string,
    {
      wait,
      due,
      above = inside.getStore(),
    }: Pick<Held, "wait" | "due"> & { readonly above?: Frame | undefined },
  ): Promise<void> {
    const map = mapAround(above);
    if (map !== undefined)
      throw fatal(
        `"${name}" waits inside of the map "${map}", whose other items would run again: wait before or after the map`,
      );
    return new Promise((resolve) => {
      const failures = this.#failures.size;
      this.#held.set(name, { above, failures, wait, due, resolve, stop: null });
      this.#release();
    });
  }

  /** Ends the attempt in the next turn, if then no step runs beside the sleeps and waits. */
  #release(): void {
    if (this.#isReleasing || this.#held.size === 0) return;
    this.#isReleasing = true;
    // The code may begin other branches in this turn.
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

  /** Whether a step runs that contains none of the sleeps and waits. */
  #runsBeside(): boolean {
    const around = new Set<Frame>();
    for (const { above } of this.#held.values())
      for (let frame = above; frame !== undefined; frame = frame.above) around.add(frame);
    for (const frame of this.#underWay) if (!around.has(frame)) return true;
    return false;
  }

  /** Lets sleeps end within this attempt, because other branches run on. */
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

  /** Checks the name of a step, sleep or wait; returns the checkpoint that is journaled under it. */
  #enter(name: string, what: string): Known | undefined {
    const known = this.#known.get(name);
    const wrong = known === undefined ? whyNoName(name) : null;
    if (wrong !== null) throw fatal(`the name of a ${what} ${wrong} (a name has ${NAME_RULE})`);
    if (this.#used.has(name))
      throw fatal(
        `"${name}" is used twice in one attempt: each step, sleep and wait of a task needs a name of its own`,
      );
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

  /** Reads a checkpoint: its value, or its error. */
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

interface Recalled {
  readonly order: number;
  readonly settle: () => Promise<void>;
}

/**
 * Gives checkpoints of earlier attempts back to the code in the order in which they were journaled, one in each turn. So code
 * that races several branches sees the same winner in every attempt.
 */
class ReplayOrder {
  readonly #clock: Clock;
  /** Called after each turn, when the code has seen a checkpoint. */
  readonly #onTurn: () => void;
  readonly #queue = new Heap<Recalled>((a, b) => a.order < b.order);
  #isRunning = false;

  constructor(clock: Clock, onTurn: () => void) {
    this.#clock = clock;
    this.#onTurn = onTurn;
  }

  /** Whether checkpoints are waiting for their turn. */
  get isBusy(): boolean {
    return this.#isRunning;
  }

  /** Resolves with the value once all checkpoints that were journaled before and are asked for now were given back. */
  recall<T>(order: number, reading: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      // A failed read is reported in its turn.
      reading.catch(() => {});
      this.#queue.push({ order, settle: () => reading.then(resolve, reject) });
      if (this.#isRunning) return;
      this.#isRunning = true;
      this.#clock.soon(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) {
      await next.settle();
      // The code goes on with this value, and may ask for more, before the next one is given back.
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
    this.#isRunning = false;
    this.#onTurn();
  }
}

/**
 * The step that contains the running code; null outside of steps. Throws inside of a map: a later attempt runs only some of its
 * items again, so nothing could say which of their chunks count.
 */
export function stepAround(): StepRun | null {
  for (let one = inside.getStore(); one !== undefined; one = one.above) {
    if (one.map !== undefined)
      throw fatal(`a stream is written inside of the map "${one.map}": write it in steps, or after the map`);
    if (one.step !== undefined) return { step: one.step, run: one.run };
  }
  return null;
}

/** The name of the map that contains a step or a wait; undefined if there is none. */
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

/** The counts of a map that failed: they are not known. */
const NO_COUNTS: MapCounts = { total: 0, done: 0, failed: 0 };

function waitTimeout(name: string, error: string): Error {
  const { message } = (JSON.parse(error) ?? {}) as { message?: unknown };
  return new WaitTimeout(typeof message === "string" ? message : `no signal "${name}" came in time`);
}
