/**
 * Remembers the writes that the database has acknowledged to this node, and finds those that the database has lost: an
 * asynchronous standby that was promoted may lack the last ones (decision 078).
 * Each write inserts a mark in its own transaction: the node, the connection and an increasing number. A connection runs its
 * statements one after the other, and a database that fails over loses only the end of its write-ahead log. So all writes with
 * a number above the greatest stored mark are lost.
 */
import type pg from "pg";
import type { Clock } from "../../std/clock.ts";
import { randomHex, systemRandom } from "../../std/random.ts";

/** A write that the database has acknowledged. */
export interface Acknowledged {
  readonly kind: "commits" | "take" | "message" | "document" | "renewal";
  /** The number of commits that one statement wrote. */
  readonly commits?: number;
  /** The partitions that a take of ownership took. For commits: one entry for each commit and partition. */
  readonly partitions?: readonly number[];
}

/** The most memory for the remembered writes of a connection, in words of 4 bytes. Older writes are dropped. */
const WORDS_MAX = 262_144;
const WORDS_MIN = 1_024;
/**
 * The number of words at the head of a remembered write: its number (two words), its kind and commits, the number of its
 * partitions. The partitions follow.
 */
const HEAD_WORDS = 4;
const KINDS = ["commits", "take", "message", "document", "renewal"] as const;
const WORD = 2 ** 32;
/**
 * The time after which the node forgets an acknowledged write. Its mark in the database is deleted later, after a day without a
 * sign of the node.
 */
const FORGET_MS = 43_200_000;
/** The number of new marks after which a connection deletes its older marks from the database. */
const SWEPT_AFTER = 256;
/** The most partitions that a message lists. */
const LISTED_MAX = 20;

/** Deletes marks of nodes that have ended. A living node inserts a mark with each renewal. */
export const SWEEP_MARKS = `DELETE FROM acknowledged WHERE node NOT IN (
  SELECT node FROM acknowledged WHERE at > now_ms_1() - 86400000)`;

/** A statement with two additions: `inserted` also inserts a mark, `andSwept` also deletes the connection's older marks. */
interface MarkedTexts {
  readonly inserted: string;
  readonly andSwept: string;
}

/** A cache of statements with marks, by the original text. The texts are constants, so there are few. */
const markedTexts = new Map<string, MarkedTexts>();

function withMarks(text: string, values: number): MarkedTexts {
  const [node, link, number] = [1, 2, 3].map((i) => `$${values + i}`);
  const mark = `mark AS (INSERT INTO acknowledged (node, link, n) VALUES (${node}, ${link}, ${number}))`;
  const sweep = `swept AS (DELETE FROM acknowledged WHERE node = ${node} AND link = ${link} AND n < ${number})`;
  const prefixed = (parts: string): string =>
    /^\s*WITH\s/.test(text) ? text.replace(/^\s*WITH\s/, `WITH ${parts}, `) : `WITH ${parts} ${text}`;
  return { inserted: prefixed(mark), andSwept: prefixed(`${mark}, ${sweep}`) };
}

/**
 * Remembered writes in the order of their numbers, packed into words of 4 bytes. A node remembers tens of thousands of writes,
 * which would need too much memory as objects.
 */
class WriteLog {
  #words = new Uint32Array(WORDS_MIN);
  #length = 0;
  /** Writes up to this number have been dropped. */
  dropped = 0;

