/**
 * Commits on their way: one call is under way at a time, and all that are issued meanwhile travel together in the
 * next one, as far as they fit. What is written in one call is as if the commits had come one after the other; where
 * that would not be so, they do come one after the other.
 */
import { assert } from "../../std/assert.ts";
import type { Clock } from "../../std/clock.ts";
import { whyOfAnotherTime } from "../check-write.ts";
import { partitionOf } from "../partition-of.ts";
import { type Commit, type CommitVerdict, type Fence, StoreFault } from "../store.ts";
import { CommitBatch, type Pending, type Refusal } from "./commit-batch.ts";
import { WRITE } from "./commit-columns.ts";
import { sqlState } from "./faults.ts";
import type { Knowledge } from "./knowledge.ts";
import type { Link } from "./link.ts";

/** Payload characters, and commits, after which a call is full. */
const CHARS_MAX = 8_388_608;
const COMMITS_MAX = 256;
/**
 * Writes that are enough for a call: what comes after travels in the next one, so that whoever issues commits goes on
 * with the verdicts of the one while the database is busy with the other.
 */
const WRITES_ENOUGH = 256;
/** Tries to write a batch, each after learning that something had changed. */
const TRIES_MAX = 5;
const UNIQUE_VIOLATION = "23505";

/** Something that no commit may run beside. */
interface Alone {
  readonly alone: () => Promise<void>;
}

export interface QueueOptions {
  readonly link: Link;
  readonly knowledge: Knowledge;
  readonly partitions: number;
  readonly generation: string;
  readonly lock: number;
  readonly clock: Clock;
  /** The incarnation of this node. */
  readonly owner: () => string;
}

export class CommitQueue {
  readonly #options: QueueOptions;
  #waiting: (Pending | Alone)[] = [];
  #running: Promise<void> | null = null;
  /** The outcome of a call is not known, and it may still be under way in the server. */
  #isInDoubt = false;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Commits are written in the order of the calls. */
  commit(commit: Commit): Promise<CommitVerdict> {
    const another = whyOfAnotherTime(commit.fence, this.#options.generation);
    if (another !== null) return Promise.resolve(this.#refuseAll(commit, another));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commit, chars: charsOf(commit), resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Runs something while no commit is under way, after those that were issued before. */
  alone(run: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ alone: () => run().then(resolve, reject) });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when every call that failed is over in the server, too. */
  async settled(): Promise<void> {
    if (!this.#isInDoubt) return;
    await this.#options.knowledge.session();
    this.#isInDoubt = false;
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  #refuseAll({ writes }: Commit, why: string): CommitVerdict {
    const touched = new Set(writes.map(({ execution }) => partitionOf(execution, this.#options.partitions)));
    return { kind: "fenced", why, partitions: [...touched].sort((a, b) => a - b) };
  }

  async #run(): Promise<void> {
    // What is issued in the same turn travels together.
    await Promise.resolve();
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) break;
      if ("alone" in first) {
        this.#waiting.shift();
        await first.alone();
      } else this.#tellSoon(await this.#writeOrFail(this.#take(first)));
    }
    this.#running = null;
  }

  /**
   * What follows a verdict takes time, in which the database would have nothing to do: so the next call goes on its way
   * before the verdicts of this one are told.
   */
  #tellSoon(tell: () => void): void {
    if (this.#waiting.length === 0) tell();
    else this.#options.clock.soon(tell);
  }

  /** The commits that travel together, from the first on. */
  #take(first: Pending): Pending[] {
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
    return this.#waiting.splice(0, count) as Pending[];
  }

  /** Answers what tells the verdicts. */
  async #writeOrFail(pendings: readonly Pending[]): Promise<() => void> {
    try {
      return await this.#write(pendings);
    } catch (error) {
      if (error instanceof StoreFault && !error.nothingWritten) this.#isInDoubt = true;
      for (const { commit } of pendings)
        this.#options.knowledge.forget(commit.writes.map(({ execution }) => execution));
      return () => {
        for (const { reject } of pendings) reject(error);
      };
    }
  }

  async #write(pendings: readonly Pending[]): Promise<() => void> {
    const { knowledge, partitions } = this.#options;
    const batch = new CommitBatch(pendings, partitions);
    for (let tries = 0; ; tries++) {
      assert(tries < TRIES_MAX + partitions, "a commit is written or refused in the end");
      const session = await knowledge.session();
      await this.#learn(batch, batch.toLearn(knowledge));
      let ends = batch.checkEnds();
      if (ends.doubtful.size > 0) {
        await this.#learn(batch, ends.doubtful);
        ends = batch.checkEnds();
      }
      if (ends.wrong.size > 0 && pendings.length > 1) {
        for (const pending of pendings) (await this.#writeOrFail([pending]))();
        return () => {};
      }
      batch.refuse(ends.wrong);
      if (await this.#send(batch, session)) break;
    }
    return () => {
      for (const pending of pendings) pending.resolve(batch.verdictOf(pending));
    };
  }

  /** Looks executions up, which are given with the epochs of their partitions. */
  async #learn(batch: CommitBatch, epochs: ReadonlyMap<string, number>): Promise<void> {
    if (epochs.size === 0) return;
    const { knowledge } = this.#options;
    await knowledge.learn(epochs);
    batch.learnt(epochs.keys(), knowledge);
  }

  /** False: something was learnt, and it is to be tried again. */
  async #send(batch: CommitBatch, session: number): Promise<boolean> {
    const { link, knowledge, generation, lock, owner } = this.#options;
    const call = batch.build(await knowledge.lastLines(batch.repeating()));
    if (call === null) return true;
    const fixed = { ...call.fixed, p_lock: lock, p_generation: generation, p_owner: owner() };
    type Row = [refused: string | null, created: string | null, touched: string];
    let rows: Row[] | null;
    try {
      rows = await link.run<Row>(WRITE, call.columns.values(fixed), { writes: true, session });
    } catch (error) {
      if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
      // Something is there that was not known: nothing was written, and a second look will tell.
      knowledge.forget(batch.ids);
      batch.startOver();
      return false;
    }
    if (rows === null) {
      batch.startOver();
      return false;
    }
    const [refused, created, touched] = rows[0] as Row;
    if (refused !== null) {
      batch.refusedBy(JSON.parse(refused) as Refusal);
      return false;
    }
    batch.wrote(numbersOf(created), numbersOf(touched), knowledge);
    return true;
  }
}

/**
 * One call looks up the letters to take, then stores some, then takes those. So a letter that one commit takes and a
 * later one stores again, or the other way round, needs two calls.
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
 * Whether a commit takes a letter that it stores. It is taken if it is in a partition that the commit touches, so the
 * partitions of others must not count.
 */
function takesItsOwn({ writes, mailTaken = [] }: Commit): boolean {
  if (mailTaken.length === 0) return false;
  const taken = new Set(mailTaken);
  return writes.some(({ mail }) => mail?.some(({ id }) => taken.has(id)));
}

/** The numbers of an array as the database writes it. */
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
