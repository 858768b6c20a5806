/**
 * Commits that travel in one call. A batch knows what its writes need to be known, which partitions are refused and
 * why, and what to tell each commit in the end. It does no I/O.
 */
import { whyNotAtEnd, whyStale } from "../check-write.ts";
import { partitionOf } from "../partition-of.ts";
import type { Commit, CommitVerdict, ExecutionWrite, Fence, LogRow } from "../store.ts";
import { CommitColumns, type Written } from "./commit-columns.ts";
import { type Knowledge, lineKey } from "./knowledge.ts";
import { joinNumbers, joinTexts, plainText } from "./text.ts";

/** A commit that waits for its verdict. */
export interface Pending {
  readonly commit: Commit;
  /** Payload characters. */
  readonly chars: number;
  readonly resolve: (verdict: CommitVerdict) => void;
  readonly reject: (error: unknown) => void;
}

/** What the database says of partitions that it refuses. */
export interface Refusal {
  readonly refused: readonly { readonly partition: number; readonly epoch: number }[];
  readonly letters: Readonly<Record<string, number>> | null;
}

interface PlacedWrite {
  readonly write: ExecutionWrite;
  readonly partition: number;
}

export class CommitBatch {
  readonly pendings: readonly Pending[];
  readonly fence: Fence;
  readonly #partitions: number;
  readonly #writes: readonly PlacedWrite[];
  /** Partition -> why nothing is written there. */
  readonly #refused = new Map<number, string>();
  /** Partitions of letters to be taken, as far as they are known. */
  readonly #letterPartitions = new Map<string, number>();
  #letterTouched: readonly number[] = [];
  /** Executions that were looked up and do not exist. */
  readonly #absent = new Set<string>();
  /** Executions that were looked up for this batch. */
  readonly #fresh = new Set<string>();
  /** Creates whose ids are taken. */
  #exists = new Set<ExecutionWrite>();
  #created: { readonly write: ExecutionWrite; readonly id: string }[] = [];
  #written = new Map<string, Written>();

  constructor(pendings: readonly Pending[], partitions: number) {
    this.pendings = pendings;
    this.fence = (pendings[0] as Pending).commit.fence;
    this.#partitions = partitions;
    this.#writes = pendings.flatMap((pending) =>
      pending.commit.writes.map((write) => ({
        write,
        partition: partitionOf(write.execution, partitions),
      })),
    );
    for (const { partition } of this.#writes)
      if (!(partition in this.fence.epochs))
        this.#refused.set(partition, whyStale(this.fence, partition, 0) ?? "");
  }

  get ids(): string[] {
    return this.#writes.map(({ write }) => write.execution);
  }

