/**
 * `step`, `sleep` and `waitFor` inside `process`. A checkpoint that an earlier attempt journaled under a name is returned. A
 * new step is journaled before the code goes on; a new sleep or wait ends the attempt until it is over. The code between them
 * runs again in each attempt.
 * A promise of an attempt that is over never settles, so that its code does not go on. Steps that run beside a sleep or a wait
 * are journaled before the attempt ends, because they would otherwise run twice. A step that contains the sleep cannot end
 * before it, so it is not awaited.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { LIMITS } from "../kernel/definition/definition.ts";
import { NAME_RULE, whyNoName } from "../kernel/definition/names.ts";
import type { TaskWait } from "../kernel/message.ts";
import { CHECKPOINTS_MAX } from "../kernel/tasks/checkpoint.ts";
import { reportedAttempt } from "../protocol/attempt-id.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import type { Checkpoint, Grant, GrantItem, Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { ResultsSource } from "./results-reader.ts";

/** The parts of the attempt that steps need. */
export interface StepsOptions {
  readonly grant: Grant;
  readonly item: GrantItem;
  readonly clock: Clock;
  readonly results: ResultsSource;
  readonly isOver: () => boolean;
  /** Reports an event of the attempt; resolves with the verdict after the commit. */
  readonly ask: (report: Report) => Promise<string | undefined>;
  /** Ends the attempt because the task waits. */
  readonly suspend: (wait: TaskWait) => void;
  /** Ends the attempt because this worker does not own it any more. */
  readonly lose: () => void;
}

/** A step that runs or is being journaled, and the step that contains this one. */
interface Frame {
  readonly above: Frame | undefined;
}

/** The step that contains the running code. */
const inside = new AsyncLocalStorage<Frame>();

export class JournaledSteps {
  readonly #options: StepsOptions;
  readonly #known: ReadonlyMap<string, Checkpoint>;
  readonly #used = new Set<string>();
  /** The number of step names that earlier attempts did not have. */
  #added = 0;
  readonly #underWay = new Set<Frame>();
  /** A sleep or a wait that ends the attempt when no step runs beside it. */
  #held: { readonly suspend: () => void; readonly above: Frame | undefined } | null = null;

  constructor(options: StepsOptions) {
    this.#options = options;
    this.#known = new Map((options.item.checkpoints ?? []).map((known) => [known.name, known]));
  }

