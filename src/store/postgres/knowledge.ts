/**
 * What this node knows of executions in its own partitions, so that most writes need no read. It is true as long as
 * the partition is had in the same epoch and the connection is the same: nobody else writes there meanwhile. A
 * mismatch with a write is looked up before it counts, so what is known may be behind, but never ahead.
 */
import { RecentExecutions } from "../recent-executions.ts";
import type { Link, Statement } from "./link.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const RECENT_MAX = 200_000;

export interface Known {
  readonly e: number;
  /** Sequence number of the last event. */
  end: number;
  /** The epoch of the last write. */
  epoch: number;
  /** The epoch of its partition when this was learnt. */
  readonly ownedIn: number;
  /** What its head is but for the phase, by `headKey`; null: not known. */
  head: string | null;
  /** The phase that its journal's rows have to name, since its head does not; null: its head names it. */
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

export class Knowledge {
  readonly #link: Link;
  readonly #recent = new RecentExecutions<Known>(RECENT_MAX);
  #session = 0;
  /** How often something was forgotten. */
  forgotten = 0;

  constructor(link: Link) {
    this.#link = link;
  }

  /** What is known of an execution in a partition that is had in this epoch. */
  get(id: string, epoch: number): Known | undefined {
    const known = this.#recent.get(id);
    return known?.ownedIn === epoch ? known : undefined;
  }

  set(id: string, known: Known): void {
    this.#recent.set(id, known);
  }

  /**
   * What was read beside the commits, begun when as much had been forgotten: it may be behind, so it counts only
   * where nothing is known.
   */
  suggest(id: string, known: Known, forgotten: number): void {
    if (forgotten === this.forgotten && this.get(id, known.ownedIn) === undefined)
      this.#recent.set(id, known);
  }

  forget(ids: Iterable<string>): void {
    this.forgotten++;
    for (const id of ids) this.#recent.delete(id);
  }

  /** The connection through which everything here is known; after another one, nothing is. */
  async session(): Promise<number> {
    await this.#link.connected();
    const { session } = this.#link;
    if (session !== this.#session) this.#recent.clear();
    this.#session = session;
    return session;
  }

  /** Looks executions up, given with the epochs of their partitions; those that exist are known then. */
  async learn(epochs: ReadonlyMap<string, number>): Promise<void> {
    const ids = [...epochs.keys()];
    this.forget(ids);
    type Row = [id: string, e: number, epoch: number, end: number, phase: string | null];
    const rows = await this.#link.run<Row>(FIND, [joinTexts(ids.map(plainText))], { writes: false });
    for (const [id, e, epoch, end, phase] of rows ?? [])
      this.#recent.set(id, { e, end, epoch, ownedIn: epochs.get(id) ?? 0, head: null, phase });
  }

  /** The greatest numbers of lines that are stored of these attempts, by `lineKey`. */
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

/** The key of an attempt in `lastLines`. */
export function lineKey(ref: number, attempt: string): string {
  return `${ref} ${attempt}`;
}
