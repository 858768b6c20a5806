/**
 * The membership of this node in the cluster: incarnation, lease and partitions. It has a database connection of its own, so
 * that renewals never wait for other calls.
 */
import { EVENT_VERSION } from "../../kernel/event.ts";
import { defined } from "../../std/defined.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { ENDED_MS, type MemberNode, type Membership } from "../cluster-store.ts";
import type { MailboxMessage, Ownership, UncleanEnd } from "../store.ts";
import { DatabaseUnusable } from "./faults.ts";
import type { Link, RunOptions, Statement, Value } from "./link.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const STATEMENTS = {
  // The renewal deletes the rows of expired nodes. The second column still shows these rows, as they were before the statement.
  renew: `SELECT renew_node_2($1, $2, $3, $4, $5, $6), (
      SELECT coalesce(json_object_agg(incarnation, at), '{}')::text FROM (
        SELECT incarnation, ended_at AS at FROM node_ends WHERE ended_at > now_ms_1() - ${ENDED_MS}
        UNION ALL
        SELECT incarnation, lease_until FROM nodes WHERE lease_until <= now_ms_1()
      ) AS gone
    )`,
  take: `SELECT taken, taken_epoch, taken_unclean_epoch, taken_unclean_ends, taken_limits_from
    FROM take_partitions_2($1, $2, $3, $4) ORDER BY taken`,
  release: "SELECT release_partitions_1($1, $2, $3, $4)",
  leave: "SELECT leave_1($1, $2, $3)",
  post: "SELECT post_letters_1($1, $2, $3, $4, $5)",
  // A damaged name may be invalid UTF-8, which PostgreSQL cannot compare. So damaged rows are also found by a wrong
  // lease or URL.
  "drop-odd": `DELETE FROM nodes WHERE lease_until > $2 OR incarnation = ANY (string_to_array($1, E'\\x1f'))
    OR NOT (starts_with(url, 'http://') OR starts_with(url, 'https://') OR starts_with(url, 'unix:'))`,
} as const;

export interface MembershipOptions {
  readonly link: Link;
  readonly nodeUrl: string;
  readonly generation: string;
  readonly lock: number;
  readonly leaseMs: number;
  readonly random?: Random;
}

/** The longest possible lease, for finding rows with a damaged end. */
const LEASE_MAX_MS = 86_400_000;
const ADDRESS = /^(?:https?:\/\/|unix:)/;

/** The value in place of an incarnation for a node that has not joined. */
const NONE = "";

export class PostgresMembership {
  readonly #options: MembershipOptions;
  #incarnation = NONE;
  /** The epochs in which this node owns partitions, by partition, as far as it knows. */
  readonly #owned = new Map<number, number>();
  /** The newest epoch of each partition that this node has seen. */
  readonly #seen = new Map<number, number>();

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  get incarnation(): string {
    return this.#incarnation;
  }

  /** The epoch in which this node owns a partition; undefined if it does not own it. */
  epochOf(partition: number): number | undefined {
    return this.#owned.get(partition);
  }

