/**
 * Group commit: the database runs one call at a time. The next call carries all commits that were issued meanwhile, as far as they
 * fit and the result is the same as if they were written one after the other. While a call runs, the next one is sent if it does not depend
 * on the answer to the first one (`CommitBatch.mayFollow`). So the database need not wait for this process between two calls.
 */
import { assert } from "../../std/assert.ts";
import type { Clock } from "../../std/clock.ts";
import { whyOtherGeneration } from "../check-write.ts";
import { partitionOf } from "../partition-of.ts";
import { type Commit, type CommitVerdict, type Fence, StoreFault } from "../store.ts";
import { CommitBatch, type Pending, type Refusal } from "./commit-batch.ts";
import { WRITE } from "./commit-columns.ts";
import { sqlState } from "./faults.ts";
import type { KnownExecutions } from "./known-executions.ts";
import type { Link, Statement, Value } from "./link.ts";

/** The most characters of one call. `COMMITS_MAX` is the most commits. */
const CHARS_MAX = 8_388_608;
const COMMITS_MAX = 256;
/**
 * When a call has this many writes, further commits wait for the next call, so that the engine can handle verdicts while the
 * database works.
 */
const WRITES_ENOUGH = 256;
/** The most calls that are sent and not answered: the one that the database runs, and the next one. */
const CALLS_MAX = 2;
/** The most tries to write a batch. A further try is needed only if another node has changed the data in between. */
const TRIES_MAX = 5;
const UNIQUE_VIOLATION = "23505";
/** The greatest number of a call. After it, the numbers begin again. */
const CALL_NUMBER_MAX = 2 ** 31 - 1;
const NO_LINES: ReadonlyMap<string, number> = new Map();

/** A function that runs alone: no commit runs at the same time. */
interface Alone {
  readonly alone: () => Promise<void>;
}

export interface QueueOptions {
  readonly link: Link;
  readonly knowledge: KnownExecutions;
  readonly partitions: number;
  readonly generation: string;
  readonly lock: number;
  readonly clock: Clock;
  readonly owner: () => string;
}

export class CommitQueue {
  readonly #options: QueueOptions;
  #waiting: (Pending | Alone)[] = [];
  /** The batches whose calls are under way, in their order; null stands for a function that runs alone. */
  readonly #underWay: (CommitBatch | null)[] = [];
  #isScheduled = false;
  /** The number of the last call. */
  #calls = 0;
  #onIdle: (() => void)[] = [];
  /** Whether the outcome of a failed call is unknown, because the server may still be working on it. */
  #isInDoubt = false;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Writes commits in the order of the calls of this method, except for a commit that must be repeated. */
  commit(commit: Commit): Promise<CommitVerdict> {
    const another = whyOtherGeneration(commit.fence, this.#options.generation);
    if (another !== null) return Promise.resolve(this.#refuseAll(commit, another));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commit, chars: charsOf(commit), resolve, reject });
      this.#beginSoon();
    });
  }

