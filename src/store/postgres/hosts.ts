/**
 * Knows the hosts of a database, and which of them accepts writes. The URL may have several hosts, in the form of libpq:
 * `postgres://user@a:5432,b:5432/database?target_session_attrs=read-write`. The driver (`pg`) supports only one host, so this
 * file tries to connect to all hosts at once.
 * A standby is not used. A promotion begins the next timeline, so a server with an older timeline than one that was used before
 * is a former primary, and is not used either. All hosts must be servers of one database cluster. If two of them are not, the
 * list is refused; a host that becomes another database later is not used.
 */
import type pg from "pg";
import type { Clock } from "../../std/clock.ts";
import { toError } from "../../std/to-error.ts";
import { StoreFault } from "../store.ts";
import { connectFault, DatabaseUnusable, faultOf, garbled, sqlState } from "./faults.ts";

export interface DatabaseHost {
  /** The host and the port, for messages. */
  readonly name: string;
  /** The URL of this host alone, for the driver. */
  readonly url: string;
}

/** A connection to a host that accepts writes. */
export interface Connected {
  readonly client: pg.Client;
  readonly host: DatabaseHost;
  /** The timeline of the server; null if the server does not permit reading it. */
  readonly timeline: number | null;
  /** The identity of the server's data; null if there is only one host. */
  readonly identity: Identity | null;
}

/** The identity of a server's data. A standby has the identity of its primary. */
interface Identity {
  /** The system identifier; null if the server does not permit reading it. */
  readonly system: string | null;
  /** When the server was started. It tells servers apart that accept writes but do not permit reading the identifier and the timeline. */
  readonly startedAt: string | null;
}

/**
 * How long a new connection waits for the other hosts, one of which might have a newer timeline. It waits only while no
 * timeline is known.
 */
