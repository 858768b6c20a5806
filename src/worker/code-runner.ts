/** Runs user code. Every attempt ends with exactly one receipt, even if it ends before its code does. */
import { isNativeError, isPromise } from "node:util/types";
import type { Outcome } from "../kernel/message.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import type { GrantItem } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { isThenable } from "../std/thenable.ts";
import { AttemptContext, GroupContext, ListingContext, type Shared, TaskContext } from "./context.ts";
import { enumerate } from "./enumerate.ts";
import type { HandlerCode } from "./handler-code.ts";
import { doneWith, handedBack, threw } from "./outcome.ts";
import type { Reporter } from "./reporter.ts";
import { type Running, RunningAttempts } from "./running.ts";
import type { ScriptRunner } from "./script-runner.ts";
import { measureAttempt, type TaskSpan } from "./tracing.ts";

export interface CodeRunnerOptions {
  readonly clock: Clock;
  readonly reporter: Reporter;
  /** Called when asynchronous code has ended, after the turn in which it began. */
  readonly onEnded: () => void;
  /** Called by an enumeration after each full page. Resolves when no granted task is ready to begin, or after a short time. */
  readonly waitForReadyTasks: () => Promise<void>;
  readonly onBug: (thrown: unknown) => void;
}

/** Ends an attempt when the promise of its code settles. It is reused for another attempt afterwards, so that attempts take less memory. */
class Follower {
  running: Running | null = null;
  readonly onResult: (result: unknown) => void;
  readonly onThrown: (thrown: unknown) => void;

  constructor(end: (follower: Follower, outcome: Outcome) => void) {
    this.onResult = (result) => end(this, doneWith(result, this.running?.context.added));
    this.onThrown = (thrown) => end(this, threw(thrown));
  }
}

export class CodeRunner {
  readonly #options: CodeRunnerOptions;
  readonly attempts: RunningAttempts;
  /** Followers that wait for no promise. */
  readonly #free: Follower[] = [];
  #at = 0;
  scripts = 0;

  constructor(options: CodeRunnerOptions) {
    this.#options = options;
    this.attempts = new RunningAttempts(options.clock, (running, outcome) => this.#ended(running, outcome));
  }

  /** The time of the last look at the clock: at the beginning of the turn, or later when code ended or returned a promise. */
  get at(): number {
    return this.#at;
  }

  readClock(): number {
    this.#at = this.#options.clock.now();
    return this.#at;
  }

  /** Runs the code of a task, of a decision about the next phase, or of the workflow's output. */
  beginTask(shared: Shared, item: GrantItem, code: HandlerCode): void {
    const isTask = shared.grant.do === "process" || shared.grant.do === "command";
    const context = isTask ? new TaskContext(shared, item) : new AttemptContext(shared, item);
    const run = (isTask ? code.process : code.answer) as ((context: AttemptContext) => unknown) | undefined;
    const span = startSpan(context);
    const since = this.#at;
    let value: unknown;
    let isPending = false;
    try {
      value = span === null ? run?.(context) : span.run(() => run?.(context));
      isPending = isThenable(value);
    } catch (thrown) {
      this.#settle(context, since, span, context.ending ?? threw(thrown));
      return;
    }
    if (!isPending || context.ending !== null) {
      if (isPending) ignore(value);
      this.#settle(context, since, span, context.ending ?? doneWith(value, context.added));
      return;
    }
    const running = this.attempts.add(context, since, span);
    this.#options.reporter.began(running, this.attempts);
    this.readClock();
    this.#follow(running, value as object);
  }

  /** Waits for the promise of the code, and ends the attempt with its outcome. */
  #follow(running: Running, promise: object): void {
    const follower = this.#free.pop() ?? new Follower(this.#onFollowed);
    follower.running = running;
    // The `then` of another object may throw, or call both callbacks, so its result goes through a real promise. A proxy of a promise is
    // such an object. The `constructor` of a promise may be replaced, and `then` would call it.
    const isPlain =
      isPromise(promise) &&
      Object.getPrototypeOf(promise) === Promise.prototype &&
      !Object.hasOwn(promise, "constructor");
    const real = isPlain ? promise : new Promise((resolve) => resolve(promise));
    void Promise.prototype.then.call(real, follower.onResult, follower.onThrown);
  }

