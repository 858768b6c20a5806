/**
 * Collects the reports of a worker and sends them in order and in batches. The reports of one attempt are its start, then its logs,
 * steps, runs and pages as they come, then its receipt. The start of an attempt that ends soon is not reported.
 * 1. Receipts of consecutive grants of one handler are one report.
 * 2. Logs, published values and notices about runs wait for the next report of their attempt, but at most a tenth of a second, or until
 *    there are many. The chunks of a stream wait at most a twentieth of a second, and the first one after a pause is sent at once.
 * 3. All reports since the last turn are sent together, in one call of `send`.
 */

import { endsEnumeration, type Outcome } from "../kernel/message.ts";
import type { Grant, GrantItem, Report, ReportedReceipt } from "../protocol/work.ts";
import { assert } from "../std/assert.ts";
import type { Clock } from "../std/clock.ts";
import { OpenPromises } from "../std/open-promises.ts";
import { reportPlace } from "./attempt-place.ts";
import type { AttemptLog } from "./log/attempt-log.ts";
import type { Secrets } from "./log/secrets.ts";
import type { Running, RunningAttempts } from "./running.ts";

/** Delivers reports; resolves when they are committed, with a list of verdicts for each report. */
export type Send = (reports: readonly Report[]) => Promise<readonly (readonly (string | object)[])[]>;

export interface ReporterOptions {
  readonly clock: Clock;
  readonly secrets: Secrets;
  readonly send: Send;
  /** Schedules a turn of the worker. At the end of the turn, `flush` is called. */
  readonly schedule: () => void;
  /** How long an attempt runs before its start is reported. If it is 0, the start is reported at the end of the turn in which it began. */
  readonly startsAfterMs: number;
  /** Called when reports were committed, so that the worker may have room for more work. */
  readonly onCommitted: () => void;
  readonly onBug: (thrown: unknown) => void;
}

interface Queued {
  readonly report: Report;
  /** Called with the verdict on the report, or with undefined if there will be none; null if nobody waits for the verdict. */
  readonly onVerdict: ((verdict: string | undefined) => void) | null;
}

const LOGS_WAIT_MS = 100;
/** The shortest time between two reports of an attempt that contain chunks. */
const CHUNKS_WAIT_MS = 50;
/** The shortest time between two reports of an attempt that contain only published values. */
const PUBLISHED_WAIT_MS = 1_000;

export class Reporter {
  readonly #options: ReporterOptions;
  #accepted: Grant[] = [];
  #begun: Running[] = [];
  #stopStarts: (() => void) | null = null;
  #queued: Queued[] = [];
  #receipts = new Map<Grant, ReportedReceipt[]>();
  /** The logs with lines that are not reported yet. */
  readonly #waiting = new Set<AttemptLog>();
  #stopWaiting: (() => void) | null = null;
  /** The timers of logs with chunks or published values that are not reported yet. */
  readonly #timers = new Map<AttemptLog, { readonly at: number; readonly stop: () => void }>();
  readonly #sending = new OpenPromises();
  #uncommittedChars = 0;
  #gatheredChars = 0;
  /** The usual size of a result in characters. The worker uses it to estimate the size of the next result. */
  usualChars = 65_536;

  constructor(options: ReporterOptions) {
    this.#options = options;
  }

  /** The characters of all reports that are not committed yet. */
  get uncommittedChars(): number {
    return this.#uncommittedChars;
  }

  /** Reports that the worker has accepted these attempts at scripts. It begins them when the sandbox has room. */
  accepted(grant: Grant): void {
    this.#accepted.push(grant);
  }

  /**
   * Called when the code of an attempt goes on after the turn in which it began. The attempt is reported as started, unless it ends soon.
   */
  began(running: Running, attempts: RunningAttempts): void {
    const { startsAfterMs, clock } = this.#options;
    if (startsAfterMs === 0) this.#begun.push(running);
    else this.#stopStarts ??= clock.after(startsAfterMs, () => this.#reportStarts(attempts));
  }