  /** The epoch in which an execution's partition is had. */
  epochOf(id: string): number {
    return this.fence.epochs[partitionOf(id, this.#partitions)] ?? 0;
  }

  /**
   * Executions that must be looked up: all that are written and not known, but for those that are just created. Of
   * two letters with one id the first counts, unless its sender is a create that is left out; so that is looked up.
   */
  toLearn(knowledge: Knowledge): string[] {
    const wanted = new Set<string>();
    const created = new Set<string>();
    const senders = new Map<string, string>();
    const isUnknown = (id: string) =>
      !this.#absent.has(id) && knowledge.get(id, this.epochOf(id)) === undefined;
    for (const { write, partition } of this.#writes) {
      const { execution: id, letters = [] } = write;
      if (this.#refused.has(partition)) continue;
      for (const letter of letters) {
        const sender = senders.get(letter.id);
        if (sender === undefined) senders.set(letter.id, id);
        else if (isUnknown(sender)) wanted.add(sender);
      }
      if (!isUnknown(id)) continue;
      if (write.create && !created.has(id)) created.add(id);
      else wanted.add(id);
    }
    return [...wanted];
  }

  /** These were looked up; what is not known now does not exist. */
  learnt(ids: readonly string[], knowledge: Knowledge): void {
    for (const id of ids) {
      this.#fresh.add(id);
      if (knowledge.get(id, this.epochOf(id)) === undefined) this.#absent.add(id);
    }
  }

  /**
   * Writes that do not go where their journal ends. `doubtful`: by what was known before, which may be behind;
   * `wrong`: partition -> why, by what was looked up just now.
   */
  checkEnds(knowledge: Knowledge): { doubtful: string[]; wrong: Map<number, string> } {
    const ends = new Map<string, number>();
    const doubtful = new Set<string>();
    const wrong = new Map<number, string>();
    for (const { write, partition } of this.#writes) {
      const { execution: id } = write;
      if (this.#refused.has(partition)) continue;
      const end = ends.get(id) ?? knowledge.get(id, this.epochOf(id))?.end ?? null;
      if (write.create && end !== null) continue;
      const why = write.create ? null : whyNotAtEnd(write, end);
      if (why !== null && !this.#fresh.has(id)) doubtful.add(id);
      else if (why !== null && !wrong.has(partition)) wrong.set(partition, why);
      const last = write.entries.at(-1);
      ends.set(id, last === undefined ? (end ?? 0) : last.seq + last.count - 1);
    }
    return { doubtful: [...doubtful], wrong };
  }

  refuse(wrong: ReadonlyMap<number, string>): void {
    for (const [partition, why] of wrong) this.#refused.set(partition, why);
  }

  /** The database refuses these; the rest is to be sent again. */
  refusedBy(refusal: Refusal): void {
    for (const { partition, epoch } of refusal.refused) {
      const isReleased = this.fence.epochs[partition] === epoch;
      this.#refused.set(partition, whyStale(this.fence, partition, isReleased ? null : epoch) ?? "");
    }
    for (const [id, partition] of Object.entries(refusal.letters ?? {}))
      this.#letterPartitions.set(id, partition);
  }

  /** Attempts whose lines may be stored already, of executions that are there already. */
  repeating(knowledge: Knowledge): { e: number; attempt: string }[] {
    return this.#writes.flatMap(({ write: { execution: id, logs = [] } }) => {
      const e = knowledge.get(id, this.epochOf(id))?.e;
      return e === undefined
        ? []
        : logs.filter((row) => row.mayRepeat).map(({ attempt }) => ({ e, attempt }));
    });
  }

  /** The call for what is not refused; null: nothing is left. `lastLines` are of `repeating`. */
  build(
    knowledge: Knowledge,
    lastLines: ReadonlyMap<string, number>,
  ): { columns: CommitColumns; fixed: Record<string, string | null> } | null {
    const columns = new CommitColumns();
    const lines = new Map(lastLines);
    const touched = new Set<number>();
    this.#exists = new Set();
    this.#created = [];
    this.#written = new Map();
    for (const placed of this.#writes) {
      if (this.#refused.has(placed.partition)) continue;
      touched.add(placed.partition);
      const written = this.#begin(columns, placed, knowledge);
      if (written === null) continue;
      const { write } = placed;
      columns.add(written, write);
      if (write.letters !== undefined)
        for (const letter of write.letters)
          columns.addLetter(written, letter, partitionOf(letter.to, this.#partitions));
      if (write.logs !== undefined) for (const row of write.logs) addLog(columns, written, row, lines);
    }
    const taken = this.pendings.flatMap(({ commit }) => commit.lettersTaken ?? []);
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

  /** It is written: `created` are the numbers of the new executions, 0 for those that were there. */
  wrote(created: readonly number[], touched: readonly number[], knowledge: Knowledge): void {
    this.#letterTouched = touched;
    for (const [i, { write, id }] of this.#created.entries()) {
      if (created[i] !== 0) continue;
      this.#exists.add(write);
      this.#written.delete(id);
    }
    for (const [id, { ref, end, epoch }] of this.#written) {
      const e = ref < 0 ? (created[-ref - 1] as number) : ref;
      knowledge.set(id, { e, end, epoch, ownedIn: epoch });
    }
  }

  verdictOf(pending: Pending): CommitVerdict {
    const { writes, lettersTaken = [] } = pending.commit;
    const touched = new Set(writes.map((write) => partitionOf(write.execution, this.#partitions)));
    for (const id of lettersTaken) {
      const partition = this.#letterPartitions.get(id);
      if (partition !== undefined) touched.add(partition);
    }
    if (this.pendings.length === 1) for (const partition of this.#letterTouched) touched.add(partition);
    const refused = [...touched].filter((partition) => this.#refused.has(partition)).sort((a, b) => a - b);
    const [first] = refused;
    if (first !== undefined && refused.length === touched.size)
      return { kind: "fenced", why: this.#refused.get(first) ?? "", partitions: refused };
    const exists = this.#exists.size === 0 ? [] : writes.filter((write) => this.#exists.has(write));
    return { kind: "ok", exists: exists.map(({ execution }) => execution), fenced: refused };
  }

  /** The execution of a write among those that the call writes; null: it is a create whose id is taken. */
  #begin(columns: CommitColumns, { write, partition }: PlacedWrite, knowledge: Knowledge): Written | null {
    const { execution: id, create } = write;
    const begun = this.#written.get(id);
    const known = begun === undefined ? knowledge.get(id, this.epochOf(id)) : undefined;
    if (create && (begun !== undefined || known !== undefined)) {
      this.#exists.add(write);
      return null;
    }
    if (begun !== undefined) return begun;
    const epoch = this.epochOf(id);
    const written: Written = {
      id,
      partition,
      epoch,
      ref: known?.e ?? columns.nextRef(),
      end: known?.end ?? 0,
      isTouched: known === undefined || known.epoch === epoch,
      head: null,
      timers: null,
      opened: null,
      snapshot: null,
      leases: undefined,
      dead: null,
    };
    this.#written.set(id, written);
    if (known === undefined) this.#created.push({ write, id });
    columns.begin(written);
    return written;
  }
}

/** Adds a log row, without the lines that are stored already if it may repeat some. */
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

/** The epochs of all partitions, 0 for those that are not had. */
function denseEpochs(fence: Fence, partitions: number): string {
  const known = dense.get(fence);
  if (known !== undefined) return known;
  const epochs = `{${Array.from({ length: partitions }, (_, i) => fence.epochs[i] ?? 0).join()}}`;
  dense.set(fence, epochs);
  return epochs;
}
