/**
 * The parts of a PostgreSQL store, and the connections that they use: one for commits, one for membership, some for all else.
 */
import type pg from "pg";
import { type Clock, systemClock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { systemRandom } from "../../std/random.ts";
import { type Hint, LEASE_MS } from "../cluster-store.ts";
import { joinParts } from "../derived-store.ts";
import type { StoreMethods } from "../store.ts";
import { CommitQueue } from "./commit-queue.ts";
import type { Database, Meta } from "./database.ts";
import { Hints } from "./hints.ts";
import { Knowledge } from "./knowledge.ts";
import { Link } from "./link.ts";
import { Links } from "./links.ts";
import { PostgresMembership } from "./membership.ts";
import { PostgresReader } from "./reader.ts";
import { RecordReader } from "./record-reader.ts";
import { PostgresRepairs } from "./repairs.ts";
import { PostgresSearchIndex } from "./search-index.ts";
import { SideWriter } from "./side-writer.ts";

const TIMEOUT_MS = 40_000;
/**
 * How much of a lease membership waits for an answer: a connection that hangs is given up while there is time to
 * renew through another. Not below some time that any database needs.
 */
const RENEW_SHARE = 0.3;
const RENEW_TIMEOUT_MIN_MS = 1_000;
/** Connections for all but commits and membership. */
const LINKS = 2;

/** Where a store is, and how it is used. */
export interface PostgresStoreOptions {
  /** Where the database is: postgres://user:password@host:port/database. */
  readonly url: string;
  /** Where this node listens: its name among the others. */
  readonly nodeUrl: string;
  /** The schema that holds everything; made if it does not exist. */
  readonly schema?: string;
  /** How many partitions a new store has. */
  readonly partitions?: number;
  readonly leaseMs?: number;
  readonly clock?: Clock;
  /** How long to wait for a connection or an answer. */
  readonly timeoutMs?: number;
  /** How far the search index stays behind what other nodes write. */
  readonly searchBehindMs?: number;
}

/** Methods of the port that the parts answer. TypeScript checks that no part is missing. */
type Answers = Omit<StoreMethods, "commit" | "load" | "purge">;

/** The parts of a store that is open. */
export interface PostgresParts {
  readonly database: Database;
  readonly meta: Meta;
  readonly commits: Link;
  readonly control: Link;
  readonly links: Links;
  readonly knowledge: Knowledge;
  readonly queue: CommitQueue;
  readonly membership: PostgresMembership;
  readonly hints: Hints;
  readonly reader: PostgresReader;
  readonly records: RecordReader;
  readonly side: SideWriter;
  readonly repairs: PostgresRepairs;
  readonly search: PostgresSearchIndex;
  readonly answers: Answers;
}

/** Makes the parts over a database that is open. */
export function makeParts(
  database: Database,
  given: PostgresStoreOptions,
  onHint: (hint: Hint) => void,
): PostgresParts {
  const { meta } = database;
  const { generation, lock, partitions } = meta;
  const { nodeUrl, leaseMs = LEASE_MS, clock = systemClock() } = given;
  const begin = (client: pg.Client) => database.begin(client);
  const commits = link(given, "commits", begin);
  const options = linkOptions(given, "membership");
  const renewMs = Math.min(options.timeoutMs, Math.max(RENEW_TIMEOUT_MIN_MS, leaseMs * RENEW_SHARE));
  const control: Link = new Link({
    ...options,
    timeoutMs: renewMs,
    setUpMs: renewMs,
    begin: async (client) => {
      await begin(client);
      await hints.listen(client);
    },
  });
  const hints = new Hints(control, clock, `rondo_${lock}`);
  hints.onHint(onHint);
  const links = new Links(Array.from({ length: LINKS }, () => link(given, "reads", begin)));
  const knowledge = new Knowledge(commits);
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
    ...defined({ behindMs: given.searchBehindMs }),
  });
  return {
    database,
    meta,
    commits,
    control,
    links,
    knowledge,
    membership,
    hints,
    queue,
    reader,
    records,
    side,
    repairs,
    search,
    answers: joinParts([reader, records, side, repairs, search]),
  };
}

function link(given: PostgresStoreOptions, what: string, begin: (client: pg.Client) => Promise<void>): Link {
  return new Link({ ...linkOptions(given, what), setUpMs: TIMEOUT_MS, begin });
}

/** How a connection is made. */
export function linkOptions(given: PostgresStoreOptions, what: string) {
  const { url, nodeUrl, clock = systemClock(), timeoutMs = TIMEOUT_MS } = given;
  // The server cuts it off after 63 bytes.
  const applicationName = `rondo ${what} ${systemRandom.u32().toString(36)} ${nodeUrl}`.slice(0, 63);
  return { url, applicationName, clock, timeoutMs };
}