  /** Reports the start of the attempts that have run for long enough. Younger attempts are checked again later. */
  #reportStarts(attempts: RunningAttempts): void {
    const { startsAfterMs, clock, schedule } = this.#options;
    this.#stopStarts = null;
    const now = clock.now();
    let isOneYoung = false;
    for (const running of attempts.all()) {
      if (running.isReported) continue;
      const isDue = now - running.since >= startsAfterMs;
      if (isDue) this.#begun.push(running);
      else isOneYoung = true;
    }
    if (isOneYoung) this.#stopStarts = clock.after(startsAfterMs, () => this.#reportStarts(attempts));
    if (this.#begun.length > 0) schedule();
  }

  /** Stops reporting the starts of attempts. */
  stop(): void {
    this.#stopStarts?.();
    this.#stopStarts = null;
  }

  /** Adds the receipt of an attempt, with secrets redacted in its error; returns the redacted outcome. */
  receipt(grant: Grant, item: GrantItem, ms: number, outcome: Outcome): Outcome {
    const { secrets } = this.#options;
    const told = secrets.isEmpty || outcome.status === "done" ? outcome : redacted(outcome, secrets);
    if (grant.do === "enumerate") {
      assert(endsEnumeration(told), "the outcome of a done enumeration contains the number of tasks");
      const { attempt, claim } = item;
      this.add({ kind: "enumeration", ...reportPlace(grant), attempt, claim, ms, outcome: told });
      return told;
    }
    let chars = told.payload.length;
    for (const { length } of told.adds?.tasks ?? []) chars += length;
    this.#count(chars);
    this.usualChars += (chars - this.usualChars) / 16;
    const receipt = { task: item.number, attempt: item.attempt, claim: item.claim, ms, outcome: told };
    const batch = this.#receipts.get(grant);
    if (batch === undefined) this.#receipts.set(grant, [receipt]);
    else batch.push(receipt);
    return told;
  }

  /** Adds a report other than a receipt. Reports are sent in the order of the calls. */
  add(report: Report, onVerdict: Queued["onVerdict"] = null): void {
    this.#queued.push({ report, onVerdict });
    this.#count(sizeOf(report));
    this.#options.schedule();
  }

  ask(report: Report): Promise<string | undefined> {
    return new Promise((resolve) => this.add(report, resolve));
  }

  /** Called when a log has unreported lines. */
  logged(log: AttemptLog, isFull: boolean): void {
    this.#waiting.add(log);
    if (isFull) this.reportLogs(log);
    else this.#stopWaiting ??= this.#options.clock.after(LOGS_WAIT_MS, () => this.#reportAllLogs());
  }

  /** Called with each chunk of a stream. */
  streamed(log: AttemptLog): void {
    this.#reportAt(log, log.reportedAt + CHUNKS_WAIT_MS);
  }

  /** Called with each published value. */
  published(log: AttemptLog): void {
    const now = this.#options.clock.now();
    this.#reportAt(log, Math.max(now + LOGS_WAIT_MS, log.publishedAt + PUBLISHED_WAIT_MS));
  }

  /** Reports the log at this time, unless another report of the attempt includes it earlier. */
  #reportAt(log: AttemptLog, at: number): void {
    const { clock } = this.#options;
    const before = this.#timers.get(log);
    if (before !== undefined && before.at <= at) return;
    before?.stop();
    const run = (): void => {
      if (this.#timers.get(log) === timer) this.reportLogs(log);
    };
    const wait = at - clock.now();
    let stop = (): void => {};
    const timer = { at, stop: () => stop() };
    this.#timers.set(log, timer);
    // The report waits for the end of the turn, so that all chunks that the code writes in this turn are sent together.
    if (wait <= 0) clock.soon(run);
    else stop = clock.after(wait, run);
  }

