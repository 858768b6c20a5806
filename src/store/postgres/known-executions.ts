/**
 * A cache of executions in the partitions of this node, so that most writes need no read. An entry is valid while the node owns
 * the partition in the same epoch over the same connection. An entry may be older than the database, but never newer.
 */
import { RecentExecutions } from "../recent-executions.ts";
import type { Link, Statement } from "./link.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const RECENT_MAX = 200_000;

export interface Known {
  readonly e: number;
  end: number;
  epoch: number;
  /** The epoch of the execution's partition when the entry was cached. */
  readonly ownedIn: number;
  /** A text of all fields of the execution's head except the phase, for comparison; null if it is unknown. */
  head: string | null;
  /** The phase of the execution if it is stored with the journal rows; null if it is stored in the head. */
  phase: string | null;
}

const FIND: Statement = {
  name: "find",
  text: String.raw`
    SELECT x.id, x.e, x.epoch, coalesce(j.last, 0), j.phase
    FROM unnest(string_to_array($1, E'\x1f')) AS w (id)
    JOIN executions x ON x.id = w.id
    LEFT JOIN LATERAL (
      SELECT seq + count - 1 AS last, phase FROM journal WHERE e = x.e ORDER BY seq DESC LIMIT 1
    ) j ON true`,
};

const LAST_LINES: Statement = {
  name: "last-lines",
  text: String.raw`
    SELECT w.e, w.attempt, l.last_n
    FROM unnest($1::bigint[], string_to_array($2, E'\x1f')) AS w (e, attempt)
    JOIN LATERAL (
      SELECT last_n FROM logs WHERE e = w.e AND attempt = w.attempt ORDER BY last_n DESC LIMIT 1
    ) l ON true`,
};

export class KnownExecutions {
  readonly #link: Link;
  readonly #recent = new RecentExecutions<Known>(RECENT_MAX);
  #session = 0;
  /** Counts the removals from the cache. */
  forgotten = 0;

  constructor(link: Link) {
    this.#link = link;
  }

  /** Returns the cached entry of an execution whose partition this node owns in the given epoch. */
  get(id: string, epoch: number): Known | undefined {
    const known = this.#recent.get(id);
    return known?.ownedIn === epoch ? known : undefined;
  }

  /** Returns the number of an execution that is cached, whoever owns its partition; undefined if it is not cached. */
  numberOf(id: string): number | undefined {
    return this.#recent.get(id)?.e;
  }

  set(id: string, known: Known): void {
    this.#recent.set(id, known);
  }

  /** Adds an entry that was read outside of commits. Does nothing if there is an entry, or if entries were removed since the read began. */
  suggest(id: string, known: Known, forgotten: number): void {
    if (forgotten === this.forgotten && this.get(id, known.ownedIn) === undefined)
      this.#recent.set(id, known);
  }

  forget(ids: Iterable<string>): void {
    this.forgotten++;
    for (const id of ids) this.#recent.delete(id);
  }

  /** The number of the current connection if it is open and the entries were read over it; otherwise null, and `session` is needed. */
  get currentSession(): number | null {
    return this.#link.isReady && this.#link.session === this.#session ? this.#session : null;
  }

  /** Returns the number of the current connection. If it is not the connection that the entries were read over, the cache is cleared. */
  async session(): Promise<number> {
    await this.#link.connected();
    const { session } = this.#link;
    if (session !== this.#session) this.#recent.clear();
    this.#session = session;
    return session;
  }

  /** Reads executions into the cache. `epochs` has their ids, with the epochs of their partitions. */
  async read(epochs: ReadonlyMap<string, number>): Promise<void> {
    const ids = [...epochs.keys()];
    this.forget(ids);
    type Row = [id: string, e: number, epoch: number, end: number, phase: string | null];
    const rows = await this.#link.run<Row>(FIND, [joinTexts(ids.map(plainText))], { writes: false });
    for (const [id, e, epoch, end, phase] of rows ?? [])
      this.#recent.set(id, { e, end, epoch, ownedIn: epochs.get(id) ?? 0, head: null, phase });
  }

  /** Returns the number of the last stored log line of each attempt, by `lineKey`. */
  async lastLines(attempts: readonly { e: number; attempt: string }[]): Promise<Map<string, number>> {
    if (attempts.length === 0) return new Map();
    const values = [
      joinNumbers(attempts.map(({ e }) => e)),
      joinTexts(attempts.map(({ attempt }) => encodeText(attempt))),
    ];
    const rows = await this.#link.run<[e: number, attempt: string, last: number]>(LAST_LINES, values, {
      writes: false,
    });
    return new Map((rows ?? []).map(([e, attempt, last]) => [lineKey(e, attempt), last]));
  }
}

export function lineKey(ref: number, attempt: string): string {
  return `${ref} ${attempt}`;
}
