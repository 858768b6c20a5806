/**
 * What the server remembers of an attempt while a worker has it: its token, how far its events have come, what the
 * worker is to be told. Only a convenience: any owner can check a token and hand a word to the engine without it.
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

/** What all attempts of one grant share. */
export class GrantPlace {
  readonly place: ReportPlace;
  /** The same for all grants of one handler, visit, round and epoch. */
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

  /** The id of an attempt here. */
  idOf(task: number, attempt: number, claim: number): string {
    return `${this.#prefix}${task}.${attempt}.${claim}.${this.place.epoch}`;
  }
}

/** Refused events of one attempt that are remembered, the newest: a worker sends an event again until it is acknowledged. */
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
  /** The id of the worker that has it. */
  worker: string;
  /** The epoch in which this node has its partition: in another one, others may have heard more of it. */
  term: number;
  /** How often what was taken of it had to be left to another node. */
  undone = 0;
  /** Given out by another owner: what that one stored, only the worker can tell. */
  isAdopted = false;
  /** The worker has said something about it. */
  hasSpoken = false;
  /** The first event that was taken here, and the last; 0: none was. */
  first = 0;
  received = 0;
  /** The last event that is stored. */
  stored = 0;
  /** The highest number of a line of its log. */
  lastLine = 0;
  /** The commit under way with its newest events; null: none is. */
  committing: Promise<Rejection | null> | null = null;
  /** Its receipt has come: nothing may follow. */
  hasReceipt = false;
  /** The newest word of the engine about it. */
  verdict: Exclude<Verdict, object> | "gap" | null = null;
  isCancelled = false;
  /** Why numbered events were refused: a repeat gets the same refusal. */
  readonly #refused = new Map<number, RefusedEvent>();

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

  /** An attempt that another owner gave out, or this node in an earlier term. */
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

  /** What the worker knows to be stored of it; where it was given out here, that is known better. */
  noteAcknowledged(n: number): void {
    if (!this.isAdopted) return;
    this.received = Math.max(this.received, n);
    this.stored = Math.max(this.stored, n);
  }

  /** Whether an event is older than all that was taken here: whether it was stored before, the engine finds out. */
  isOlder(n: number): boolean {
    return this.isAdopted && n < this.first;
  }

  /** A numbered event was refused. Its number is used up, as that of a stored event is. */
  noteRefused(n: number, refusal: RefusedEvent): void {
    this.#refused.set(n, refusal);
    for (const oldest of this.#refused.keys()) {
      if (this.#refused.size <= REFUSED_MAX) break;
      this.#refused.delete(oldest);
    }
  }

  /** Why the event with this number was refused; undefined: it was not. */
  refusalOf(n: number): RefusedEvent | undefined {
    return this.#refused.get(n);
  }

  /** Nothing came of the commit with its newest events: they may come again, here or at another node. */
  undo(): void {
    this.received = this.stored;
    for (const n of this.#refused.keys()) if (n > this.stored) this.#refused.delete(n);
    this.hasReceipt = false;
    this.undone++;
  }

  get isEnumeration(): boolean {
    return this.task < 0;
  }
}

const OUTCOME: Outcome & { status: "cancelled" } = {
  status: "cancelled",
  payload: JSON.stringify({ name: "Cancelled", code: "cancelled", message: "the worker did not get it" }),
};

/** One report per handler, and one per enumeration. */
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

/** Remembers the newest attempts whose receipts are committed: a receipt that is sent again is a repeat. */
export class EndedAttempts {
  readonly #ids = new Set<string>();
  /** The same in their order, the oldest at `#next` once it is full. */
  readonly #ring: string[] = [];
  #next = 0;

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** The receipt of this one is committed. After its phase the engine knows no attempt: that it was heard is known here. */
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