  /** Runs a function while no commit runs, after the commits that were issued before. */
  alone(run: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ alone: () => run().then(resolve, reject) });
      this.#beginSoon();
    });
  }

  /** Resolves when no call is running on the server any more, including calls that have failed at this node. */
  async settled(): Promise<void> {
    if (!this.#isInDoubt) return;
    await this.#options.knowledge.session();
    this.#isInDoubt = false;
  }

  /** Resolves when no call is under way and all commits have their verdicts. */
  idle(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  get #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#underWay.length === 0;
  }

  #refuseAll({ writes }: Commit, why: string): CommitVerdict {
    const touched = new Set(writes.map(({ execution }) => partitionOf(execution, this.#options.partitions)));
    return { kind: "fenced", why, partitions: [...touched].sort((a, b) => a - b) };
  }

  /** Begins the next calls in a microtask, because commits that are issued in the same turn share a call. */
  #beginSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    void Promise.resolve().then(() => {
      this.#isScheduled = false;
      this.#begin();
    });
  }

  /** Begins as many calls as may be under way now. */
  #begin(): void {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined || this.#underWay.length >= CALLS_MAX) return;
      const [before] = this.#underWay;
      if ("alone" in first) {
        if (before !== undefined) return;
        this.#waiting.shift();
        void this.#finish(null, first.alone().then(nothing));
        return;
      }
      const { partitions, knowledge } = this.#options;
      const count = this.#countNext(first);
      const batch = new CommitBatch(this.#waiting.slice(0, count) as Pending[], partitions);
      if (before === null || (before !== undefined && !batch.mayFollow(before, knowledge))) return;
      this.#waiting.splice(0, count);
      void this.#finish(batch, this.#writeOrFail(batch, before !== undefined));
    }
  }

  /**
   * Waits for the end of a call. Then the next calls begin, and the verdicts are given after that. So the database is not idle
   * while this process handles the verdicts.
   */
  async #finish(batch: CommitBatch | null, ended: Promise<() => void>): Promise<void> {
    this.#underWay.push(batch);
    const answer = await ended;
    this.#underWay.splice(this.#underWay.indexOf(batch), 1);
    const isLast = this.#waiting.length === 0;
    this.#begin();
    if (isLast) this.#answer(answer);
    else this.#options.clock.soon(() => this.#answer(answer));
  }

  #answer(answer: () => void): void {
    answer();
    if (this.#isIdle) for (const idle of this.#onIdle.splice(0)) idle();
  }

  /** Returns how many of the waiting commits the next call carries. */
  #countNext(first: Pending): number {
    const mail = new MailboxOrder();
    mail.note(first.commit);
    let chars = first.chars;
    let writes = first.commit.writes.length;
    let count = 1;
    for (; count < Math.min(this.#waiting.length, COMMITS_MAX); count++) {
      const next = this.#waiting[count] as Pending | Alone;
      if ("alone" in next) break;
      chars += next.chars;
      writes += next.commit.writes.length;
      if (chars > CHARS_MAX || writes > WRITES_ENOUGH) break;
      if (!isSame(next.commit.fence, first.commit.fence)) break;
      if (takesItsOwn(first.commit) || mail.isDisturbedBy(next.commit)) break;
      mail.note(next.commit);
    }
    return count;
  }

  /** Returns a function that resolves the commits with their verdicts. */
  async #writeOrFail(batch: CommitBatch, follows = false): Promise<() => void> {
    const { pendings } = batch;
    try {
      return await this.#write(batch, follows);
    } catch (error) {
      if (error instanceof StoreFault && !error.nothingWritten) this.#isInDoubt = true;
      for (const { commit } of pendings)
        this.#options.knowledge.forget(commit.writes.map(({ execution }) => execution));
      return () => {
        for (const { reject } of pendings) reject(error);
      };
    }
  }

  /** `follows`: another call is under way, and this one is sent behind it. */
  async #write(batch: CommitBatch, follows: boolean): Promise<() => void> {
    const { knowledge, partitions } = this.#options;
    const { pendings } = batch;
    for (let tries = 0; ; tries++) {
      assert(tries < TRIES_MAX + partitions, "a commit is written or refused after a few tries");
      const session = knowledge.currentSession ?? (await knowledge.session());
      const unread = batch.toRead(knowledge);
      if (unread.size > 0) await this.#read(batch, unread);
      let ends = batch.checkEnds();
      if (ends.doubtful.size > 0) {
        await this.#read(batch, ends.doubtful);
        ends = batch.checkEnds();
      }
      if (ends.wrong.size > 0 && pendings.length > 1) {
        for (const pending of pendings) (await this.#writeOrFail(new CommitBatch([pending], partitions)))();
        return nothing();
      }
      batch.refuse(ends.wrong);
      if (await this.#send(batch, { session, follows: follows && tries === 0 })) break;
    }
    return () => {
      for (const pending of pendings) pending.resolve(batch.verdictOf(pending));
    };
  }

  /** Reads executions into the cache. `epochs` has the ids of the executions, with the epochs of their partitions. */
  async #read(batch: CommitBatch, epochs: ReadonlyMap<string, number>): Promise<void> {
    const { knowledge } = this.#options;
    await knowledge.read(epochs);
    batch.noteRead(epochs.keys(), knowledge);
  }

  /** Sends the batch to the database. Returns false if it must be tried again with newer data. */
  async #send(batch: CommitBatch, how: Sending): Promise<boolean> {
    const written = await this.#sendOne(batch, how);
    return written === "refused" ? this.#sendAll(batch, how) : written;
  }

  /**
   * Sends a batch that appends one row to one execution (one-row.ts). Returns "refused" if the batch does more than that, or if nothing was
   * written; a full call then finds the reason.
   */
  async #sendOne(batch: CommitBatch, how: Sending): Promise<boolean | "refused"> {
    const one = batch.buildOne();
    if (one === null) return "refused";
    const { generation, lock, owner, knowledge } = this.#options;
    const { statement, partition, epoch } = one;
    const values = [lock, partition, partition, epoch, owner(), generation, ...one.values];
    type Row = [execution: number, call: number];
    const row = await this.#call<Row>(batch, { statement, values, ...how, isWritten: () => true });
    if (row === null) return false;
    if (row === "none") return "refused";
    batch.wrote(row, [], knowledge);
    return true;
  }

  async #sendAll(batch: CommitBatch, how: Sending): Promise<boolean> {
    const { knowledge, generation, lock, owner } = this.#options;
    const repeating = batch.repeating();
    const call = batch.build(repeating.length === 0 ? NO_LINES : await knowledge.lastLines(repeating));
    if (call === null) return true;
    const fixed = { ...call.fixed, p_lock: lock, p_generation: generation, p_owner: owner() };
    type Row = [refused: string | null, created: string | null, touched: string, call: number];
    const values = call.columns.values(fixed);
    const row = await this.#call<Row>(batch, { statement: WRITE, values, ...how, isWritten: isAccepted });
    if (row === null) return false;
    assert(row !== "none", "the function for commits returns one row");
    const [refused, created, touched] = row;
    if (refused !== null) {
      batch.refusedBy(JSON.parse(refused) as Refusal);
      return false;
    }
    const numbers = [numbersOf(created), numbersOf(touched)] as const;
    if (numbers.flat().some(Number.isNaN))
      throw new StoreFault("the answer to a commit is damaged", { retryable: true, nothingWritten: false });
    batch.wrote(...numbers, knowledge);
    return true;
  }

  /**
   * Runs the statement of a batch and returns its row, or "none" if it returns none. Returns null if the batch was built from stale data;
   * the batch then starts over.
   */
  async #call<Row extends readonly unknown[]>(
    batch: CommitBatch,
    call: Call<Row>,
  ): Promise<Row | "none" | null> {
    const { link, knowledge } = this.#options;
    const { statement, values, session, follows, isWritten } = call;
    this.#calls = (this.#calls % CALL_NUMBER_MAX) + 1;
    try {
      const answer = link.run<Row>(statement, [...values, this.#calls], {
        writes: true,
        call: this.#calls,
        session,
        follows,
        remember: ([row]) =>
          row !== undefined && isWritten(row) ? { kind: "commits", ...batch.acknowledged() } : null,
      });
      batch.isSent = true;
      // Commits that wait may be sent behind this call now.
      this.#beginSoon();
      const rows = await answer;
      if (rows !== null) return rows[0] ?? "none";
    } catch (error) {
      if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
      // Nothing was written, because a row exists that was not in the cache. The next try reads it.
      knowledge.forget(batch.ids);
    } finally {
      batch.isSent = false;
    }
    batch.startOver();
    return null;
  }
}