const COMPARE_MS = 2_000;
const PORT_DEFAULT = "5432";
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)([^?#]*)(?:\?(.*))?$/;
const WRITABLE = ["any", "primary", "read-write"];

/** Reads the hosts of a URL. Throws if the URL asks for a server that accepts no writes. */
export function readHosts(url: string): readonly DatabaseHost[] {
  const parts = PARTS.exec(url);
  if (parts === null) return [{ name: "the database", url }];
  const [, before = "", hosts = "", path = "", query = ""] = parts;
  const settings = new URLSearchParams(query);
  const wanted = settings.get("target_session_attrs");
  if (wanted !== null && !WRITABLE.includes(wanted))
    throw new DatabaseUnusable(
      "settings",
      `the URL of the database says target_session_attrs=${wanted}, but Rondo needs a server that accepts writes. Set it to read-write`,
    );
  if (settings.get("host")?.includes(",") === true)
    throw new DatabaseUnusable(
      "settings",
      "the URL of the database has several hosts in its parameter `host`. Write them before the slash: " +
        "postgres://user@a:5432,b:5432/database",
    );
  const left = query.split("&").filter((part) => !/^(?:target_session_attrs=|$)/.test(part));
  const after = path + (left.length === 0 ? "" : `?${left.join("&")}`);
  return hosts.split(",").map((host) => ({
    name: nameOf(host === "" ? (settings.get("host") ?? "localhost") : host),
    url: before + host + after,
  }));
}

function nameOf(host: string): string {
  return /:\d+$/.test(host) ? host : `${host}:${PORT_DEFAULT}`;
}

export class Hosts {
  readonly #hosts: readonly DatabaseHost[];
  readonly #clock: Clock;
  /** Called with a line when the database begins to fail over, and when another host is used. */
  readonly #onLine: ((line: string) => void) | undefined;
  readonly #listeners = new Set<(timeline: number) => void>();
  /** The newest timeline that was used; 0 if there is none yet. */
  #timeline = 0;
  #last: DatabaseHost | null = null;
  /** The system identifier of the database that is used; null if it is not known. */
  #system: string | null = null;
  #isChecked = false;
  #isFailingOver = false;

  constructor(url: string, clock: Clock, onLine?: (line: string) => void) {
    this.#hosts = readHosts(url);
    this.#clock = clock;
    this.#onLine = onLine;
  }

  /** Calls `listener` when a connection has a newer timeline. Connections to servers of older timelines must then be replaced. */
  onTimeline(listener: (timeline: number) => void): void {
    this.#listeners.add(listener);
  }

  /** Connects to the host that accepts writes. `make` makes a client for a URL. Each host must answer within `timeoutMs`. */
  async connect(make: (url: string) => pg.Client, timeoutMs: number): Promise<Connected> {
    const connected = await this.#race(make, timeoutMs);
    this.#use(connected);
    if (!this.#isChecked) {
      const { client, host } = connected;
      try {
        await refuseTransactionPooler(client, () => {
          const second = make(host.url);
          return { second, cancel: this.#clock.after(timeoutMs, () => drop(second, "no answer in time")) };
        });
      } catch (error) {
        drop(client, "there is a pooler in transaction mode");
        throw error;
      }
      this.#isChecked = true;
    }
    return connected;
  }

  /**
   * Tries all hosts at once. Resolves with the first usable host, or with the one that has the newest timeline if no timeline
   * is known yet.
   */
  #race(make: (url: string) => pg.Client, timeoutMs: number): Promise<Connected> {
    return new Promise((resolve, reject) => {
      const usable: Connected[] = [];
      const refusals: HostRefusal[] = [];
      const identities = new Map<DatabaseHost, Identity>();
      let isOver = false;
      let cancel = (): void => {};
      const choose = (): void => {
        isOver = true;
        cancel();
        const [best, ...others] = usable.toSorted((a, b) => (b.timeline ?? 0) - (a.timeline ?? 0));
        for (const { client } of others) drop(client, "another host is used");
        const foreign = this.#last === null ? differentDatabases(this.#hosts, identities) : null;
        if (foreign !== null && best !== undefined) drop(best.client, "the hosts are different databases");
        if (foreign !== null) reject(foreign);
        else if (best === undefined) reject(this.#faultOf(refusals));
        else resolve(best);
      };
      const settled = (): void => {
        if (isOver) return;
        const isKnown = this.#timeline > 0 && usable.length > 0;
        if (isKnown || usable.length + refusals.length === this.#hosts.length) choose();
        else if (usable.length === 1) cancel = this.#clock.after(COMPARE_MS, choose);
      };
      for (const host of this.#hosts)
        void this.#try(host, make, { timeoutMs, onIdentity: (identity) => identities.set(host, identity) })
          .then(
            (connected) => {
              if (isOver) drop(connected.client, "another host is used");
              else usable.push(connected);
            },
            (error: unknown) => refusals.push({ host, error }),
          )
          .then(settled);
    });
  }

  async #try(
    host: DatabaseHost,
    make: (url: string) => pg.Client,
    { timeoutMs, onIdentity }: { timeoutMs: number; onIdentity: (identity: Identity) => void },
  ): Promise<Connected> {
    const client = make(host.url);
    const cancel = this.#clock.after(timeoutMs, () => drop(client, "no answer in time"));
    try {
      await client.connect().catch((error: unknown) => {
        throw connectFault(error);
      });
      const timeline = await readTimeline(client);
      const identity = this.#hosts.length > 1 ? await readIdentity(client, timeline) : null;
      if (identity !== null) onIdentity(identity);
      const system = identity?.system ?? null;
      if (this.#system !== null && system !== null && system !== this.#system)
        throw new HostUnusable(
          `is another database (its system identifier is ${system}, that of the database ${this.#system}): take it out of the URL, or make it a standby`,
          "the host is another database",
        );
      if (timeline === STANDBY)
        throw new HostUnusable(
          "is a standby or still recovering",
          "the database is a standby, or is still recovering",
        );
      if (this.#hosts.length > 1 && timeline !== null && timeline < this.#timeline)
        throw new HostUnusable(
          `is a former primary (timeline ${timeline}, the database is at ${this.#timeline}): make it a standby`,
          "the database is a former primary",
        );
      return { client, host, timeline, identity };
    } catch (error) {
      drop(client, "not used");
      throw error;
    } finally {
      cancel();
    }
  }

  #use({ host, timeline, identity }: Connected): void {
    this.#system ??= identity?.system ?? null;
    const moved = this.#last !== null && this.#last !== host;
    if (moved && this.#last !== null)
      this.#onLine?.(
        `the database has moved from ${this.#last.name} to ${host.name} (timeline ${timeline ?? "unknown"})`,
      );
    this.#last = host;
    this.#isFailingOver = false;
    if (timeline === null || timeline <= this.#timeline) return;
    this.#timeline = timeline;
    for (const listener of this.#listeners) listener(timeline);
  }

  /** Makes the fault for the case that no host can be used. */
  #faultOf(refusals: readonly HostRefusal[]): unknown {
    const [first] = refusals;
    if (this.#hosts.length === 1 || first === undefined) return first?.error;
    const faults = refusals.map(({ host, error }) => ({
      name: host.name,
      fault: asFault(error),
    }));
    const list = faults
      .toSorted((a, b) => this.#placeOf(a.name) - this.#placeOf(b.name))
      .map(
        ({ name, fault }) =>
          `${name} ${fault instanceof HostUnusable ? fault.why : `does not: ${fault.message}`}`,
      )
      .join("; ");
    const isFailingOver = faults.some(({ fault }) => fault instanceof HostUnusable);
    const retryable = faults.some(({ fault }) => fault.retryable);
    const message = isFailingOver
      ? `the database is failing over: no host accepts writes yet (${list}). Promote a standby if nothing does so by itself`
      : `no host of the database accepts a connection of this node (${list})`;
    if (isFailingOver && !this.#isFailingOver)
      this.#onLine?.("the database is failing over: this node goes on when a host accepts writes");
    this.#isFailingOver = isFailingOver;
    return new StoreFault(message, { retryable, nothingWritten: true, cause: first.error });
  }

  #placeOf(name: string): number {
    return this.#hosts.findIndex((host) => host.name === name);
  }
}

function asFault(error: unknown): StoreFault {
  const attempted = { sent: true, writes: false };
  const fault = faultOf(error, attempted);
  if (fault instanceof StoreFault) return fault;
  return garbled(toError(error), attempted);
}

interface HostRefusal {
  readonly host: DatabaseHost;
  readonly error: unknown;
}

/** The error of a host that answers but must not be used for writes. */
class HostUnusable extends StoreFault {
  override name = "HostUnusable";
  /** Why the host cannot be used, in words that follow its name in a sentence. */
  readonly why: string;
  constructor(why: string, message: string) {
    super(message, { retryable: true, nothingWritten: true });
    this.why = why;
  }
}

/** Returns the error for a list of hosts that are not servers of one database cluster; null if no difference is known. */
function differentDatabases(
  hosts: readonly DatabaseHost[],
  identities: ReadonlyMap<DatabaseHost, Identity>,
): DatabaseUnusable | null {
  for (const key of ["system", "startedAt"] as const) {
    const known = hosts.flatMap((host) => {
      const value = identities.get(host)?.[key] ?? null;
      return value === null ? [] : [{ name: host.name, value }];
    });
    if (new Set(known.map(({ value }) => value)).size < 2) continue;
    const what = key === "system" ? "system identifier" : "start time of the server";
    const list = known.map(({ name, value }) => `${name} (${what} ${value})`).join(", ");
    return new DatabaseUnusable(
      "settings",
      `the hosts of the URL are different databases, not a primary and its standbys: ${list}. List only servers that ` +
        "replicate each other",
    );
  }
  return null;
}

/** SQLSTATEs of a server that does not permit a function, or does not have it. */
const NOT_PERMITTED = ["42501", "0A000", "42883"];

async function readIdentity(client: pg.Client, timeline: number | null): Promise<Identity> {
  try {
    const { rows } = await client.query<{ system: string }>(
      "SELECT system_identifier::text AS system FROM pg_control_system()",
    );
    return { system: rows[0]?.system ?? null, startedAt: null };
  } catch (error) {
    if (!NOT_PERMITTED.includes(sqlState(error) ?? "")) throw error;
  }
  // Two host names may lead to the same server. Two servers that accept writes are different databases, unless their timelines
  // show which one is a former primary.
  if (timeline !== null) return { system: null, startedAt: null };
  const { rows } = await client.query<{ started: string }>(
    "SELECT pg_postmaster_start_time()::text AS started",
  );
  return { system: null, startedAt: rows[0]?.started ?? null };
}

const STANDBY = -1;

/** Reads the timeline of a primary; null if the server does not permit it; `STANDBY` if the server accepts no writes. */
async function readTimeline(client: pg.Client): Promise<number | null> {
  const { rows } = await client.query<{ standby: string }>("SELECT pg_is_in_recovery()::text AS standby");
  if (rows[0]?.standby === "true") return STANDBY;
  try {
    const found = await client.query<{ segment: string }>(
      "SELECT pg_walfile_name(pg_current_wal_lsn()) AS segment",
    );
    return Number.parseInt((found.rows[0]?.segment ?? "").slice(0, 8), 16) || null;
  } catch (error) {
    // Some providers do not permit reading the timeline.
    if (["42501", "0A000"].includes(sqlState(error) ?? "")) return null;
    throw error;
  }
}

/** How many times process ids are compared. A pooler may give the same server process twice by chance; a later comparison detects it. */
const COMPARISONS = 5;

/**
 * Refuses a pooler between Rondo and PostgreSQL that gives a connection another server process for each transaction (PgBouncer with
 * `pool_mode=transaction` or `statement`), because Rondo keeps settings, prepared statements and LISTEN in its sessions. A pooler in
 * session mode is permitted. `another` makes a second client for the same URL, which is dropped if it does not answer in time.
 */
async function refuseTransactionPooler(
  client: pg.Client,
  another: () => { readonly second: pg.Client; readonly cancel: () => void },
): Promise<void> {
  // A pooler reports a process id of its own, not that of the server process.
  const announced = (client as unknown as { readonly processID: number | null }).processID;
  const first = await readPid(client);
  if (first === announced) return;
  for (let i = 0; i < COMPARISONS; i++) {
    const { second, cancel } = another();
    try {
      await second.connect().catch((error: unknown) => {
        throw connectFault(error);
      });
      await second.query("BEGIN");
      // The first connection is idle now, so a pooler in transaction mode may give its server process to the second connection.
      const isShared = (await readPid(second)) === first || (await readPid(client)) !== first;
      if (isShared)
        throw new DatabaseUnusable(
          "settings",
          "the database is behind a pooler in transaction mode (such as PgBouncer): the server process changes " +
            "from one transaction to the next, so settings, prepared statements and notifications get lost. Connect " +
            "the nodes to PostgreSQL itself, each needs only 4 connections; or set pool_mode=session for Rondo's database",
        );
    } finally {
      cancel();
      // The connection is closed without a goodbye, because the server may never have answered.
      drop(second, "compared");
    }
  }
}

async function readPid(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: string }>("SELECT pg_backend_pid()::text AS pid");
  return Number(rows[0]?.pid);
}

/** Closes a connection at once. */
export function drop(client: pg.Client, why: string): void {
  client.connection.stream.destroy(new Error(`Connection terminated: ${why}`));
}
