/**
 * The server's record of an attempt: its token, its last event, notices for the worker. The record is a cache and is never
 * stored.
 */
import type { Outcome, Verdict } from "../../kernel/message.ts";
import { attemptPrefix } from "../../protocol/attempt-id.ts";
import type {
  PhaseCounts,
  Report,
  ReportedAttempt,
  ReportedReceipt,
  ReportPlace,
} from "../../protocol/work.ts";
import type { RefusedEvent } from "../../protocol/worker-wire.ts";
import type { Rejection } from "../../std/rejection.ts";

/** The execution, phase, visit and handler that all attempts of one grant share. */
export class GrantPlace {
  readonly place: ReportPlace;
  /** The key of the grant, the same for all grants of one handler, visit, round and epoch. */
  readonly key: string;
  readonly phases: PhaseCounts;
  readonly #prefix: string;

  constructor(at: ReportPlace, phases: PhaseCounts) {
    const { execution, phase, visit, handler, round, epoch } = at;
    this.place = { execution, phase, visit, handler, round, epoch };
    this.#prefix = attemptPrefix(at);
    this.key = `${this.#prefix}${epoch}`;
    this.phases = phases;
  }

  /** The id of an attempt of this grant. */
  idOf(task: number, attempt: number, claim: number): string {
    return `${this.#prefix}${task}.${attempt}.${claim}.${this.place.epoch}`;
  }
}

/** How many refused events of an attempt are remembered: a worker repeats an event until it is acknowledged. */
const REFUSED_MAX = 1_000;

interface GivenAttempt {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly shared: GrantPlace;
  readonly worker: string;
}

export class AttemptRecord {
  readonly id: string;
  readonly token: string;
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly shared: GrantPlace;
  /** The worker that has the attempt. */
  worker: string;
  /**
   * The epoch in which this node owns the attempt's partition. In another epoch, another node may know later events of the
   * attempt.
   */
  term: number;
  /** How often a commit with events of the attempt failed, so that the worker sends them again, perhaps to another node. */
  undone = 0;
  /** Whether another owner granted the attempt. Then only the worker knows which events are stored. */
  isAdopted = false;
  /** Whether an event of the attempt has arrived. */
  hasSpoken = false;
  /** The numbers of the first and the last event that arrived here; 0 if there is none. */
  first = 0;
  received = 0;
  /** The number of the last event that is stored. */
  stored = 0;
  /** The highest number of a line in the attempt's log. */
  lastLine = 0;
  /** The running commit with the attempt's newest events; null if there is none. */
  committing: Promise<Rejection | null> | null = null;
  /** Whether the receipt has arrived, so that no event may follow. */
  hasReceipt = false;
  /** The engine's last verdict on the attempt. */
  verdict: Exclude<Verdict, object> | "gap" | null = null;
  isCancelled = false;
  /** Why numbered events were refused. A repeated event gets the same refusal. */
  #refused: Map<number, RefusedEvent> | null = null;

  constructor(id: string, token: string, given: GivenAttempt) {
    this.id = id;
    this.token = token;
    this.task = given.task;
    this.attempt = given.attempt;
    this.claim = given.claim;
    this.shared = given.shared;
    this.worker = given.worker;
    this.term = given.shared.place.epoch;
  }

  /** Makes the record of an attempt that another owner granted, or this node in an earlier epoch. */
  static adopted(
    id: string,
    token: string,
    { at, worker, term }: { at: ReportedAttempt; worker: string; term: number },
  ): AttemptRecord {
    const shared = new GrantPlace(at, []);
    const { task, attempt, claim } = at;
    const record = new AttemptRecord(id, token, { task, attempt, claim, shared, worker });
    record.isAdopted = true;
    record.term = term;
    return record;
  }

  /**
   * Sets the last event that the worker knows to be stored. It is ignored for an attempt granted here: the server knows its own
   * commits.
   */
  noteAcknowledged(n: number): void {
    if (!this.isAdopted) return;
    this.received = Math.max(this.received, n);
    this.stored = Math.max(this.stored, n);
  }

  /** Whether an event is older than all events that arrived here. The engine decides whether it was stored before. */
  isOlder(n: number): boolean {
    return this.isAdopted && n < this.first;
  }

  /** Records a refused event. The number of a refused event is used up, like that of a stored one. */
  noteRefused(n: number, refusal: RefusedEvent): void {
    this.#refused ??= new Map();
    this.#refused.set(n, refusal);
    for (const oldest of this.#refused.keys()) {
      if (this.#refused.size <= REFUSED_MAX) break;
      this.#refused.delete(oldest);
    }
  }

  /** Returns why the event with this number was refused; undefined if it was not. */
  refusalOf(n: number): RefusedEvent | undefined {
    return this.#refused?.get(n);
  }

  /** Called when the commit with the attempt's newest events failed. The events may arrive again, here or at another node. */
  undo(): void {
    this.received = this.stored;
    for (const n of this.#refused?.keys() ?? []) if (n > this.stored) this.#refused?.delete(n);
    this.hasReceipt = false;
    this.undone++;
  }

  get isEnumeration(): boolean {
    return this.task < 0;
  }
}

const OUTCOME: Outcome & { status: "cancelled" } = {
  status: "cancelled",
  payload: JSON.stringify({
    name: "Cancelled",
    code: "cancelled",
    message: "the worker did not receive the task",
  }),
};

/** Makes reports that hand attempts back: one per handler, and one per enumeration. */
export function handedBackReports(records: readonly AttemptRecord[]): Report[] {
  const reports: Report[] = [];
  const byPlace = new Map<string, ReportedReceipt[]>();
  for (const { shared, task, attempt, claim, isEnumeration } of records) {
    if (isEnumeration) {
      reports.push({ kind: "enumeration", ...shared.place, attempt, claim, ms: 0, outcome: OUTCOME });
      continue;
    }
    let receipts = byPlace.get(shared.key);
    if (receipts === undefined) {
      receipts = [];
      byPlace.set(shared.key, receipts);
      reports.push({ kind: "receipts", ...shared.place, receipts });
    }
    receipts.push({ task, attempt, claim, ms: 0, outcome: OUTCOME });
  }
  return reports;
}

const ENDED_MAX = 10_000;

/** Remembers the newest attempts with committed receipts, to recognise a repeated receipt. */
export class EndedAttempts {
  readonly #ids = new Set<string>();
  /** The attempts in order; the oldest is at `#next` once the ring buffer is full. */
  readonly #ring: string[] = [];
  #next = 0;

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Records a committed receipt, which the engine forgets at the end of the phase. */
  note(record: AttemptRecord): void {
    const { id, verdict } = record;
    if (!this.#ids.has(id)) this.#add(id);
    else if (verdict === "gone") record.verdict = "duplicate";
  }

  #add(id: string): void {
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
    this.#ring[this.#next] = id;
    this.#next = (this.#next + 1) % ENDED_MAX;
  }
}