/** How a call is sent: over which connection, and whether right behind the call that is under way. */
interface Sending {
  readonly session: number;
  readonly follows: boolean;
}

interface Call<Row> extends Sending {
  readonly statement: Statement;
  readonly values: readonly Value[];
  /** Whether this result row means that the batch was written. */
  readonly isWritten: (row: Row) => boolean;
}

const isAccepted = ([refused]: readonly [refused: string | null, ...rest: unknown[]]): boolean =>
  refused === null;

/**
 * Keeps the order of mailbox messages: if one commit deletes a message and another stores it again, they need two calls,
 * because a call stores before it deletes.
 */
class MailboxOrder {
  readonly #stored = new Set<string>();
  readonly #taken = new Set<string>();

  isDisturbedBy(commit: Commit): boolean {
    const { writes, mailTaken } = commit;
    if (takesItsOwn(commit)) return true;
    if (this.#stored.size > 0 && mailTaken?.some((id) => this.#stored.has(id)) === true) return true;
    if (this.#taken.size === 0) return false;
    return writes.some(({ mail }) => mail?.some(({ id }) => this.#taken.has(id)));
  }

  note({ writes, mailTaken }: Commit): void {
    for (const { mail } of writes) if (mail !== undefined) for (const { id } of mail) this.#stored.add(id);
    if (mailTaken !== undefined) for (const id of mailTaken) this.#taken.add(id);
  }
}

/**
 * Whether a commit deletes a message that it stores itself. Such a commit gets a call of its own, because the message's
 * partition counts as one of that commit alone.
 */
function takesItsOwn({ writes, mailTaken = [] }: Commit): boolean {
  if (mailTaken.length === 0) return false;
  const taken = new Set(mailTaken);
  return writes.some(({ mail }) => mail?.some(({ id }) => taken.has(id)));
}

/** Returns an answer that does nothing, for a call whose commits already have their verdicts. */
function nothing(): () => void {
  return () => {};
}

/** Parses an array of numbers in PostgreSQL's text format. */
function numbersOf(array: string | null): number[] {
  return array === null || array === "{}" ? [] : array.slice(1, -1).split(",").map(Number);
}

function charsOf({ writes }: Commit): number {
  let chars = 0;
  for (const { entries, snapshot } of writes) {
    for (const { body } of entries) chars += body.length;
    chars += snapshot?.body.length ?? 0;
  }
  return chars;
}

function isSame(a: Fence, b: Fence): boolean {
  if (a === b) return true;
  const keys = Object.keys(a.epochs);
  return (
    keys.length === Object.keys(b.epochs).length &&
    keys.every((key) => a.epochs[Number(key)] === b.epochs[Number(key)])
  );
}