  add(n: number, { kind, commits = 0, partitions = [] }: Acknowledged): void {
    const size = HEAD_WORDS + partitions.length;
    while (this.#length + size > this.#words.length) this.#makeRoom();
    const [words, at] = [this.#words, this.#length];
    words[at] = Math.floor(n / WORD);
    words[at + 1] = n % WORD;
    words[at + 2] = commits * KINDS.length + KINDS.indexOf(kind);
    words[at + 3] = partitions.length;
    words.set(partitions, at + HEAD_WORDS);
    this.#length += size;
  }

  /** Yields the remembered writes with numbers above `after`, up to `last`. */
  *between(after: number, last: number): Generator<Acknowledged> {
    for (let at = 0; at < this.#length; at += this.#sizeAt(at)) {
      const n = this.#numberAt(at);
      if (n <= after || n > last) continue;
      const what = this.#words[at + 2] ?? 0;
      const kind = KINDS[what % KINDS.length] as Acknowledged["kind"];
      const partitions = [...this.#words.subarray(at + HEAD_WORDS, at + this.#sizeAt(at))];
      yield { kind, commits: Math.floor(what / KINDS.length), partitions };
    }
  }

  clear(): void {
    this.#words = new Uint32Array(WORDS_MIN);
    this.#length = 0;
  }

  /** Doubles the space, or drops the older half of the writes. */
  #makeRoom(): void {
    if (this.#words.length < WORDS_MAX) {
      const words = new Uint32Array(this.#words.length * 2);
      words.set(this.#words);
      this.#words = words;
      return;
    }
    let at = 0;
    for (; at < this.#length / 2; at += this.#sizeAt(at)) this.dropped = this.#numberAt(at);
    this.#words.copyWithin(0, at, this.#length);
    this.#length -= at;
  }

  #numberAt(at: number): number {
    return (this.#words[at] ?? 0) * WORD + (this.#words[at + 1] ?? 0);
  }

  #sizeAt(at: number): number {
    return HEAD_WORDS + (this.#words[at + 3] ?? 0);
  }
}

/** The marks of one connection. */
export class MarkWriter {
  readonly #all: AcknowledgedWrites;
  readonly #link: number;
  #n = 0;
  /** The number of the last acknowledged write. */
  acknowledged = 0;
  readonly #log = new WriteLog();

  constructor(all: AcknowledgedWrites, link: number) {
    this.#all = all;
    this.#link = link;
  }

  /** Returns the statement with an added mark, the values for it, and the number of the mark. */
  next(text: string, values: number): { text: string; more: [string, number, number]; n: number } {
    const n = ++this.#n;
    let marked = markedTexts.get(text);
    if (marked === undefined) markedTexts.set(text, (marked = withMarks(text, values)));
    return {
      text: n % SWEPT_AFTER === 0 ? marked.andSwept : marked.inserted,
      more: [this.#all.node, this.#link, n],
      n,
    };
  }

  /** Records that the database acknowledged a write. */
  note(n: number, what: Acknowledged | null): void {
    this.acknowledged = n;
    this.#all.noted();
    if (what !== null) this.#log.add(n, what);
  }

  forget(): void {
    this.#log.clear();
    this.acknowledged = 0;
  }

  /** Returns the remembered writes in a range of numbers. `isAll` is true if none of them was dropped from memory. */
  between(
    after: number,
    last: number,
  ): { readonly writes: readonly Acknowledged[]; readonly isAll: boolean } {
    return { writes: [...this.#log.between(after, last)], isAll: after >= this.#log.dropped };
  }
}

export class AcknowledgedWrites {
  readonly node = randomHex(systemRandom, 8);
  readonly #clock: Pick<Clock, "now">;
  readonly #writers: MarkWriter[] = [];
  #lastAt = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  newWriter(): MarkWriter {
    const writer = new MarkWriter(this, this.#writers.length);
    this.#writers.push(writer);
    return writer;
  }

  noted(): void {
    this.#lastAt = this.#clock.now();
  }

  /** Returns a sentence about acknowledged writes that the database has lost; null if it has all that matter. */
  async findLost(client: pg.Client): Promise<string | null> {
    if (this.#clock.now() - this.#lastAt > FORGET_MS) for (const writer of this.#writers) writer.forget();
    // The query may not see writes that are acknowledged after this point, so only earlier ones are compared.
    const before = this.#writers.map(({ acknowledged }) => acknowledged);
    if (before.every((n) => n === 0)) return null;
    const { rows } = await client.query<{ link: number; n: string }>(
      "SELECT link, max(n)::text AS n FROM acknowledged WHERE node = $1 GROUP BY link",
      [this.node],
    );
    const stored = new Map(rows.map(({ link, n }) => [Number(link), Number(n)]));
    const found = this.#writers.map((writer, i) => writer.between(stored.get(i) ?? 0, before[i] ?? 0));
    return describeLoss(
      found.flatMap(({ writes }) => writes),
      found.every(({ isAll }) => isAll),
    );
  }
}

/** Describes lost writes; null if only the last renewal is lost, because a renewal only shows that the node lives. */
export function describeLoss(lost: readonly Acknowledged[], isAll: boolean): string | null {
  const count = (kind: Acknowledged["kind"]) => lost.filter((write) => write.kind === kind).length;
  const renewals = count("renewal");
  if (isAll && (lost.length === 0 || (renewals === lost.length && renewals === 1))) return null;
  const parts = [describeCommits(lost, isAll)];
  const takes = lost.flatMap(({ kind, partitions }) => (kind === "take" ? (partitions ?? []) : []));
  if (takes.length > 0) parts.push(`the ownership of ${some(takes.length, "partition")}`);
  if (count("message") > 0) parts.push(some(count("message"), "message"));
  if (count("document") > 0) parts.push(some(count("document"), "document"));
  if (renewals > 0) parts.push(some(renewals, "renewal"));
  return parts.join(", ");
}

function describeCommits(lost: readonly Acknowledged[], isAll: boolean): string {
  const byPartition = new Map<number, number>();
  let total = 0;
  for (const { kind, commits = 0, partitions = [] } of lost) {
    if (kind !== "commits") continue;
    total += commits;
    for (const partition of partitions) byPartition.set(partition, (byPartition.get(partition) ?? 0) + 1);
  }
  const least = isAll ? "" : "at least ";
  if (total === 0) return `${least}0 commits`;
  const most = [...byPartition].toSorted(([a, x], [b, y]) => y - x || a - b);
  const listed = most.slice(0, LISTED_MAX).map(([partition, n]) => `${n} of partition ${partition}`);
  const rest = most.slice(LISTED_MAX);
  if (rest.length > 0)
    listed.push(`${rest.reduce((sum, [, n]) => sum + n, 0)} of ${rest.length} other partitions`);
  return `${least}${some(total, "commit")} (${listed.join(", ")})`;
}

function some(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}