  /** Reports the lines that an attempt has logged. Called before any other report of the attempt. */
  reportLogs(log: AttemptLog): void {
    this.#timers.get(log)?.stop();
    this.#timers.delete(log);
    for (const report of log.drain()) {
      const isAwaited = report.kind === "logs" && log.hasUnstored;
      this.add(report, isAwaited ? () => log.stored(report.lines) : null);
    }
    this.#waiting.delete(log);
    if (this.#waiting.size > 0) return;
    this.#stopWaiting?.();
    this.#stopWaiting = null;
  }

  /** Sends all collected reports. */
  flush(): void {
    const reports: Report[] = [...this.#takeAccepted(), ...this.#takeStarts()];
    const awaited: [at: number, Queued["onVerdict"]][] = [];
    const queued = this.#queued;
    if (queued.length > 0) this.#queued = [];
    for (const { report, onVerdict } of queued) {
      if (onVerdict !== null) awaited.push([reports.length, onVerdict]);
      reports.push(report);
    }
    const receipts = this.#receipts;
    if (receipts.size > 0) this.#receipts = new Map();
    for (const [grant, batch] of receipts)
      reports.push({ kind: "receipts", ...reportPlace(grant), receipts: batch });
    if (reports.length > 0) this.#deliver(reports, awaited);
  }

  async settled(): Promise<void> {
    while (this.#sending.size > 0) await this.#sending.all();
  }

  #reportAllLogs(): void {
    this.#stopWaiting = null;
    for (const log of [...this.#waiting]) this.reportLogs(log);
  }

  #takeAccepted(): Report[] {
    if (this.#accepted.length === 0) return [];
    const accepted = this.#accepted;
    this.#accepted = [];
    return accepted.map((grant) => {
      const attempts = grant.items.map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
      return { kind: "accepted", ...reportPlace(grant), attempts };
    });
  }

  #takeStarts(): Report[] {
    if (this.#begun.length === 0) return [];
    const began = new Map<Grant, { task: number; attempt: number; claim: number; ms: number }[]>();
    const now = this.#options.clock.now();
    for (const running of this.#begun) {
      const { grant } = running.context.shared;
      if (running.hasEnded || grant.do === "enumerate") continue;
      running.isReported = true;
      const attempts = began.get(grant) ?? [];
      const { number: task, attempt, claim } = running.item;
      attempts.push({ task, attempt, claim, ms: now - running.since });
      began.set(grant, attempts);
    }
    this.#begun = [];
    return Array.from(began, ([grant, attempts]) => ({ kind: "started", ...reportPlace(grant), attempts }));
  }

  #count(chars: number): void {
    this.#uncommittedChars += chars;
    this.#gatheredChars += chars;
  }

  #deliver(reports: readonly Report[], awaited: readonly [at: number, Queued["onVerdict"]][]): void {
    const chars = this.#gatheredChars;
    this.#gatheredChars = 0;
    const sending = this.#options
      .send(reports)
      .then((verdicts) => {
        for (const [at, onVerdict] of awaited) {
          const verdict = verdicts[at]?.[0];
          // A verdict that is an object rejects the report as wrong. It counts as "stale", so that the worker stops the attempt.
          onVerdict?.(typeof verdict === "object" ? "stale" : verdict);
        }
      })
      .catch(this.#options.onBug)
      .finally(() => {
        this.#uncommittedChars -= chars;
        this.#options.onCommitted();
      });
    this.#sending.add(sending);
  }
}

function redacted(outcome: Outcome, secrets: Secrets): Outcome {
  return { ...outcome, payload: secrets.redactJson(outcome.payload) };
}

/** Returns how many characters of memory a report takes until it is committed. Reports of enumerations have a limit of their own. */
function sizeOf(report: Report): number {
  switch (report.kind) {
    case "step":
      return report.result.length;
    case "step.retrying":
    case "step.failed":
      return report.error.length;
    case "child":
      return report.input.length;
    case "run":
      return report.state.length;
    case "logs":
      return report.lines.reduce((sum, { text }) => sum + text.length, 0);
    case "published":
      return JSON.stringify(report.values).length;
    default:
      return 0;
  }
}
