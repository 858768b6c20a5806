/** The form of a commit between the threads: one flat array, since cloning many small objects is slow. */
import { packLog } from "../packed-log.ts";
import type { DeadLetter, ExecutionWrite, Head, MailboxMessage, Snapshot } from "../store.ts";

export type Packed = (string | number | null)[];

/** A head with its tags as JSON, as stored. */
export interface RowHead extends Omit<Head, "id" | "tags"> {
  readonly tags: string;
}

export interface RowWrite extends Omit<ExecutionWrite, "head" | "opened" | keyof RowRecords> {
  readonly head: RowHead | null;
  readonly opened: readonly { readonly mark: string; readonly tasks: number }[];
  readonly records: RowRecords | null;
}

export interface RowRecords {
  readonly mail: readonly MailboxMessage[];
  readonly logs: readonly RowLog[];
  readonly deadLettersCleared: number;
  readonly deadLetters: readonly (Omit<DeadLetter, "tasks"> & { readonly tasks: string })[];
}

export interface RowLog {
  readonly attempt: string;
  /** The number of the last log line. */
  readonly lastN: number;
  readonly mayRepeat: boolean;
  readonly body: string;
}

const WITH_SNAPSHOT = 1;
const WITH_RECORDS = 2;
const NO_HEAD = 0;
const WHOLE_HEAD = 1;
/** Means that the head equals the previous one in the commit, except for the id and the time of creation. */
const SAME_HEAD = 2;

export function packWrites(writes: readonly ExecutionWrite[]): Packed {
  const packed: Packed = [];
  let before: Head | null = null;
  for (const write of writes) {
    packed.push(write.execution, write.create ? 1 : 0, write.after, write.chain, write.entries.length);
    for (const { seq, count, at, body } of write.entries) packed.push(seq, count, at, body);
    packHead(packed, write.head, before);
    before = write.head ?? before;
    const opened = write.opened === null ? [] : Object.entries(write.opened);
    packed.push(write.timersSet.length, write.timersCleared.length, opened.length);
    for (const { timer, due } of write.timersSet) packed.push(timer, due);
    for (const timer of write.timersCleared) packed.push(timer);
    for (const [mark, tasks] of opened) packed.push(mark, tasks);
    const withRecords = hasRecords(write);
    packed.push((write.snapshot === null ? 0 : WITH_SNAPSHOT) + (withRecords ? WITH_RECORDS : 0));
    if (write.snapshot !== null) {
      const { seq, foldVersion, chain, body } = write.snapshot;
      packed.push(seq, foldVersion, chain, body);
    }
    if (withRecords) packRecords(packed, write);
  }
  return packed;
}

export function unpackWrites(packed: Packed): RowWrite[] {
  const writes: RowWrite[] = [];
  const reader = new Reader(packed);
  let before: RowHead | null = null;
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
    const head = unpackHead(reader, before);
    before = head ?? before;
    const setCount = reader.number();
    const clearedCount = reader.number();
    const openedCount = reader.number();
    const timersSet = reader.list(setCount, () => ({ timer: reader.text(), due: reader.number() }));
    const timersCleared = reader.list(clearedCount, () => reader.text());
    const opened = reader.list(openedCount, () => ({ mark: reader.text(), tasks: reader.number() }));
    const parts = reader.number();
    const snapshot = (parts & WITH_SNAPSHOT) === 0 ? null : unpackSnapshot(reader);
    const records = (parts & WITH_RECORDS) === 0 ? null : unpackRecords(reader);
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
      records,
    });
  }
  return writes;
}

function packHead(packed: Packed, head: Head | null, before: Head | null): void {
  if (head === null) {
    packed.push(NO_HEAD);
    return;
  }
  if (before !== null && isAlike(head, before)) {
    packed.push(SAME_HEAD, head.createdAt);
    return;
  }
  packed.push(
    WHOLE_HEAD,
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

/** Whether two heads are the same, except for the id and the time of creation. Most starts in a commit are alike. */
function isAlike(a: Head, b: Head): boolean {
  return (
    a.workflow === b.workflow &&
    a.hash === b.hash &&
    a.project === b.project &&
    a.status === b.status &&
    a.phase === b.phase &&
    a.want === b.want &&
    a.partition === b.partition &&
    a.priority === b.priority &&
    a.finishedAt === b.finishedAt &&
    a.error === b.error &&
    (a.tags === b.tags || (isEmpty(a.tags) && isEmpty(b.tags)))
  );
}

function isEmpty(record: object): boolean {
  for (const _ in record) return false;
  return true;
}

function unpackHead(reader: Reader, before: RowHead | null): RowHead | null {
  const kind = reader.number();
  if (kind === NO_HEAD) return null;
  if (kind === SAME_HEAD) return { ...(before as RowHead), createdAt: reader.number() };
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

function hasRecords({ mail, logs, deadLetters, deadLettersCleared }: ExecutionWrite): boolean {
  return (
    (mail !== undefined && mail.length > 0) ||
    (logs !== undefined && logs.length > 0) ||
    (deadLetters !== undefined && deadLetters.length > 0) ||
    (deadLettersCleared ?? 0) > 0
  );
}

function packRecords(packed: Packed, write: ExecutionWrite): void {
  const { mail = [], logs = [], deadLetters = [], deadLettersCleared = 0 } = write;
  packed.push(mail.length, logs.length, deadLettersCleared, deadLetters.length);
  for (const { id, to, body } of mail) packed.push(id, to, body);
  for (const row of logs) {
    const lastN = row.lines.reduce((last, { n }) => Math.max(last, n), 0);
    packed.push(row.attempt, lastN, row.mayRepeat ? 1 : 0, packLog(row));
  }
  for (const { seq, tasks } of deadLetters) packed.push(seq, JSON.stringify(tasks));
}

function unpackRecords(reader: Reader): RowRecords {
  const mailCount = reader.number();
  const logCount = reader.number();
  const deadLettersCleared = reader.number();
  const deadLetterCount = reader.number();
  return {
    deadLettersCleared,
    mail: reader.list(mailCount, () => ({
      id: reader.text(),
      to: reader.text(),
      body: reader.text(),
    })),
    logs: reader.list(logCount, () => ({
      attempt: reader.text(),
      lastN: reader.number(),
      mayRepeat: reader.number() === 1,
      body: reader.text(),
    })),
    deadLetters: reader.list(deadLetterCount, () => ({ seq: reader.number(), tasks: reader.text() })),
  };
}

/** Reads the fields of a packed commit in order, with the types that `packWrites` wrote. */
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
