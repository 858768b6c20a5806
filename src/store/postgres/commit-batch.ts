/**
 * A batch of commits that go to the database in one call: the executions that they need, the refused partitions, and the
 * verdicts. This class does no I/O.
 */
import { whyNotAtEnd, whyStale } from "../check-write.ts";
import { partitionOf } from "../partition-of.ts";
import type { Commit, CommitVerdict, ExecutionWrite, Fence, LogRow } from "../store.ts";
import { CommitColumns, type Written } from "./commit-columns.ts";
import { type Known, type KnownExecutions, lineKey } from "./known-executions.ts";
import { isOneRow, type OneRow, oneRowCall } from "./one-row.ts";
import { joinNumbers, joinTexts, plainText } from "./text.ts";

export interface Pending {
  readonly commit: Commit;
  /** The number of payload characters of the batch. */
  readonly chars: number;
  readonly resolve: (verdict: CommitVerdict) => void;
  readonly reject: (error: unknown) => void;
}

export interface Refusal {
  readonly refused: readonly { readonly partition: number; readonly epoch: number }[];
  readonly letters: Readonly<Record<string, number>> | null;
}

/** An execution that the batch writes. */
interface Place extends Written {
  readonly count: number;
  known: Known | undefined;
  /** Whether the execution was read from the database for this batch. If it is not in the cache after that, it does not exist. */
  isFresh: boolean;
  /** Whether the database call that is being built already contains the execution. */
  isBegun: boolean;
}

export class CommitBatch {
  readonly pendings: readonly Pending[];
  readonly fence: Fence;
  /** Whether the call of the batch was sent and not answered. */
  isSent = false;
  readonly #partitions: number;
  /** The writes of all commits, each with its execution. */
  readonly #writes: PlacedWrite[] = [];
  readonly #places = new Map<string, Mutable<Place>>();
  /** The refused partitions, each with the reason. */
  readonly #refused = new Map<number, string>();
  /** The known partitions of mailbox messages that the batch deletes, by message id. */
  readonly #letterPartitions = new Map<string, number>();
  #letterTouched: readonly number[] = [];
  #readsAll = false;
  /** Writes that should create an execution, but its id exists already. */
  #exists = new Set<ExecutionWrite>();
  /** Writes that create an execution, in their order within the call. */
  #created: PlacedWrite[] = [];

  constructor(pendings: readonly Pending[], partitions: number) {
    this.pendings = pendings;
    this.fence = (pendings[0] as Pending).commit.fence;
    this.#partitions = partitions;
    for (const { commit } of pendings) for (const write of commit.writes) this.#add(write);
  }

  get ids(): Iterable<string> {
    return this.#places.keys();
  }

