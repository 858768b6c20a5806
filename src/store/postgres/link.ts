/**
 * A connection to the database that is opened lazily and reopened when it is lost. The server runs one statement after the other. A
 * statement is sent after the answer to the one before, unless it has the option `follows`. Each is prepared once per connection. `session`
 * counts the connections: data that was cached through one is not valid for the next, since the database may have been restored in between.
 *
 * The server does not notice at once that a connection is lost, and may still run a statement. So a new connection terminates
 * the former ones on the server before it is used.
 */
import type { Duplex } from "node:stream";
import pg from "pg";
import type { Clock } from "../../std/clock.ts";
import { sha256 } from "../../std/hash.ts";
import { StoreFault } from "../store.ts";
import type { Acknowledged, MarkWriter } from "./acknowledged-writes.ts";
import { connectFault, faultOf, garbled, isGarbled, isReadTimeout } from "./faults.ts";
import { drop, type Hosts } from "./hosts.ts";
import { type Columns, PreparedQuery, parserOf, type Value } from "./prepared-query.ts";

export type { Value } from "./prepared-query.ts";

/** A statement that is prepared once per connection. */
export interface Statement {
  /** The name of the statement in messages. Its name on the server is a hash of the text. */
  readonly name: string;
  readonly text: string;
  /**
   * A statement that runs first in the same transaction, with the first `valueCount` values of the call. This statement gets its snapshot
   * after that one has ended.
   */
  readonly first?: { readonly statement: Statement; readonly valueCount: number };
}

export interface LinkOptions {
  /** The hosts of the database, which all connections of a store share. */
  readonly hosts: Hosts;
  /** Adds marks to the writes of this connection, so that lost writes can be found after a failover. Without it, writes get no marks. */
  readonly marks?: MarkWriter;
  /** The application name on the server. Its beginning contains a random text, so that it is unique. */
  readonly applicationName: string;
  readonly clock: Clock;
  /** The timeout of connecting, and of each statement. */
  readonly timeoutMs: number;
  /** The timeout of setting up a connection; none by default. */
  readonly setUpMs?: number;
  /** Sets up each new connection; throws if the database must not be used. */
  readonly begin: (client: pg.Client, timeline: number | null) => Promise<void>;
}

interface SentStatement {
  readonly client: pg.Client;
  /** Whether it was committed without the confirmation of a synchronous standby. */
  isUnconfirmed: boolean;
}

/** The columns of a statement. They are confirmed if two answers have described them alike. */
interface KnownColumns {
  readonly columns: Columns;
  readonly isConfirmed: boolean;
}

export interface RunOptions<Row> {
  readonly writes: boolean;
  readonly session?: number;
  /**
   * Whether the statement may be sent before the answer to the one that is running. The server runs them one after the other, each in its own
   * transaction. It is ignored unless exactly one statement is under way.
   */
  readonly follows?: boolean;
  /** The number of the call. The server returns it as the last value of each row, so the answer of another call is noticed. */
  readonly call?: number;
  /** Returns how the write is remembered after it was acknowledged; null if nothing was written. */
  readonly remember?: (rows: readonly Row[]) => Acknowledged | null;
}

/** The most connections in a row that are replaced because of garbled bytes. After that, the errors must have another cause. */
const GARBLED_MAX = 5;

const END_TIMEOUT_MS = 5_000;
const OLD_TIMEOUT_MS = 10_000;

/** Names of prepared statements by text; texts are constants, so there are few. */
const preparedNames = new Map<string, string>();

/** Returns a unique name of a prepared statement for its text. PostgreSQL accepts names of up to 63 bytes. */
function preparedName(text: string): string {
  let name = preparedNames.get(text);
  if (name === undefined) {
    name = sha256(text).slice(0, 40);
    preparedNames.set(text, name);
  }
  return name;
}

