/**
 * Watches one script attempt in a sandbox process (the child), from the side of the worker. It enforces limits, checks the
 * order of reports, and passes events on. A child that violates the order, a format or a limit counts as hostile and is killed.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";
import type { Clock } from "../../std/clock.ts";
import { byteLength, toStoredText } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type CheckedReport, readReport } from "./report-check.ts";
import type { SandboxChild } from "./sandbox-child.ts";
import type { ScriptAttempt, ScriptEnd, ScriptEvent, ScriptLimits, ScriptRun } from "./script-attempt.ts";

export interface WatchOptions {
  readonly child: SandboxChild;
  readonly attempt: ScriptAttempt;
  readonly limits: ScriptLimits;
  readonly clock: Clock;
  readonly onEvent: (event: ScriptEvent) => void;
  /** Called once, at the end of the attempt. */
  readonly onEnd: (end: ScriptEnd) => void;
}

/** The child process ends a run at its time limit by itself. If it does not, it is killed this much later. */
const GRACE_MS = 50;
/** The longest time until a run starts, counted from the request to the child or from the end of the previous run. */
const START_MS = 2_000;
const MEMORY_CHECK_MS = 50;
/**
 * The memory that Node itself needs in the child. The limit of a script is counted `MEMORY_COPIES` times, because garbage of
 * the previous run may still be in memory.
 */
const NODE_BYTES = 160 * 1_048_576;
const MEMORY_COPIES = 2;

