/** Converts the events of one request into reports for the engine, in the order of each attempt's event numbers. */
import { endsEnumeration, type Verdict } from "../../kernel/message.ts";
import type { Report, ReportedLine, ReportedReceipt } from "../../protocol/work.ts";
import { EVENT_NUMBER_MAX, type EventsAnswer, type RefusedEvent } from "../../protocol/worker-wire.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import type { ReadEvent } from "./read-event.ts";
import type { AttemptEvent } from "./read-events.ts";

/** A report, and the attempts that its verdicts are for: one attempt per verdict, or one for all. */
interface Told {
  readonly report: Report;
  readonly records: AttemptRecord[];
  /** The number of the event, if the report is made of one event. */
  readonly n?: number | null;
}

export class EventBatch {
  /** Attempts with new events, each with the number of its last event; 0 if none of them had a number. */
  readonly newest = new Map<AttemptRecord, number>();
  /** Attempts that another node owns by now. This node stores no events of them. */
  readonly elsewhere = new Set<AttemptRecord>();
  /** The last refused event of each attempt. */
  readonly refused = new Map<AttemptRecord, RefusedEvent>();
  /**
   * For each attempt, its count `undone` at its first event in this batch. If the count has grown since, an earlier event is
   * missing, so the later events do not count as stored.
   */
  readonly #undone = new Map<AttemptRecord, number>();
  readonly #epochOf: (execution: string) => number;
  readonly #isHeld: (record: AttemptRecord) => boolean;
  readonly #begun: Record<"accepted" | "started", AttemptRecord[]> = { accepted: [], started: [] };
  readonly #between: Told[] = [];
  readonly #receipts = new Map<string, { receipts: ReportedReceipt[]; records: AttemptRecord[] }>();
  readonly #enumerations: Told[] = [];
  #told: readonly Told[] = [];
  /** The log lines that were added to the batch last. */
  #lines: { record: AttemptRecord; lines: ReportedLine[] } | null = null;

  /**
   * `epochOf` returns the epoch of an execution, by which log lines without numbers sort after those of earlier owners. `isHeld` says
   * whether an attempt still holds its lease: if its page of tasks is refused as stale, an earlier page is missing.
   */
  constructor(
    epochOf: (execution: string) => number,
    isHeld: (record: AttemptRecord) => boolean = () => false,
  ) {
    this.#epochOf = epochOf;
    this.#isHeld = isHeld;
  }

  /** Adds the next event of an attempt. An event without a number is independent of the numbered ones. */
  add(record: AttemptRecord, n: number | null, event: ReadEvent): void {
    record.hasSpoken = true;
    if (!this.#undone.has(record)) this.#undone.set(record, record.undone);
    if (n !== null) {
      record.first ||= n;
      record.received = Math.max(record.received, n);
    }
    this.newest.set(record, Math.max(n ?? 0, this.newest.get(record) ?? 0));
    // An attempt accepts no more events after its receipt.
    if (record.hasReceipt) return;
    const { shared, task, attempt, claim } = record;
    const at = { task, attempt, claim };
    if (event.kind !== "lines") this.#lines = null;
    switch (event.kind) {
      case "accepted":
      case "started":
        this.#begun[event.kind].push(record);
        return;
      case "lines":
        return this.#addLines(record, n, event.lines);
      case "page": {
        const { from, tasks, keys, identities, afters } = event;
        const page = { kind: "page" as const, attempt, claim, from, tasks, keys, identities, afters };
        this.#between.push({ report: { ...shared.place, ...page }, records: [record], n });
        return;
      }
      case "step":
      case "step.retrying":
      case "step.failed":
      case "child":
      case "noted":
      case "published":
      case "run":
      case "run.started":
      case "run.crashed":
        this.#between.push({ report: { ...shared.place, ...at, ...event }, records: [record], n });
        return;
      case "receipt":
        return this.#addReceipt(record, n, event);
    }
  }

  /** Returns all reports, after all events were added. */
  build(): readonly Report[] {
    const receipts = Array.from(this.#receipts.values(), ({ receipts: list, records }) => ({
      report: { kind: "receipts" as const, ...(records[0] as AttemptRecord).shared.place, receipts: list },
      records,
    }));
    const begun = [...this.#beginsOf("accepted"), ...this.#beginsOf("started")];
    this.#told = [...begun, ...this.#between, ...this.#enumerations, ...receipts];
    return this.#told.map(({ report }) => report);
  }

