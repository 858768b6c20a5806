/** The parts of an open PostgreSQL store, and their connections. */
import type pg from "pg";
import { type Clock, systemClock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { systemRandom } from "../../std/random.ts";
import { type Hint, LEASE_MS } from "../cluster-store.ts";
import { joinParts } from "../derived-store.ts";
import type { StoreMethods } from "../store.ts";
import { CommitQueue } from "./commit-queue.ts";
import type { Database } from "./database.ts";
import { Hints } from "./hints.ts";
import type { Hosts } from "./hosts.ts";
import { KnownExecutions } from "./known-executions.ts";
import { Link } from "./link.ts";
import { Links } from "./links.ts";
import { PostgresMembership } from "./membership.ts";
import { PostgresReader } from "./reader.ts";
import { RecordReader } from "./record-reader.ts";
import { PostgresRepairs } from "./repairs.ts";
import { PostgresSearchIndex } from "./search-index.ts";
import { SideWriter } from "./side-writer.ts";

const TIMEOUT_MS = 40_000;
/** How long a renewal waits before it tries another connection: a share of the lease time, and a minimum. */
const RENEW_SHARE = 0.3;
const RENEW_TIMEOUT_MIN_MS = 1_000;
/** The number of connections for all but commits and membership. */
const LINKS = 2;

export interface PostgresStoreOptions {
  /**
   * The URL of the database, `postgres://user:password@host:port/database`; several hosts are separated by commas (hosts.ts).
   */
  readonly url: string;
  /** The URL at which this node listens. It identifies the node. */
  readonly nodeUrl: string;
  /** The schema of the store, created if it does not exist. */
  readonly schema?: string;
  readonly partitions?: number;
  readonly leaseMs?: number;
  readonly clock?: Clock;
  /** The timeout of connecting and of statements. */
  readonly timeoutMs?: number;
  /** How far the search index lags behind the writes of other nodes, in milliseconds. */
  readonly searchBehindMs?: number;
  /** Called with a line when the database begins to fail over, and when another host of the URL is used. */
  readonly onLine?: (line: string) => void;
}

/** The methods of the store port that the parts implement. TypeScript checks that no method is missing. */
type Answers = Omit<StoreMethods, "commit" | "load" | "purge">;

export type PostgresParts = ReturnType<typeof makeParts>;

export function makeParts(
  { database, hosts }: { readonly database: Database; readonly hosts: Hosts },
  given: PostgresStoreOptions,
  onHint: (hint: Hint) => void,
) {
  const { meta } = database;
  const { generation, lock, partitions } = meta;
  const { nodeUrl, leaseMs = LEASE_MS, clock = systemClock() } = given;
  const begin = (client: pg.Client, timeline: number | null) => database.begin(client, timeline);
  const link = (what: string): Link =>
    new Link({
      ...linkOptions(given, hosts, what),
      marks: database.writes.newWriter(),
      setUpMs: TIMEOUT_MS,
      begin,
    });
  const commits = link("commits");
  const options = linkOptions(given, hosts, "membership");
  const renewMs = Math.min(options.timeoutMs, Math.max(RENEW_TIMEOUT_MIN_MS, leaseMs * RENEW_SHARE));
  const control: Link = new Link({
    ...options,
    timeoutMs: renewMs,
    setUpMs: renewMs,
    marks: database.writes.newWriter(),
    begin: async (client, timeline) => {
      await begin(client, timeline);
      await hints.listen(client);
    },
  });
  const hints = new Hints(control, clock, `rondo_${lock}`);
  hints.onHint(onHint);
  const links = new Links(Array.from({ length: LINKS }, () => link("reads")));
  const knowledge = new KnownExecutions(commits);
  const membership = new PostgresMembership({ link: control, nodeUrl, generation, lock, leaseMs });
  const owner = () => membership.incarnation;
  const queue = new CommitQueue({ link: commits, knowledge, partitions, generation, lock, owner, clock });
  const side = new SideWriter(links, generation);
  const settled = () => queue.settled();
  const reader = new PostgresReader(links, settled);
  const records = new RecordReader(links, settled);
  const repairs = new PostgresRepairs({ links, side, queue, knowledge, hints, meta });
  const search = new PostgresSearchIndex({
    ...{ links, reader, generation, now: () => records.now() },
    numberOf: (id) => knowledge.numberOf(id),
    ...defined({ behindMs: given.searchBehindMs }),
  });
  const answers: Answers = joinParts([reader, records, side, repairs, search]);
  return {
    ...{ database, meta, commits, control, links, knowledge, membership, hints, queue },
    ...{ reader, records, side, repairs, search, answers },
  };
}

export function linkOptions(given: PostgresStoreOptions, hosts: Hosts, what: string) {
  const { nodeUrl, clock = systemClock(), timeoutMs = TIMEOUT_MS } = given;
  // The server truncates application names to 63 bytes.
  const applicationName = `rondo ${what} ${systemRandom.u32().toString(36)} ${nodeUrl}`.slice(0, 63);
  return { hosts, applicationName, clock, timeoutMs };
}