export class AttemptWatch {
  readonly #options: WatchOptions;
  readonly #runs: readonly ScriptRun[];
  #state: string;
  /** The index of the current run among the runs that were sent to the child. */
  #current = 0;
  #started = false;
  #startedAt = 0;
  #memoryBytes = 0;
  #ended = false;
  #logLines = 0;
  #logBytes = 0;
  #stopTimer: () => void = () => {};
  #stopLooking: () => void = () => {};

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#runs = options.attempt.runs.slice(options.attempt.finished ?? 0);
    this.#state = options.attempt.state;
  }

  /** Sends the runs of the attempt to the child process, which must be idle. */
  begin(): void {
    const { attempt, child, limits } = this.#options;
    child.listener = {
      line: (line) => this.#takeLine(line),
      ended: (why) => this.#crash(why),
    };
    if (this.#runs.length === 0) {
      this.#end({ kind: "done", state: this.#state, oversized: false });
      return;
    }
    child.send({
      kind: "attempt",
      runs: this.#runs.map((run) => ({
        name: run.name,
        expression: run.expression,
        timeoutMs: run.timeoutMs ?? limits.timeoutMs,
      })),
      state: attempt.state,
      input: attempt.input,
      attempt: attempt.attempt,
      limits: { ...limits, errorChars: LIMITS.errorChars },
    });
    this.#armTimer(START_MS);
    this.#checkMemory();
  }

  /** Stops the attempt at once and kills its child process. */
  cancel(reason: string): void {
    this.#kill({ kind: "cancelled", run: this.#started ? this.#run().name : null, reason });
  }

  #takeLine(line: string | null): void {
    if (this.#ended) return;
    const report = line === null ? null : readReport(line);
    if (report === null) this.#distrust("sent a line that is not a report");
    else this.#takeReport(report);
  }

  #takeReport(report: CheckedReport): void {
    if (report.kind === "ready" || report.kind === "probed") {
      this.#distrust(`sent the report "${report.kind}", which is not allowed during an attempt`);
      return;
    }
    const starts = report.kind === "run_started";
    if (report.run !== this.#current || starts === this.#started) {
      this.#distrust(`sent the report "${report.kind}" out of order`);
      return;
    }
    const { name } = this.#run();
    switch (report.kind) {
      case "run_started":
        this.#started = true;
        this.#startedAt = this.#options.clock.now();
        this.#armTimer(0);
        this.#options.onEvent({ kind: "run_started", run: name });
        break;
      case "log":
        this.#takeLog(report);
        break;
      case "run_finished":
        this.#finishRun(report);
        break;
      case "run_failed": {
        const { line, fatal } = report;
        const error = { name: shown(report.name), message: shown(report.message) };
        this.#end({ kind: "failed", run: name, error: line === null ? error : { ...error, line }, fatal });
        break;
      }
      case "run_killed":
        this.#kill(report.limit === "time" ? this.#outOfTime() : this.#outOfMemory());
        break;
    }
  }

  #takeLog({ level, text }: CheckedReport & { kind: "log" }): void {
    const { limits, onEvent } = this.#options;
    const bytes = byteLength(text);
    this.#logLines += 1;
    this.#logBytes += bytes;
    // One line more than the limit is allowed, for the notice that the logs end.
    const lines = limits.logLines + 1;
    if (bytes > limits.logLineBytes || this.#logLines > lines || this.#logBytes > 2 * limits.logBytes)
      this.#distrust("wrote more log lines or bytes than the limits allow");
    else onEvent({ kind: "log", run: this.#run().name, level, text: text.toWellFormed() });
  }

  #finishRun({ state: text, durationMs, memoryBytes }: CheckedReport & { kind: "run_finished" }): void {
    const { limits, onEvent } = this.#options;
    const run = this.#run().name;
    const state = checkState(text, limits.stateBytesMax);
    if (isRejection(state)) {
      const { message, hint } = state;
      const error = { name: "NotStorable", message, ...(hint === undefined ? {} : { hint }) };
      // The child process is killed, because it would go on with the next run.
      this.#kill({ kind: "failed", run, error, fatal: true });
      return;
    }
    const oversized = byteLength(state) > limits.stateBytesMarked;
    this.#state = state;
    this.#started = false;
    this.#current += 1;
    onEvent({ kind: "run_finished", run, state, oversized, stats: { durationMs, memoryBytes } });
    if (this.#ended) return;
    if (this.#current === this.#runs.length) this.#end({ kind: "done", state, oversized });
    else this.#armTimer(START_MS);
  }

  #armTimer(moreMs: number): void {
    const { clock, limits } = this.#options;
    const run = this.#current;
    this.#stopTimer();
    const timeoutMs = this.#run().timeoutMs ?? limits.timeoutMs;
    this.#stopTimer = clock.after(timeoutMs + GRACE_MS + moreMs, () => {
      // The kill waits for one turn: if this process was busy, the report that ends the run may have arrived and not been read yet.
      clock.soon(() => {
        if (this.#current === run) this.#kill(this.#outOfTime());
      });
    });
  }

  #checkMemory(): void {
    const { child, clock, limits } = this.#options;
    this.#stopLooking = clock.after(MEMORY_CHECK_MS, () => {
      const bytes = child.residentBytes();
      this.#memoryBytes = bytes ?? this.#memoryBytes;
      if (bytes !== null && bytes > NODE_BYTES + MEMORY_COPIES * limits.memoryBytes)
        this.#kill(this.#outOfMemory());
      else this.#checkMemory();
    });
  }

  #outOfTime(): ScriptEnd {
    const { name, timeoutMs } = this.#run();
    const limit = timeoutMs ?? this.#options.limits.timeoutMs;
    return { kind: "killed", run: name, limit: "time", message: `run ${name} took longer than ${limit} ms` };
  }

  #outOfMemory(): ScriptEnd {
    const { name } = this.#run();
    const mebibytes = Math.round(this.#options.limits.memoryBytes / 1_048_576);
    return {
      kind: "killed",
      run: name,
      limit: "memory",
      message: `run ${name} used more than ${mebibytes} MiB of memory`,
    };
  }

  #distrust(what: string): void {
    const message = `the sandbox process ${what}`;
    this.#kill({ kind: "killed", run: this.#run().name, limit: "security", message });
  }

  #crash(message: string): void {
    if (this.#ended) return;
    this.#end({ kind: "crashed", run: this.#started ? this.#run().name : null, message });
  }

  #kill(end: ScriptEnd): void {
    if (this.#ended) return;
    this.#options.child.kill();
    this.#end(end);
  }

  #end(end: ScriptEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopTimer();
    this.#stopLooking();
    const { child, clock, onEvent, onEnd } = this.#options;
    child.listener = null;
    if (this.#started && end.kind !== "done" && end.kind !== "cancelled") {
      const message = end.kind === "failed" ? `${end.error.name}: ${end.error.message}` : end.message;
      const stats = { durationMs: clock.now() - this.#startedAt, memoryBytes: this.#memoryBytes };
      onEvent({ kind: "run_crashed", run: this.#run().name, message, stats });
    }
    onEnd(end);
  }

  #run(): ScriptRun {
    return this.#runs[this.#current] ?? { name: "", expression: "" };
  }
}

function shown(text: string): string {
  return text.slice(0, LIMITS.errorChars).toWellFormed();
}

/** Returns the state in its stored form, or the reason why it cannot be stored. */
function checkState(text: string, bytesMax: number): string | Rejection {
  if (text.length > bytesMax) return reject("too_large", `state is over ${bytesMax} bytes`);
  try {
    return toStoredText(JSON.parse(text), { bytesMax, what: "state" });
  } catch (error) {
    return reject("not_storable", `state is not JSON: ${(error as Error).message}`);
  }
}
