/**
 * One connection to the database, made when it is first needed and again when it was lost. Statements go through it
 * one after the other, each prepared once per connection. `session` counts the connections: what was learnt through
 * one is not trusted through the next, since the database behind it may have been put back.
 *
 * The server does not notice at once that a connection is lost, and may still be busy with a statement. So the next
 * connection ends what is left of the ones before: once it is there, nothing of them happens any more.
 */
import type { Duplex } from "node:stream";
import pg from "pg";
import type { Clock } from "../../std/clock.ts";
import { sha256 } from "../../std/hash.ts";
import { StoreFault } from "../store.ts";
import { connectFault, faultOf, garbled, isGarbled } from "./faults.ts";

/** A statement that is prepared once per connection. */
export interface Statement {
  /** For messages only. The server knows the statement by a hash of its text. */
  readonly name: string;
  readonly text: string;
}

export type Value = string | number | boolean | null;

export interface LinkOptions {
  readonly url: string;
  /** What the server shows for it; begins with something that no other link has. */
  readonly applicationName: string;
  readonly clock: Clock;
  /** A connection that is not there after this time is given up, and so is a statement without an answer. */
  readonly timeoutMs: number;
  /** And so is a connection that is not set up after this time; by default that takes as long as it needs. */
  readonly setUpMs?: number;
  /** Sets up each connection; throws if the database behind it must not be used. */
  readonly begin: (client: pg.Client) => Promise<void>;
}

/** The database's numbers as numbers: all of ours are safe integers. */
const TYPES = {
  getTypeParser: (oid: number): ((value: string) => unknown) => {
    if (oid === INT8 || oid === INT4 || oid === INT2) return Number;
    return oid === BOOL ? (value) => value === "t" : (value) => value;
  },
};
const BOOL = 16;
const INT8 = 20;
const INT2 = 21;
const INT4 = 23;

/** So many connections in a row are given up as garbled; if the next one is too, it is not the connection. */
const GARBLED_MAX = 5;

const END_TIMEOUT_MS = 5_000;
const OLD_TIMEOUT_MS = 10_000;

/** Names of prepared statements, by their texts: texts are constants, so there are few. */
const preparedNames = new Map<string, string>();

