/**
 * A commit on its way to the store's thread: one flat array of texts and numbers, since cloning a thousand small
 * objects between threads costs three times as much. `packWrites` runs in the engine's thread, `unpackWrites` in
 * the store's; the order of fields is known to this file only.
 */
import type { Entry } from "../../kernel/journal-entry.ts";
import type { ExecutionWrite, Head, Snapshot } from "../store.ts";

export type Packed = (string | number | null)[];

/** A head with its tags as text, as the database keeps them. */
export interface RowHead extends Omit<Head, "id" | "tags"> {
  readonly tags: string;
}

/** A write as the database takes it. */
export interface RowWrite {
  readonly execution: string;
  readonly create: boolean;
  readonly after: number;
  readonly entries: readonly Entry[];
  readonly chain: string;
  readonly head: RowHead | null;
  readonly timersSet: readonly { readonly timer: string; readonly due: number }[];
  readonly timersCleared: readonly string[];
  readonly opened: readonly { readonly mark: string; readonly tasks: number }[];
  readonly snapshot: Snapshot | null;
}

export function packWrites(writes: readonly ExecutionWrite[]): Packed {
  const packed: Packed = [];
  for (const write of writes) {
    packed.push(write.execution, write.create ? 1 : 0, write.after, write.chain, write.entries.length);
    for (const { seq, count, at, body } of write.entries) packed.push(seq, count, at, body);
    packHead(packed, write.head);
    const opened = write.opened === null ? [] : Object.entries(write.opened);
    packed.push(write.timersSet.length, write.timersCleared.length, opened.length);
    for (const { timer, due } of write.timersSet) packed.push(timer, due);
    for (const timer of write.timersCleared) packed.push(timer);
    for (const [mark, tasks] of opened) packed.push(mark, tasks);
    packed.push(write.snapshot === null ? 0 : 1);
    if (write.snapshot !== null) {
      const { seq, foldVersion, chain, body } = write.snapshot;
      packed.push(seq, foldVersion, chain, body);
    }
  }
  return packed;
}

export function unpackWrites(packed: Packed): RowWrite[] {
  const writes: RowWrite[] = [];
  const reader = new Reader(packed);
  while (!reader.done) {
    const execution = reader.text();
    const create = reader.number() === 1;
    const after = reader.number();
    const chain = reader.text();
    const entries = reader.list(reader.number(), () => ({
      seq: reader.number(),
      count: reader.number(),
      at: reader.number(),
      body: reader.text(),
    }));
    const head = unpackHead(reader);
    const setCount = reader.number();
    const clearedCount = reader.number();
    const openedCount = reader.number();
    const timersSet = reader.list(setCount, () => ({ timer: reader.text(), due: reader.number() }));
    const timersCleared = reader.list(clearedCount, () => reader.text());
    const opened = reader.list(openedCount, () => ({ mark: reader.text(), tasks: reader.number() }));
    const snapshot = reader.number() === 0 ? null : unpackSnapshot(reader);
    writes.push({
      execution,
      create,
      after,
      entries,
      chain,
      head,
      timersSet,
      timersCleared,
      opened,
      snapshot,
    });
  }
  return writes;
}

function packHead(packed: Packed, head: Head | null): void {
  packed.push(head === null ? 0 : 1);
  if (head === null) return;
  packed.push(
    head.partition,
    head.workflow,
    head.hash,
    head.project,
    head.status,
    head.phase,
    head.want,
    head.priority,
    head.createdAt,
    head.finishedAt,
    JSON.stringify(head.tags),
    head.error,
  );
}

function unpackHead(reader: Reader): RowHead | null {
  if (reader.number() === 0) return null;
  return {
    partition: reader.number(),
    workflow: reader.text(),
    hash: reader.text(),
    project: reader.text(),
    status: reader.text(),
    phase: reader.textOrNull(),
    want: reader.text() as Head["want"],
    priority: reader.number(),
    createdAt: reader.number(),
    finishedAt: reader.numberOrNull(),
    tags: reader.text(),
    error: reader.textOrNull(),
  };
}

function unpackSnapshot(reader: Reader): Snapshot {
  return {
    seq: reader.number(),
    foldVersion: reader.number(),
    chain: reader.text(),
    body: reader.text(),
  };
}

/** Takes the fields one after the other; the types are those that `packWrites` put in. */
class Reader {
  readonly #packed: Packed;
  #at = 0;

  constructor(packed: Packed) {
    this.#packed = packed;
  }

  get done(): boolean {
    return this.#at >= this.#packed.length;
  }

  text(): string {
    return this.#packed[this.#at++] as string;
  }

  number(): number {
    return this.#packed[this.#at++] as number;
  }

  textOrNull(): string | null {
    return this.#packed[this.#at++] as string | null;
  }

  numberOrNull(): number | null {
    return this.#packed[this.#at++] as number | null;
  }

  list<T>(count: number, read: () => T): T[] {
    const list: T[] = [];
    for (let i = 0; i < count; i++) list.push(read());
    return list;
  }
}
