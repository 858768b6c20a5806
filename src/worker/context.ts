/** The context objects of user code. Costly parts (abort signal, readers, logs, steps) are made on first use. */
import type { Outcome, RunNotice } from "../kernel/message.ts";
import { encodeAttempt, reportedAttempt } from "../protocol/attempt-id.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import { idempotencyKey } from "../protocol/idempotency-key.ts";
import type { Grant, GrantItem, Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import type {
  BatchAttempt,
  BatchContext,
  EnumerateContext,
  HandlerCode,
  Log,
  PhasesReader,
  ProcessContext,
} from "./handler-code.ts";
import { JournaledSteps } from "./journaled-steps.ts";
import { AttemptLog } from "./log/attempt-log.ts";
import { showParts } from "./log/log-text.ts";
import type { Secrets } from "./log/secrets.ts";
import { handedBack } from "./outcome.ts";
import type { Reporter } from "./reporter.ts";
import { type ResultsSource, readPhases } from "./results-reader.ts";
import type { Running } from "./running.ts";
import type { Tracing } from "./tracing.ts";

/** The parts that all attempts of a worker share. */
export interface Around {
  readonly clock: Clock;
  readonly results: ResultsSource;
  readonly reporter: Reporter;
  readonly secrets: Secrets;
  /** Called at once with the values of each logged line, or with a redacted text if the worker has secrets. */
  readonly onLog: (grant: Grant, item: GrantItem, level: string, parts: readonly unknown[]) => void;
  /** Why steps and earlier results are not available at this worker; null if they are. */
  readonly lacks: string | null;
  /** Ends an attempt whose code still runs. */
  readonly end: (running: Running, outcome: Outcome) => void;
}

/** The parts that all contexts of one grant share. */
export interface Shared {
  readonly grant: Grant;
  /** The grant under which receipts are gathered: consecutive grants of one handler are reported together. */
  readonly lead: Grant;
  readonly code: HandlerCode | undefined;
  /** The input of the workflow as handlers get it. */
  readonly input: unknown;
  readonly around: Around;
  /** The tracing of the grant; null: the program has no tracer. */
  readonly tracing: Tracing | null;
}

interface LineOptions {
  readonly text?: string;
  readonly run?: string;
}

class Extras {
  controller: AbortController | null = null;
  phases: PhasesReader | null = null;
  lines: AttemptLog | null = null;
  log: Log | null = null;
  steps: JournaledSteps | null = null;
}

/** The members of every context. `item` is the attempt that its logs belong to. */
export class AttemptContext {
  readonly shared: Shared;
  readonly item: GrantItem;
  /** The outcome of the attempt, after which the result of its code is ignored; null while the attempt is open. */
  ending: Outcome | null = null;
  /** The running attempt, once its code has returned a promise; null before. */
  running: Running | null = null;
  #extras: Extras | null = null;

  constructor(shared: Shared, item: GrantItem) {
    this.shared = shared;
    this.item = item;
  }

  get execution(): string {
    return this.shared.grant.execution;
  }

  get attempt(): number {
    return this.item.attempt;
  }

  get attemptId(): string {
    return idOf(this.shared.grant, this.item);
  }

  get now(): () => number {
    const { clock } = this.shared.around;
    return () => clock.now();
  }

  get input(): unknown {
    return this.shared.input;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get phases(): PhasesReader {
    const { grant, around } = this.shared;
    if (around.lacks !== null && grant.phases.length === 0) throw brandFatal(new Error(around.lacks));
    this.extras.phases ??= readPhases(grant.execution, grant.phases, around.results, grant.input);
    return this.extras.phases;
  }

  get log(): Log {
    const at =
      (level: string) =>
      (...parts: unknown[]) =>
        this.write(level, parts);
    this.extras.log ??= Object.assign(at("info"), {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
    });
    return this.extras.log;
  }

  get secret(): (value: string) => string {
    return (value) => {
      this.shared.around.secrets.add(value);
      return value;
    };
  }

  /** Logs values, shown as `text`. `run` is the run of a script that logged them. */
  write(level: string, parts: readonly unknown[], { text = showParts(parts), run }: LineOptions = {}): void {
    const { grant, around } = this.shared;
    around.onLog(grant, this.item, level, around.secrets.isEmpty ? parts : [around.secrets.redact(text)]);
    if (this.ending === null) this.#lines.write(level, text, run);
  }

  /** Reports that a run of a script began or crashed, after the lines that were logged before. */
  notice(notice: RunNotice): void {
    if (this.ending === null) this.#lines.notice(notice);
  }

  get #lines(): AttemptLog {
    const { grant, around } = this.shared;
    this.extras.lines ??= new AttemptLog(reportedAttempt(grant, this.item), {
      clock: around.clock,
      secrets: around.secrets,
      onLines: (log, isFull) => around.reporter.logged(log, isFull),
    });
    return this.extras.lines;
  }

  /** Reports the lines logged so far. Called before any other report of the attempt. */
  flushLog(): void {
    const lines = this.#extras?.lines ?? null;
    if (lines !== null) this.shared.around.reporter.reportLogs(lines);
  }

  /** Reports an event of the attempt after its logs; resolves with the verdict. */
  ask(report: Report): Promise<string | undefined> {
    this.flushLog();
    return this.shared.around.reporter.ask(report);
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Ends the attempt before its code ends: the code's signal is aborted and its result is ignored. */
  endWith(outcome: Outcome, reason: Error): void {
    if (this.ending !== null) return;
    this.ending = outcome;
    if (this.running !== null) this.shared.around.end(this.running, outcome);
    this.abort(reason);
  }

  close(outcome: Outcome): void {
    this.flushLog();
    this.ending = outcome;
  }

  get #controller(): AbortController {
    this.extras.controller ??= new AbortController();
    return this.extras.controller;
  }

  protected get extras(): Extras {
    this.#extras ??= new Extras();
    return this.#extras;
  }
}

export class TaskContext extends AttemptContext implements ProcessContext {
  readonly task: unknown;

  constructor(shared: Shared, item: GrantItem) {
    super(shared, item);
    this.task = taskOf(shared, item);
  }

  get number(): number {
    return this.item.number;
  }

  get idempotencyKey(): string {
    return idempotencyKey(this.shared.grant, this.item.number);
  }

  get outcome(): ProcessContext["outcome"] {
    return this.item.compensates?.outcome;
  }

  get result(): unknown {
    const result = this.item.compensates?.result ?? null;
    return result === null ? undefined : (JSON.parse(result) as unknown);
  }

  get progress(): (done: number, total?: number) => void {
    return (done, total) =>
      this.write("progress", [done, total], { text: total === undefined ? `${done}` : `${done}/${total}` });
  }

  get step(): ProcessContext["step"] {
    return (name, run) => this.#steps.step(name, run);
  }

  get sleep(): ProcessContext["sleep"] {
    return (name, duration) => this.#steps.sleep(name, duration);
  }

  get waitFor(): ProcessContext["waitFor"] {
    const wait: ProcessContext["waitFor"] = (name, options) => this.#steps.waitFor(name, options);
    return this.shared.code?.parsingWait?.(wait) ?? wait;
  }

  get #steps(): JournaledSteps {
    const { lacks } = this.shared.around;
    if (lacks !== null) throw brandFatal(new Error(lacks));
    this.extras.steps ??= new JournaledSteps({
      grant: this.shared.grant,
      item: this.item,
      clock: this.shared.around.clock,
      results: this.shared.around.results,
      isOver: () => this.ending !== null,
      ask: (report) => this.ask(report),
      suspend: (wait) =>
        this.endWith({ status: "suspended", payload: "null", wait }, new Error("the task waits")),
      lose: () => this.endWith(handedBack("lost"), new Error("lease lost")),
    });
    return this.extras.steps;
  }
}