  /**
   * Renews the lease and removes members with damaged rows. Also returns whether the incarnation is new, and the position of
   * the write-ahead log.
   */
  async renew(): Promise<Membership & { readonly isNew: boolean; readonly walPosition: number }> {
    const found = await this.#renew();
    const odd = found.nodes.filter((node) => this.#isOdd(node, found));
    if (odd.length === 0) return found;
    await this.#run("drop-odd", [
      joinTexts(odd.map(({ incarnation }) => incarnation)),
      found.now + LEASE_MAX_MS,
    ]);
    const { isNew, ...again } = await this.#renew();
    return { ...again, isNew: isNew || found.isNew };
  }

  #isOdd({ url, incarnation, leaseUntil }: MemberNode, { now, incarnation: own }: Membership): boolean {
    if (incarnation === own && url !== this.#options.nodeUrl) return true;
    return !ADDRESS.test(url) || leaseUntil > now + LEASE_MAX_MS;
  }

  async #renew(): Promise<Membership & { readonly isNew: boolean; readonly walPosition: number }> {
    const { nodeUrl, generation, leaseMs, random = systemRandom } = this.#options;
    const next = Array.from({ length: 3 }, () => random.u32().toString(36)).join("");
    const own = [generation, nodeUrl, this.#incarnation, next, leaseMs, EVENT_VERSION];
    type Renewed = Omit<Membership, "ended"> & { walPosition: number };
    const [[renewed, ended]] = (await this.#run<[string, string]>("renew", own, () => ({
      kind: "renewal",
    }))) as [[string, string]];
    const membership = {
      ...(JSON.parse(renewed) as Renewed),
      ended: JSON.parse(ended) as Membership["ended"],
    };
    const isNew = membership.incarnation !== this.#incarnation;
    if (isNew) this.#owned.clear();
    this.#incarnation = membership.incarnation;
    for (const { partition, epoch } of membership.partitions) this.#see(partition, epoch);
    return { ...membership, isNew };
  }

  async take(partitions: readonly number[]): Promise<Ownership[]> {
    const { lock, generation } = this.#options;
    const wanted = joinNumbers([...new Set(partitions)]);
    if (wanted === null || this.#incarnation === NONE) return [];
    type Row = [partition: number, epoch: number, uncleanEpoch: number, ends: string, limitsFrom: number];
    const rows = await this.#run<Row>("take", [lock, generation, this.#incarnation, wanted], (taken) =>
      taken.length === 0 ? null : { kind: "take", partitions: taken.map(([partition]) => partition) },
    );
    return rows.map(([partition, epoch, uncleanEpoch, ends, limitsStoredFrom]) => {
      this.#owned.set(partition, epoch);
      this.#see(partition, epoch);
      return { partition, epoch, uncleanEpoch, uncleanEnds: readEnds(ends), limitsStoredFrom };
    });
  }

  async release(partitions: readonly number[], options: { clean: boolean }): Promise<void> {
    const given = joinNumbers([...new Set(partitions)]);
    if (given === null || this.#incarnation === NONE) return;
    await this.#run("release", [this.#options.lock, this.#incarnation, given, options.clean]);
    for (const partition of partitions) this.#owned.delete(partition);
  }

  async leave(options: { clean: boolean }): Promise<void> {
    if (this.#incarnation === NONE) return;
    await this.#run("leave", [this.#options.lock, this.#incarnation, options.clean]);
    this.#owned.clear();
    this.#incarnation = NONE;
  }

  async post(messages: readonly (MailboxMessage & { readonly partition: number })[]): Promise<void> {
    const firsts = new Map(messages.toReversed().map((message) => [message.id, message]));
    const unique = messages.filter((message) => firsts.get(message.id) === message);
    const values = [
      this.#options.generation,
      joinTexts(unique.map(({ id }) => plainText(id))),
      joinNumbers(unique.map(({ partition }) => partition)),
      joinTexts(unique.map(({ to }) => plainText(to))),
      joinTexts(unique.map(({ body }) => encodeText(body))),
    ];
    await this.#run("post", values, () => ({ kind: "message" }));
  }

  /** The epochs of a partition only grow. A smaller epoch means that the database is an older copy. */
  #see(partition: number, epoch: number): void {
    const seen = this.#seen.get(partition) ?? 0;
    if (epoch < seen)
      throw new DatabaseUnusable(
        "older",
        `the database is older than what this node has seen (partition ${partition} is in epoch ${epoch}, was ` +
          `in ${seen}). If it was restored from a backup, run \`rondo migrate --restored\`, then start the nodes again`,
      );
    this.#seen.set(partition, epoch);
  }

  async #run<Row extends readonly unknown[]>(
    name: keyof typeof STATEMENTS,
    values: readonly Value[],
    remember?: RunOptions<Row>["remember"],
  ): Promise<Row[]> {
    const statement: Statement = { name, text: STATEMENTS[name] };
    const options = { writes: true, ...defined({ remember }) };
    return (await this.#options.link.run<Row>(statement, values, options)) ?? [];
  }
}

/** Parses ends of epochs: pairs of an epoch and a time. */
function readEnds(text: string): UncleanEnd[] {
  const numbers = text.split(" ").map(Number);
  const ends: UncleanEnd[] = [];
  for (let i = 0; i + 1 < numbers.length; i += 2)
    ends.push({ epoch: numbers[i] as number, at: numbers[i + 1] as number });
  return ends;
}
