/**
 * What the server remembers of an attempt while a worker has it: its token, how far its events have come, what the
 * worker is to be told. Only a convenience: any owner can check a token and hand a word to the engine without it.
 */
import type { Verdict } from "../../kernel/message.ts";
import { attemptPrefix } from "../../protocol/attempt-id.ts";
import type { PhaseCounts, ReportedAttempt, ReportPlace } from "../../protocol/work.ts";
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