/** A name that no other text has. PostgreSQL takes names of up to 63 bytes. */
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
  /** Resolves when the statements before have their answers. */
  #free: Promise<void> = Promise.resolve();
  /** How many statements have no answer yet. */
  busy = 0;
  /** The types of the columns that each statement answers with, by its text. */
  readonly #types = new Map<string, string>();
  /** Answers in a row that made no sense. */
  #garbled = 0;
  /** Which connection this is, from 1; it is another when the connection was lost. */
  session = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /**
   * Runs a statement, and answers its rows as arrays. `session`: only through that connection, else nothing is sent
   * and null is the answer.
   */
  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
    options: { readonly writes: boolean; readonly session?: number },
  ): Promise<Row[] | null> {
    const attempted = { sent: false, writes: options.writes };
    const before = this.busy++ === 0 ? null : this.#free;
    let letPass = (): void => {};
    this.#free = new Promise<void>((resolve) => {
      letPass = resolve;
    });
    let cancel = (): void => {};
    try {
      if (before !== null) await this.#turn(before);
      const client = await this.connected();
      if (options.session !== undefined && options.session !== this.session) return null;
      cancel = this.#options.clock.after(this.#options.timeoutMs, () => drop(client, "no answer in time"));
      attempted.sent = true;
      const { name, text } = statement;
      const result = await client.query<never[]>({
        name: preparedName(text),
        text,
        values: [...values],
        rowMode: "array",
      });
      this.#checkTypes(statement, result.fields);
      // A row whose own bytes are garbled can be passed over; how many there are is told at the end.
      if (result.command === "SELECT" && result.rowCount !== result.rows.length)
        throw new Error(`${name} answers with ${result.rows.length} rows of ${result.rowCount}`);
      this.#garbled = 0;
      return result.rows as unknown as Row[];
    } catch (error) {
      if (attempted.sent && this.#isOnceGarbled(error)) {
        const client = this.#client;
        // Whoever comes next gets another connection at once.
        this.#client = null;
        if (client !== null) drop(client, "it does not make sense");
        throw garbled(error, attempted);
      }
      throw faultOf(error, attempted);
    } finally {
      cancel();
      // Whoever gave up waiting does not let the next one pass what it waited for.
      if (before === null || attempted.sent) letPass();
      else void before.then(letPass);
      this.busy--;
    }
  }

  /** It does not make sense, and not for so long that it cannot be the connection. */
  #isOnceGarbled(error: unknown): error is Error {
    return isGarbled(error) && ++this.#garbled <= GARBLED_MAX;
  }

  /** A statement answers with the same types each time; bytes that say otherwise are garbled, and values with them. */
  #checkTypes({ name, text }: Statement, fields: readonly { readonly dataTypeID: number }[]): void {
    const types = fields.map(({ dataTypeID }) => dataTypeID).join();
    const before = this.#types.get(text);
    if (before === undefined) this.#types.set(text, types);
    if (before === undefined || before === types) return;
    // Either of them can be the garbled one.
    this.#types.delete(text);
    throw new Error(`${name} answers with columns of the types ${types}; they were ${before}`);
  }

  /** Resolves when the statements before are over; throws if that takes too long, so that not ever more wait. */
  #turn(before: Promise<void>): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const cancel = clock.after(timeoutMs, () =>
        reject(
          new StoreFault("the database is too slow: a statement waited in vain for those before it", {
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

  /** The connection, made if there is none. */
  async connected(): Promise<pg.Client> {
    if (this.#isEnded)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    if (this.#client !== null) return this.#client;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** Closes the connection for good; what is under way is waited for. */
  async end(): Promise<void> {
    this.#isEnded = true;
    const client = this.#client ?? (await this.#connecting?.catch(() => null)) ?? null;
    this.#client = null;
    if (client === null) return;
    const cancel = this.#options.clock.after(END_TIMEOUT_MS, () => drop(client, "no end in time"));
    await client.end().finally(cancel);
  }

  async #connect(): Promise<pg.Client> {
    const { setUpMs, clock, begin } = this.#options;
    const client = this.#makeClient();
    const late = (): void => drop(client, "not set up in time");
    const cancel = setUpMs === undefined ? (): void => {} : clock.after(setUpMs, late);
    try {
      await client.connect().catch((error: unknown) => {
        throw connectFault(error);
      });
      if (this.session > 0)
        await endOthers(client, Math.min(OLD_TIMEOUT_MS, (setUpMs ?? Number.POSITIVE_INFINITY) / 2));
      await begin(client);
    } catch (error) {
      drop(client, "could not be set up");
      const attempted = { sent: false, writes: false };
      throw this.#isOnceGarbled(error) ? garbled(error, attempted) : faultOf(error, attempted);
    } finally {
      cancel();
    }
    this.#client = client;
    this.session++;
    return client;
  }

  #makeClient(): pg.Client {
    const { url, applicationName, timeoutMs } = this.#options;
    let client: pg.Client;
    try {
      client = new pg.Client({
        connectionString: url,
        application_name: applicationName,
        connectionTimeoutMillis: timeoutMs,
        keepAlive: true,
        types: TYPES,
      });
    } catch (error) {
      throw connectFault(error);
    }
    guardParser(client);
    // Whoever waits for an answer is told by its own promise.
    client.on("error", () => this.#forget(client));
    client.on("end", () => this.#forget(client));
    return client;
  }

  #forget(client: pg.Client): void {
    if (this.#client === client) this.#client = null;
  }
}

/** Ends other connections of the same name, and waits until they are gone, for so long. */
async function endOthers(client: pg.Client, waitMs: number): Promise<void> {
  const { rows } = await client.query<{ gone: boolean }>(
    `SELECT pg_terminate_backend(pid, $1) AS gone FROM pg_stat_activity
      WHERE application_name = current_setting('application_name') AND usename = current_user
        AND pid <> pg_backend_pid()`,
    [Math.ceil(waitMs)],
  );
  if (rows.some(({ gone }) => !gone))
    throw new StoreFault("the database is still busy with a connection that was lost", {
      retryable: true,
      nothingWritten: true,
    });
}

function drop(client: pg.Client, why: string): void {
  client.connection.stream.destroy(new Error(`Connection terminated: ${why}`));
}

/** The part of the driver that takes bytes from the server. */
interface Reading {
  attachListeners(stream: Duplex): void;
}

/** Bytes that the driver cannot make sense of end the connection; it would throw them at the process. */
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
          stream.destroy(new Error("Connection terminated: its bytes do not make sense", { cause: error }));
        }
      });
    }
  };
}