  /** Makes one report for the attempts of each handler. */
  #beginsOf(kind: "accepted" | "started"): Iterable<Told> {
    const begun = new Map<string, Told & { readonly attempts: unknown[] }>();
    for (const record of this.#begun[kind]) {
      // The attempt has ended within the same request, so the engine needs no report of its start.
      if (record.hasReceipt) continue;
      const { shared, task, attempt, claim } = record;
      let told = begun.get(shared.key);
      if (told === undefined) {
        const attempts: { task: number; attempt: number; claim: number }[] = [];
        told = { report: { kind, ...shared.place, attempts }, records: [], attempts };
        begun.set(shared.key, told);
      }
      told.attempts.push({ task, attempt, claim });
      told.records.push(record);
    }
    return begun.values();
  }

  /**
   * Called after the commit: records the stored events and the verdicts. Events of attempts that belong to other nodes do not count as
   * stored.
   */
  settle(verdicts: readonly (readonly Verdict[])[]): void {
    this.#told.forEach(({ report, records, n = null }, i) => {
      const list = verdicts[i] as readonly Verdict[];
      records.forEach((record, j) => {
        const verdict = list[j] ?? list[0] ?? "accepted";
        if (typeof verdict !== "string") {
          const { kind: _, ...why } = verdict;
          this.#refuse(record, { n, ...why });
          return;
        }
        const isGap = report.kind === "page" && verdict === "stale" && this.#isHeld(record);
        record.verdict = isGap ? "gap" : verdict;
        if (verdict === "elsewhere") this.elsewhere.add(record);
      });
    });
    for (const [record, n] of this.newest) {
      if (record.undone !== this.#undone.get(record)) this.elsewhere.add(record);
      if (this.elsewhere.has(record)) record.undo();
      else record.stored = Math.max(record.stored, n);
    }
  }

  /** Called when the commit failed: the same events may arrive again. */
  undo(): void {
    for (const record of this.newest.keys()) record.undo();
  }

  #refuse(record: AttemptRecord, refusal: RefusedEvent): void {
    this.refused.set(record, refusal);
    if (refusal.n !== null) record.noteRefused(refusal.n, refusal);
  }

  #addLines(record: AttemptRecord, n: number | null, lines: readonly Omit<ReportedLine, "n">[]): void {
    const { execution } = record.shared.place;
    const first = n ?? (record.isAdopted ? this.#epochOf(execution) * (EVENT_NUMBER_MAX + 1) : 0);
    const number = n !== null && record.isOlder(n) ? n : Math.max(first, record.lastLine + 1);
    record.lastLine = Math.max(record.lastLine, number);
    if (this.#lines?.record !== record) {
      const { shared, task, attempt, claim } = record;
      this.#lines = { record, lines: [] };
      const report = {
        kind: "logs" as const,
        ...shared.place,
        task,
        attempt,
        claim,
        lines: this.#lines.lines,
      };
      this.#between.push({ report, records: [record] });
    }
    for (const line of lines) this.#lines.lines.push({ n: number, ...line });
  }

  #addReceipt(
    record: AttemptRecord,
    n: number | null,
    { ms, outcome }: Extract<ReadEvent, { kind: "receipt" }>,
  ): void {
    const { shared, task, attempt, claim } = record;
    if (record.isEnumeration) {
      if (!endsEnumeration(outcome)) {
        this.#refuse(record, { n, ...NO_TOTAL });
        return;
      }
      record.hasReceipt = true;
      const report = { kind: "enumeration" as const, ...shared.place, attempt, claim, ms, outcome };
      this.#enumerations.push({ report, records: [record] });
      return;
    }
    record.hasReceipt = true;
    let group = this.#receipts.get(shared.key);
    if (group === undefined) {
      group = { receipts: [], records: [] };
      this.#receipts.set(shared.key, group);
    }
    group.receipts.push({ task, attempt, claim, ms, outcome });
    group.records.push(record);
  }
}

/** The refusal of a receipt that would end an enumeration without a total. */
const NO_TOTAL: Omit<RefusedEvent, "n"> = {
  code: "invalid_input",
  message: "total: an enumeration that is done must say how many tasks there are, those of `resume` included",
  hint: "send the receipt again with `total`, as the next event",
  path: "total",
};

/**
 * The answer to a request: for each attempt its last stored event and its verdict. A brief answer leaves out attempts whose
 * events are all stored and accepted.
 */
export function answerOf(
  events: readonly AttemptEvent[],
  {
    batch,
    gaps,
    isBrief,
  }: {
    readonly batch: EventBatch;
    readonly gaps: ReadonlySet<AttemptRecord>;
    readonly isBrief: boolean;
  },
): EventsAnswer {
  const stored: Record<string, number> = {};
  const verdicts: Record<string, EventsAnswer["verdicts"][string]> = {};
  const refused: Record<string, RefusedEvent> = {};
  for (const { record, n } of events) {
    const { id, verdict } = record;
    const isRepeat = record.hasReceipt && !batch.newest.has(record);
    const isAccepted = (verdict ?? "accepted") === "accepted";
    // The refusal may be that of an earlier request. The answer names the last refused event of the attempt.
    const ofEvent = n === null ? undefined : record.refusalOf(n);
    const refusal = batch.refused.get(record) ?? ofEvent ?? refused[id];
    const isPlain = isAccepted && !isRepeat && refusal === undefined && (n ?? 0) <= record.stored;
    if (isBrief && isPlain) continue;
    stored[id] = record.stored;
    if (refusal !== undefined) refused[id] = refusal;
    if (isRepeat) verdicts[id] = "duplicate";
    else if (verdict === "elsewhere") verdicts[id] = "not_owner";
    else if (refusal !== undefined && !record.hasReceipt) verdicts[id] = "stale";
    // An earlier event of the attempt is missing, so not all of its events are stored.
    else if (gaps.has(record) && isAccepted) verdicts[id] = "gap";
    else verdicts[id] = verdict ?? "accepted";
  }
  return {
    stored,
    verdicts,
    ...(isBrief ? { rest: "accepted" } : {}),
    ...(Object.keys(refused).length === 0 ? {} : { refused }),
  };
}

/** The rejection if no worker is registered under this id. */
export function unknownWorker(worker: string): Rejection {
  return reject("not_found", `no worker ${worker.slice(0, 100)} is registered here`, {
    hint: "register again, with the same id",
  });
}

/** The rejection if the token does not belong to the attempt. */
export function wrongToken(id: string): Rejection {
  return reject("stale_attempt", `no valid token for the attempt ${id.slice(0, 200)}`, {
    path: `tokens.${id.slice(0, 200)}`,
    hint: "send the token that came with the attempt",
  });
}

/** The rejection if the attempt has lost its lease. */
export function staleAttempt(id: string): Rejection {
  return reject("stale_attempt", `the attempt ${id} does not hold its lease any more`, {
    hint: "only the receipt of the attempt can still be sent",
  });
}