export class Link {
  readonly #options: LinkOptions;
  #client: pg.Client | null = null;
  #connecting: Promise<pg.Client> | null = null;
  #isEnded = false;
  /** Resolves when the last statement has ended, and with it all earlier ones. */
  #free: Promise<void> = Promise.resolve();
  busy = 0;
  /** The columns of the result of each statement, by text. */
  readonly #columns = new Map<string, KnownColumns>();
  #garbled = 0;
  /** The number of this connection, from 1. */
  session = 0;
  /** The timeline of the server of this connection; null if it is not known. */
  timeline: number | null = null;
  /** The statements that were sent and not answered, in order. The server is running the first one. */
  #sent: readonly SentStatement[] = [];

  constructor(options: LinkOptions) {
    this.#options = options;
    options.hosts.onTimeline((timeline) => {
      const client = this.#client;
      if (client === null || this.timeline === null || this.timeline >= timeline) return;
      this.#client = null;
      drop(client, "another server was promoted");
    });
  }

  /** Runs a statement and returns its rows as arrays. If `session` is given and that connection was replaced, it returns null instead. */
  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
    options: RunOptions<Row>,
  ): Promise<Row[] | null> {
    const attempted = { sent: false, writes: options.writes };
    const isSentAhead = options.follows === true && this.#mayFollow;
    const earlier = this.busy++ === 0 ? null : this.#free;
    let letPass = (): void => {};
    this.#free = new Promise<void>((resolve) => {
      letPass = resolve;
    });
    let hasEnded = false;
    let cancel = (): void => {};
    let used: pg.Client | null = null;
    try {
      if (earlier !== null && !isSentAhead) await this.#turn(earlier);
      const client = this.#ready ?? (await this.connected());
      if (options.session !== undefined && options.session !== this.session) return null;
      attempted.sent = true;
      used = client;
      const { remember } = options;
      const { marks } = this.#options;
      const first = firstOf(statement, values);
      const own = first === undefined ? values : values.slice(first.values.length);
      const marked = remember === undefined ? undefined : marks?.next(statement.text, own.length);
      const text = marked?.text ?? statement.text;
      // The first statement is not prepared on this connection yet. It runs once, alone, to be prepared. Its lock ends with that
      // transaction.
      if (first !== undefined && !PreparedQuery.isPrepared(client, first.name)) {
        cancel = this.#dropLate(client);
        await PreparedQuery.run(client, { ...first, columns: null });
        cancel();
      }
      const sent = { client, isUnconfirmed: false };
      this.#sent = [...this.#sent, sent];
      const query = {
        name: preparedName(text),
        text,
        values: marked === undefined ? own : [...own, ...marked.more],
        first,
        columns: this.#columnsOf(statement),
      };
      const answering = PreparedQuery.run(client, query, () => {
        this.#sent = this.#sent.filter((one) => one !== sent);
      });
      // The timer is set a microtask later, so that the timers of statements that wait for this one fire before it. If it fired first, the
      // connection would be dropped, and the next statement would be sent although its own time is over.
      await Promise.resolve();
      if (!isSentAhead) cancel = this.#dropLate(client);
      else
        void earlier?.then(() => {
          // The server begins this statement now.
          if (!hasEnded) cancel = this.#dropLate(client);
        });
      const answer = await answering;
      if (sent.isUnconfirmed) throw unconfirmed();
      if (answer.described !== null) this.#checkColumns(statement, answer.described);
      this.#garbled = 0;
      const rows = answer.rows as unknown as Row[];
      if (options.call !== undefined && rows.some((row) => row.at(-1) !== options.call)) {
        this.#replace("the answer of another call");
        throw new Error("Connection terminated: the answer is that of another call");
      }
      if (marked !== undefined) marks?.note(marked.n, remember?.(rows) ?? null);
      return rows;
    } catch (error) {
      if (attempted.sent && this.#isOnceGarbled(error)) {
        this.#replace("the answer is garbled");
        throw garbled(error, attempted);
      }
      if (isReadTimeout(error)) this.#replace("no answer in time");
      if (used !== null && used === this.#client && PreparedQuery.isBroken(used))
        this.#replace("an answer does not fit its request");
      throw faultOf(error, attempted);
    } finally {
      hasEnded = true;
      cancel();
      // If this statement was not sent, the next one must still wait for the earlier ones.
      if (earlier === null || attempted.sent) letPass();
      else void earlier.then(letPass);
      this.busy--;
    }
  }

  /**
   * Whether another statement may be sent while one is under way. The `query_timeout` of a URL begins when a statement is sent, so with it a
   * statement waits for its turn.
   */
  get #mayFollow(): boolean {
    const client = this.#client;
    if (client === null || this.busy !== 1 || this.#sent.length !== 1) return false;
    const { connectionParameters: given } = client as unknown as WithParameters;
    return Number(given.query_timeout ?? 0) === 0 && PreparedQuery.mayFollow(client);
  }

  /** Drops the connection. The next statement opens another one, which first ends what the server still runs for this one. */
  #replace(why: string): void {
    const client = this.#client;
    this.#client = null;
    if (client !== null) drop(client, why);
  }

  /** Closes the connection if there is no answer in time. The returned function ends the wait. */
  #dropLate(client: pg.Client): () => void {
    const { clock, timeoutMs } = this.#options;
    return clock.after(timeoutMs, () => drop(client, "no answer in time"));
  }

  /** Whether the answer is garbled, and this has not happened too often in a row. Frequent errors have another cause. */
  #isOnceGarbled(error: unknown): error is Error {
    return isGarbled(error) && ++this.#garbled <= GARBLED_MAX;
  }

  /** Returns the columns of a statement if two answers have described them alike; the server then need not describe them again. */
  #columnsOf({ text }: Statement): Columns | null {
    const known = this.#columns.get(text);
    return known?.isConfirmed === true ? known.columns : null;
  }

  /** Checks the described columns of a result. They never change for a statement, so different types mean that an answer was garbled. */
  #checkColumns({ name, text }: Statement, columns: Columns): void {
    const before = this.#columns.get(text)?.columns;
    if (before === undefined || before.types === columns.types) {
      this.#columns.set(text, { columns, isConfirmed: before !== undefined });
      return;
    }
    // It is not known which of the two answers was garbled, so the stored columns are forgotten.
    this.#columns.delete(text);
    throw new Error(`${name} returned columns of the types ${columns.types}, but earlier ${before.types}`);
  }

  /** Waits for the earlier statements; throws after a timeout, so that the queue stays bounded. */
  #turn(before: Promise<void>): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const cancel = clock.after(timeoutMs, () =>
        reject(
          new StoreFault("the database is too slow: a statement timed out while it waited for earlier ones", {
            retryable: true,
            nothingWritten: true,
          }),
        ),
      );
      void before.then(() => {
        cancel();
        resolve();
      });
    });
  }

  /** The connection; null if it is not open or may not be used. */
  get #ready(): pg.Client | null {
    return this.#isEnded ? null : this.#client;
  }

  /** Whether the connection is open and may be used. */
  get isReady(): boolean {
    return this.#ready !== null;
  }

  /** Returns the connection, and opens it if there is none. */
  async connected(): Promise<pg.Client> {
    if (this.#isEnded)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    if (this.#client !== null) return this.#client;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** Waits for running statements and closes the connection for good. */
  async end(): Promise<void> {
    this.#isEnded = true;
    const client = this.#client ?? (await this.#connecting?.catch(() => null)) ?? null;
    this.#client = null;
    if (client === null) return;
    const cancel = this.#options.clock.after(END_TIMEOUT_MS, () => drop(client, "no end in time"));
    await client.end().finally(cancel);
  }

  async #connect(): Promise<pg.Client> {
    const { setUpMs, timeoutMs, clock, begin, hosts } = this.#options;
    const attempted = { sent: false, writes: false };
    const refused = (error: unknown): unknown =>
      this.#isOnceGarbled(error) ? garbled(error, attempted) : faultOf(error, attempted);
    const { client, timeline } = await hosts
      .connect((url) => this.#makeClient(url), timeoutMs)
      .catch((error: unknown) => {
        throw refused(error);
      });
    const late = (): void => drop(client, "not set up in time");
    const cancel = setUpMs === undefined ? (): void => {} : clock.after(setUpMs, late);
    try {
      if (this.session > 0)
        await endOthers(client, Math.min(OLD_TIMEOUT_MS, (setUpMs ?? Number.POSITIVE_INFINITY) / 2));
      await begin(client, timeline);
    } catch (error) {
      drop(client, "could not be set up");
      throw refused(error);
    } finally {
      cancel();
    }
    this.#client = client;
    this.timeline = timeline;
    this.session++;
    return client;
  }

  #makeClient(url: string): pg.Client {
    const { applicationName, timeoutMs } = this.#options;
    let client: pg.Client;
    try {
      client = new pg.Client({
        connectionString: url,
        application_name: applicationName,
        connectionTimeoutMillis: timeoutMs,
        keepAlive: true,
        types: { getTypeParser: parserOf },
      });
    } catch (error) {
      throw connectFault(error);
    }
    guardParser(client);
    // A statement that waits for the connection gets the error by its own promise.
    client.on("error", () => this.#forget(client));
    client.on("end", () => this.#forget(client));
    client.on("notice", (notice) => {
      if (notice.routine !== SYNCHRONOUS_WAIT) return;
      const running = this.#sent.find((sent) => sent.client === client);
      if (running !== undefined) running.isUnconfirmed = true;
    });
    return client;
  }

  #forget(client: pg.Client): void {
    if (this.#client === client) this.#client = null;
  }
}

/** The parameters of a connection that the types of the library lack. */
interface WithParameters {
  readonly connectionParameters: { readonly query_timeout?: string | number | false | null };
}

/** Returns the call of the statement that runs first; undefined if there is none. */
function firstOf({ first }: Statement, values: readonly Value[]) {
  if (first === undefined) return undefined;
  const { text } = first.statement;
  return { name: preparedName(text), text, values: values.slice(0, first.valueCount) };
}

/** Terminates other connections with the same application name on the server, and waits up to `waitMs` until they have ended. */
async function endOthers(client: pg.Client, waitMs: number): Promise<void> {
  const { rows } = await client.query<{ gone: boolean }>(
    `SELECT pg_terminate_backend(pid, $1) AS gone FROM pg_stat_activity
      WHERE application_name = current_setting('application_name') AND usename = current_user
        AND pid <> pg_backend_pid()`,
    [Math.ceil(waitMs)],
  );
  if (rows.some(({ gone }) => !gone))
    throw new StoreFault("the database has not ended a lost connection yet", {
      retryable: true,
      nothingWritten: true,
    });
}

/** The routine of the server that waits for synchronous standbys. It sends a notice if an administrator cancels the wait. */
const SYNCHRONOUS_WAIT = "SyncRepWaitForLSN";

/** Makes the fault for a cancelled wait for the synchronous standby. A failover could lose the write, so the write is not acknowledged. */
function unconfirmed(): StoreFault {
  return new StoreFault(
    "the wait for the synchronous standby was cancelled: the database has written, but perhaps not the standby",
    { retryable: true, nothingWritten: false },
  );
}

/** The part of the driver that receives bytes from the server. */
interface Reading {
  attachListeners(stream: Duplex): void;
}

/** Closes the connection if the driver cannot parse its bytes; the driver would throw an uncaught error. */
function guardParser(client: pg.Client): void {
  const connection = client.connection as unknown as Reading;
  const attach = connection.attachListeners.bind(connection);
  connection.attachListeners = (stream) => {
    attach(stream);
    for (const listener of stream.listeners("data") as ((bytes: Buffer) => void)[]) {
      stream.off("data", listener);
      stream.on("data", (bytes: Buffer) => {
        try {
          listener(bytes);
        } catch (error) {
          stream.destroy(
            new Error("Connection terminated: the server sent bytes that are no valid message", {
              cause: error,
            }),
          );
        }
      });
    }
  };
}