  async step<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    const known = this.#enter(name, "step");
    if (this.#options.isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a step");
    if (known !== undefined) return (await this.#read(name, known)) as T;
    if (typeof run !== "function") throw fatal(`step "${name}" has no function to run`);
    const frame = { above: inside.getStore() };
    this.#underWay.add(frame);
    try {
      return await inside.run(frame, () => this.#run(name, run));
    } finally {
      this.#underWay.delete(frame);
      // The code must first see the result of the step: it may then end the attempt or begin another step.
      if (this.#held !== null) this.#options.clock.soon(() => this.#release());
    }
  }

  /** Runs a step and journals its result. */
  async #run<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    const value = await run();
    if (this.#options.isOver()) return never();
    const result = toStoredText(value, { bytesMax: LIMITS.resultBytes, what: `step "${name}"` });
    if (isRejection(result)) {
      const { code, message, hint, path } = result;
      throw Object.assign(fatal(message), { name: "NotStorable", code, hint, path });
    }
    const { grant, item, ask, lose } = this.#options;
    const verdict = await ask({ kind: "step", ...reportedAttempt(grant, item), name, result });
    if (this.#options.isOver()) return never();
    if (verdict === "accepted" || verdict === "duplicate") return JSON.parse(result) as T;
    lose();
    return never();
  }

  async sleep(name: string, duration: Duration): Promise<void> {
    const known = this.#enter(name, "sleep");
    const ms = this.#duration(duration, `sleep "${name}"`);
    const { clock, suspend, isOver } = this.#options;
    if (isOver()) return never();
    const now = clock.now();
    // The journal may contain an ended sleep as a step.
    if (known?.kind === "step" || (known?.kind === "sleep" && known.due <= now)) return;
    this.#suspend(() =>
      suspend(
        known?.kind === "sleep"
          ? { name, untilMs: known.due }
          : { name, untilMs: now + ms, forMs: Math.max(0, now + ms - clock.now()) },
      ),
    );
    return never();
  }

  async waitFor(name: string, options: { timeout?: Duration } = {}): Promise<unknown> {
    const known = this.#enter(name, "waitFor");
    const { timeout } = options;
    const ms = timeout === undefined ? undefined : this.#duration(timeout, `waitFor "${name}".timeout`);
    const { clock, suspend, isOver } = this.#options;
    if (isOver()) return never();
    if (known?.kind === "sleep") throw changed(name, "a sleep", "a wait");
    if (known !== undefined) return this.#read(name, known);
    const until = ms === undefined ? undefined : clock.now() + ms;
    this.#suspend(() =>
      suspend({
        name,
        signal: name,
        ...(until === undefined ? {} : { timeoutMs: Math.max(0, until - clock.now()) }),
      }),
    );
    return never();
  }

  /** Ends the attempt as soon as no step runs beside the sleep or wait. Only the first call has an effect. */
  #suspend(suspend: () => void): void {
    this.#held ??= { suspend, above: inside.getStore() };
    this.#release();
  }

  #release(): void {
    if (this.#held === null || this.#options.isOver()) return;
    let beside = this.#underWay.size;
    for (let frame = this.#held.above; frame !== undefined; frame = frame.above)
      if (this.#underWay.has(frame)) beside--;
    if (beside === 0) this.#held.suspend();
  }

  /** Checks the name of a step, sleep or wait; returns the checkpoint that is journaled under it. */
  #enter(name: string, what: string): Exclude<Checkpoint, { kind: "run" }> | undefined {
    const known = this.#known.get(name);
    const wrong = known === undefined ? whyNoName(name) : null;
    if (wrong !== null) throw fatal(`the name of a ${what} ${wrong} (a name has ${NAME_RULE})`);
    if (this.#used.has(name))
      throw fatal(
        `"${name}" is used twice in one attempt: each step, sleep and wait of a task needs a name of its own`,
      );
    this.#used.add(name);
    if (known !== undefined && known.kind !== "run") return known;
    if (this.#known.size + ++this.#added > CHECKPOINTS_MAX)
      throw fatal(
        `a task can have ${CHECKPOINTS_MAX} steps, sleeps and waits over all of its attempts; "${name}" is one more`,
      );
    return undefined;
  }

  #duration(duration: Duration, what: string): number {
    const ms = parseDuration(duration, what);
    if (isRejection(ms)) throw fatal(ms.hint === undefined ? ms.message : `${ms.message} (${ms.hint})`);
    return ms;
  }

  /** Reads a checkpoint: its value, or the error of a wait that timed out. */
  async #read(name: string, known: { readonly seq: number }): Promise<unknown> {
    const { grant, results, isOver } = this.#options;
    const found = await results.checkpoint(grant.execution, known.seq);
    if (isOver()) return never();
    if ("result" in found) return JSON.parse(found.result) as unknown;
    throw waitTimeout(name, found.error);
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

/** Makes an error that would be the same in every attempt, so that the task is not retried. */
function fatal(message: string): Error {
  return brandFatal(new Error(message));
}

function changed(name: string, was: string, is: string): Error {
  return fatal(`"${name}" was ${was} in an earlier attempt and is ${is} now: give it another name`);
}

/**
 * Makes the error of a wait that timed out. It is fatal unless the code catches it: the time-out is journaled and will not
 * change.
 */
function waitTimeout(name: string, error: string): Error {
  const { message } = (JSON.parse(error) ?? {}) as { message?: unknown };
  const text = typeof message === "string" ? message : `no signal "${name}" came in time`;
  return Object.assign(fatal(text), { name: "WaitTimeout", code: "wait_timeout" });
}