/** The context of several tasks in one call of `processBatch`. Its logs belong to the first task. */
export class GroupContext extends AttemptContext implements BatchContext {
  readonly tasks: readonly unknown[];
  readonly #items: readonly GrantItem[];

  constructor(shared: Shared, items: readonly GrantItem[]) {
    super(shared, items[0] as GrantItem);
    this.#items = items;
    this.tasks = items.map((item) => taskOf(shared, item));
  }

  get attempts(): readonly BatchAttempt[] {
    const { grant } = this.shared;
    return this.#items.map((item) => ({
      number: item.number,
      attempt: item.attempt,
      attemptId: idOf(grant, item),
      idempotencyKey: idempotencyKey(grant, item.number),
    }));
  }
}

function idOf(grant: Grant, item: GrantItem): string {
  return encodeAttempt(reportedAttempt(grant, item));
}

function taskOf({ code, input }: Shared, { task }: GrantItem): unknown {
  return code?.taskIsInput === true ? input : (JSON.parse(task ?? "null") as unknown);
}

export class ListingContext extends AttemptContext implements EnumerateContext {
  /** Whether the code has read `resume`. If it has, the code continues after the journaled items. */
  resumed = false;

  get resume(): EnumerateContext["resume"] {
    const { resume } = this.shared.grant;
    if (resume === null) return undefined;
    // Only a read of a member of `resume` counts; a read of `resume` itself does not.
    const read = <T>(value: T): T => {
      this.resumed = true;
      return value;
    };
    return {
      get count() {
        return read(resume.count);
      },
      get last() {
        return read(JSON.parse(resume.last) as unknown);
      },
    };
  }
}