  /**
   * Returns the executions that must be read before the call: those that are not cached. New executions are not read, unless
   * another write of the batch sends a message with the same id.
   */
  toRead(knowledge: KnownExecutions): Map<string, number> {
    const wanted = new Map<string, number>();
    const senders = new Map<string, Place>();
    for (const { write, place } of this.#writes) {
      // The cache is not asked about a new execution: it is rarely there, and the database refuses an id that exists. It is asked if the
      // batch writes the execution twice, or has read it.
      if (!write.create || place.count > 1 || place.isFresh || this.#readsAll)
        place.known = knowledge.get(place.id, place.epoch);
    }
    const isUnknown = (place: Place) => place.known === undefined && !place.isFresh;
    for (const { write, place } of this.#writes) {
      if (this.#refused.has(place.partition)) continue;
      const mayBeUnknown = write.create && place.count === 1 && !this.#readsAll;
      if (isUnknown(place) && !mayBeUnknown) wanted.set(place.id, place.epoch);
      if (write.mail === undefined) continue;
      for (const { id } of write.mail) {
        const sender = senders.get(id);
        if (sender === undefined) senders.set(id, place);
        else if (isUnknown(sender)) wanted.set(sender.id, sender.epoch);
      }
    }
    return wanted;
  }

  /**
   * Whether the call of this batch may be sent while the call of another one is under way. It must not need the answer to the other call. The
   * result must also be the same whichever of the two is written first, because the other call may have to be repeated.
   */
  mayFollow(other: CommitBatch, knowledge: KnownExecutions): boolean {
    if (!other.isSent || this.fence !== other.fence || this.takesMail || other.takesMail) return false;
    if (knowledge.currentSession === null) return false;
    for (const id of this.#places.keys()) if (other.#places.has(id)) return false;
    if (this.toRead(knowledge).size > 0 || this.repeating().length > 0) return false;
    const { doubtful, wrong } = this.checkEnds();
    return doubtful.size === 0 && wrong.size === 0;
  }

  /** Whether the batch deletes mailbox messages. */
  get takesMail(): boolean {
    return this.pendings.some(({ commit }) => (commit.mailTaken?.length ?? 0) > 0);
  }

  /** Discards what was read of all executions, so that they are read again. */
  startOver(): void {
    this.#readsAll = true;
    for (const place of this.#places.values()) place.isFresh = false;
  }

  /** Records that these executions have been read from the database. */
  noteRead(ids: Iterable<string>, knowledge: KnownExecutions): void {
    for (const id of ids) {
      const place = this.#places.get(id) as Place;
      place.isFresh = true;
      place.known = knowledge.get(id, place.epoch);
    }
  }

  /**
   * Finds writes that do not continue their execution's journal. `doubtful`: the cache says so, which may be stale. `wrong`: a
   * read says so; the reasons by partition.
   */
  checkEnds(): { doubtful: Map<string, number>; wrong: Map<number, string> } {
    const doubtful = new Map<string, number>();
    const wrong = new Map<number, string>();
    for (const place of this.#places.values()) place.end = place.known?.end ?? NO_END;
    for (const { write, place } of this.#writes) {
      const { id, partition, end } = place;
      if (this.#refused.has(partition) || (write.create && end !== NO_END)) continue;
      const why =
        write.create || end === write.after ? null : whyNotAtEnd(write, end === NO_END ? null : end);
      if (why !== null && !place.isFresh) doubtful.set(id, place.epoch);
      else if (why !== null && !wrong.has(partition)) wrong.set(partition, why);
      const last = write.entries.at(-1);
      place.end = last === undefined ? Math.max(0, end) : last.seq + last.count - 1;
    }
    return { doubtful, wrong };
  }

  refuse(wrong: ReadonlyMap<number, string>): void {
    for (const [partition, why] of wrong) this.#refused.set(partition, why);
  }

  /** Records the partitions that the database has refused. The rest of the batch must be sent again. */
  refusedBy(refusal: Refusal): void {
    for (const { partition, epoch } of refusal.refused) {
      const isReleased = this.fence.epochs[partition] === epoch;
      this.#refused.set(partition, whyStale(this.fence, partition, isReleased ? null : epoch) ?? "");
    }
    for (const [id, partition] of Object.entries(refusal.letters ?? {}))
      this.#letterPartitions.set(id, partition);
  }

  /** Returns the attempts, of existing executions, whose log lines may be stored already. */
  repeating(): { e: number; attempt: string }[] {
    const found: { e: number; attempt: string }[] = [];
    for (const { write, place } of this.#writes) {
      if (write.logs === undefined || place.known === undefined) continue;
      const { e } = place.known;
      for (const { attempt, mayRepeat } of write.logs) if (mayRepeat) found.push({ e, attempt });
    }
    return found;
  }

  /**
   * Builds the call for a batch that only appends one journal row to one execution (one-row.ts), with the partition and its epoch.
   * Null for any other batch.
   */
  buildOne(): (OneRow & { readonly partition: number; readonly epoch: number }) | null {
    const [only] = this.#writes;
    if (only === undefined || this.#writes.length > 1 || !isOneRow(only.write)) return null;
    const { write, place } = only;
    const { known, partition, epoch } = place;
    const isCurrent = write.create ? known === undefined : known?.epoch === epoch;
    if (!isCurrent || this.#refused.has(partition)) return null;
    if (this.takesMail) return null;
    this.#exists = new Set();
    this.#created = [];
    place.isBegun = false;
    this.#begin(FIRST_REF, place, write);
    return { partition, epoch, ...oneRowCall(place, write) };
  }

  /**
   * Builds the call for the writes that are not refused; null if there are none. `lastLines` has the last stored log line of
   * each attempt from `repeating`.
   */
  build(
    lastLines: ReadonlyMap<string, number>,
  ): { columns: CommitColumns; fixed: Record<string, string | null> } | null {
    const columns = new CommitColumns();
    const lines = new Map(lastLines);
    const touched = new Set<number>();
    this.#exists = new Set();
    this.#created = [];
    for (const place of this.#places.values()) place.isBegun = false;
    for (const { write, place } of this.#writes) {
      if (this.#refused.has(place.partition)) continue;
      touched.add(place.partition);
      const { isBegun } = place;
      if (!this.#begin(columns, place, write)) continue;
      if (!isBegun) columns.begin(place);
      columns.add(place, write);
      if (write.mail !== undefined)
        for (const message of write.mail)
          columns.addMessage(place, message, partitionOf(message.to, this.#partitions));
      if (write.logs !== undefined) for (const row of write.logs) addLog(columns, place, row, lines);
    }
    const taken = this.pendings.flatMap(({ commit }) => commit.mailTaken ?? []);
    if (touched.size === 0 && taken.length === 0) return null;
    return {
      columns,
      fixed: {
        p_partitions: `{${[...touched].sort((a, b) => a - b).join()}}`,
        p_epochs: denseEpochs(this.fence, this.#partitions),
        p_skipped: joinNumbers([...this.#refused.keys()]) ?? "{}",
        p_taken: joinTexts(taken.map(plainText)),
      },
    };
  }

  /** Records the result of the call. `created` has the numbers of the new executions, and 0 for those that existed already. */
  wrote(created: readonly number[], touched: readonly number[], knowledge: KnownExecutions): void {
    this.#letterTouched = touched;
    let i = 0;
    for (const { write, place } of this.#created) {
      if (created[i++] !== 0) continue;
      this.#exists.add(write);
      place.isBegun = false;
    }
    for (const { id, ref, end, epoch, headKey: head, phase, known, isBegun } of this.#places.values()) {
      if (!isBegun) continue;
      if (known === undefined)
        knowledge.set(id, { e: created[-ref - 1] as number, end, epoch, ownedIn: epoch, head, phase });
      else Object.assign(known, { end, epoch, head, phase });
    }
  }

  /** Returns how many commits the call writes, and their partitions: one entry for each commit and partition. */
  acknowledged(): { readonly commits: number; readonly partitions: readonly number[] } {
    const partitions: number[] = [];
    let commits = 0;
    let i = 0;
    for (const { commit } of this.pendings) {
      const touched = new Set<number>();
      for (const _ of commit.writes) {
        const { partition } = (this.#writes[i++] as PlacedWrite).place;
        if (!this.#refused.has(partition)) touched.add(partition);
      }
      if (touched.size > 0 || commit.writes.length === 0) commits++;
      partitions.push(...touched);
    }
    return { commits, partitions };
  }

  verdictOf(pending: Pending): CommitVerdict {
    const { writes, mailTaken = [] } = pending.commit;
    const exists = this.#exists.size === 0 ? [] : writes.filter((write) => this.#exists.has(write));
    const ok: CommitVerdict = { kind: "ok", exists: exists.map(({ execution }) => execution), fenced: [] };
    if (this.#refused.size === 0) return ok;
    const touched = new Set(writes.map((write) => partitionOf(write.execution, this.#partitions)));
    for (const id of mailTaken) {
      const partition = this.#letterPartitions.get(id);
      if (partition !== undefined) touched.add(partition);
    }
    if (this.pendings.length === 1) for (const partition of this.#letterTouched) touched.add(partition);
    const refused = [...touched].filter((partition) => this.#refused.has(partition)).sort((a, b) => a - b);
    const [first] = refused;
    if (first !== undefined && refused.length === touched.size)
      return { kind: "fenced", why: this.#refused.get(first) ?? "", partitions: refused };
    return { ...ok, fenced: refused };
  }

  #add(write: ExecutionWrite): void {
    const { execution: id } = write;
    const there = this.#places.get(id);
    if (there !== undefined) {
      there.count++;
      this.#writes.push({ write, place: there });
      return;
    }
    const partition = partitionOf(id, this.#partitions);
    const epoch = this.fence.epochs[partition];
    if (epoch === undefined) this.#refused.set(partition, whyStale(this.fence, partition, null) ?? "");
    const place: Place = {
      id,
      partition,
      epoch: epoch ?? 0,
      count: 1,
      known: undefined,
      isFresh: false,
      isBegun: false,
      ref: 0,
      end: NO_END,
      isTouched: false,
      head: null,
      headKey: null,
      phase: null,
      lastRow: -1,
      timers: null,
      opened: null,
      snapshot: null,
      dead: null,
    };
    this.#places.set(id, place);
    this.#writes.push({ write, place });
  }

  /** Adds the execution of a write to the call. Returns false if the write creates an execution whose id exists already. */
  #begin(refs: { nextRef(): number }, place: Mutable<Place>, write: ExecutionWrite): boolean {
    const { known } = place;
    if (write.create && (place.isBegun || known !== undefined)) {
      this.#exists.add(write);
      return false;
    }
    if (place.isBegun) return true;
    place.isBegun = true;
    place.ref = known?.e ?? refs.nextRef();
    place.end = known?.end ?? 0;
    place.isTouched = known === undefined || known.epoch === place.epoch;
    place.head = null;
    place.headKey = known?.head ?? null;
    place.phase = known?.phase ?? null;
    place.lastRow = -1;
    place.timers = null;
    place.opened = null;
    place.snapshot = null;
    place.dead = null;
    if (known === undefined) this.#created.push({ write, place });
    return true;
  }
}

interface PlacedWrite {
  readonly write: ExecutionWrite;
  readonly place: Mutable<Place>;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The number of the only new execution of a call, until the database gives it one: -1. */
const FIRST_REF = { nextRef: () => -1 };

/** The end of the journal of an execution that does not exist. */
const NO_END = -1;

/** Adds a log row. If the row may repeat lines, those that are stored already are left out. */
function addLog(columns: CommitColumns, written: Written, row: LogRow, lines: Map<string, number>): void {
  const key = lineKey(written.ref, row.attempt);
  const stored = lines.get(key) ?? 0;
  const left = row.mayRepeat ? row.lines.filter(({ n }) => n > stored) : row.lines;
  if (left.length === 0) return;
  const lastN = left.reduce((last, { n }) => Math.max(last, n), 0);
  lines.set(key, Math.max(stored, lastN));
  columns.addLog(written, left === row.lines ? row : { ...row, lines: left }, lastN);
}

const dense = new WeakMap<Fence, string>();

/** Returns the epochs of all partitions as an SQL array, with 0 for partitions that this node does not own. */
function denseEpochs(fence: Fence, partitions: number): string {
  const known = dense.get(fence);
  if (known !== undefined) return known;
  const epochs = `{${Array.from({ length: partitions }, (_, i) => fence.epochs[i] ?? 0).join()}}`;
  dense.set(fence, epochs);
  return epochs;
}