  readonly #onFollowed = (follower: Follower, outcome: Outcome): void => {
    const { running } = follower;
    follower.running = null;
    this.#free.push(follower);
    if (running !== null) this.#finish(running, outcome);
  };

  /** Begins a group of tasks with one call of `processBatch`. */
  beginGroup(shared: Shared, items: readonly GrantItem[], code: HandlerCode): void {
    const context = new GroupContext(shared, items);
    const span = startSpan(context);
    const since = this.#at;
    const all = (thrown: unknown): Outcome[] => items.map(() => threw(thrown));
    let value: unknown;
    let outcomes: readonly Outcome[] | null = null;
    try {
      value = span === null ? code.processBatch?.(context) : span.run(() => code.processBatch?.(context));
      if (!isThenable(value)) outcomes = batchOutcomes(value, items.length);
    } catch (thrown) {
      outcomes = all(thrown);
    }
    this.readClock();
    const attempts = this.attempts.addGroup({ context, since, span }, items);
    const outcomesOf = (results: unknown): readonly Outcome[] => {
      try {
        return batchOutcomes(results, items.length);
      } catch (thrown) {
        // An error object of user code may throw when its fields are read.
        return all(thrown);
      }
    };
    const finish = (ended: readonly Outcome[]): void =>
      attempts.forEach((running, i) => this.#finish(running, ended[i] as Outcome));
    if (outcomes !== null) {
      finish(outcomes);
      return;
    }
    for (const running of attempts) this.#options.reporter.began(running, this.attempts);
    new Promise((resolve) => resolve(value)).then(
      (results) => finish(outcomesOf(results)),
      (thrown: unknown) => finish(all(thrown)),
    );
  }

  beginEnumeration(shared: Shared, item: GrantItem, code: HandlerCode): void {
    const { clock, reporter, waitForReadyTasks, onBug } = this.#options;
    const context = new ListingContext(shared, item);
    const span = startSpan(context);
    const running = this.attempts.add(context, this.#at, span);
    const run = (): Promise<Outcome> =>
      enumerate(context, code, {
        clock,
        waitForReadyTasks,
        sendPage: async (page) => {
          const verdict = context.ask(page);
          // A page of tasks is sent at once, not at the end of the turn.
          reporter.flush();
          return !["stale", "gone", "elsewhere", "gap"].includes((await verdict) ?? "");
        },
      });
    (span === null ? run() : span.run(run))
      .then((outcome) => this.attempts.end(running, outcome))
      .catch(onBug);
    this.readClock();
  }

  beginScript(shared: Shared, item: GrantItem, runner: ScriptRunner): void {
    const { clock, reporter, onEnded, onBug } = this.#options;
    const context = new AttemptContext(shared, item);
    const running = this.attempts.add(context, clock.now(), startSpan(context));
    reporter.began(running, this.attempts);
    this.scripts++;
    runner
      .run(context)
      .catch(threw)
      .then((outcome) => {
        this.scripts--;
        this.#finish(running, outcome);
        // `onEnded` is called even if the attempt ended earlier, because the sandbox has room for another script only now.
        onEnded();
      })
      .catch(onBug);
  }

  /** Ends an attempt whose code ended within the turn in which it began. */
  #settle(context: AttemptContext, since: number, span: TaskSpan | null, outcome: Outcome): void {
    context.close(outcome);
    const ms = this.readClock() - since;
    const told = this.#options.reporter.receipt(context.shared.lead, context.item, ms, outcome);
    measureAttempt(context.shared.grant, ms, told);
    if (span !== null) span.end(told);
  }

  /** Called when the code of a running attempt has ended. If the attempt was cancelled and its code failed, the attempt is handed back. */
  #finish(running: Running, outcome: Outcome): void {
    const isHandedBack = running.isCancelled && outcome.status === "failed";
    this.attempts.end(running, isHandedBack ? handedBack("cancelled") : outcome);
  }

  #ended(running: Running, outcome: Outcome): void {
    const { reporter, clock, onEnded } = this.#options;
    const { context, item, since, span, group } = running;
    const isLast = group === null || group.open === 0;
    if (isLast) context.close(outcome);
    else context.flushLog();
    const ms = clock.now() - since;
    const told = reporter.receipt(context.shared.lead, item, ms, outcome);
    measureAttempt(context.shared.grant, ms, told);
    if (group !== null && told.status !== "done") group.trouble ??= told;
    if (span !== null && isLast) span.end(group?.trouble ?? told);
    // The end of an enumeration is sent at once, not at the end of the turn.
    if (context.shared.grant.do === "enumerate") reporter.flush();
    onEnded();
  }
}

function startSpan(context: AttemptContext): TaskSpan | null {
  const { tracing } = context.shared;
  return tracing === null ? null : tracing.start(context.item);
}

/** Ignores the result of code whose attempt has ended. */
function ignore(value: unknown): void {
  new Promise((resolve) => resolve(value)).catch(() => {});
}

/** Converts the result of `processBatch` to one outcome per task. If the length of the list is wrong, all tasks fail without a retry. */
function batchOutcomes(given: unknown, tasks: number): Outcome[] {
  if (!Array.isArray(given) || given.length !== tasks) {
    const what = Array.isArray(given) ? `a list of ${given.length}` : `no list`;
    const message = `processBatch must return a list with one value or Error for each of its tasks: it returned ${what} for ${tasks}`;
    const outcome = threw(brandFatal(new TypeError(message)));
    return new Array<Outcome>(tasks).fill(outcome);
  }
  // `map` is not used, because it skips empty slots of sparse arrays.
  return Array.from(given, (value: unknown) =>
    value instanceof Error || isNativeError(value) ? threw(value) : doneWith(value),
  );
}
