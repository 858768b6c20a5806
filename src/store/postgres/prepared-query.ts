/**
 * A query of a prepared statement over a connection of the pg library. It does what the library's own query does for Rondo's
 * statements, in less time:
 * 1. The values, the call and the end of the request are encoded into one buffer, which is written at once.
 * 2. The server describes the columns only if that is asked for, because they are the same at every call.
 * 3. Rows are arrays.
 * 4. Another prepared statement may run first, in the same request and thus in the same transaction. The second statement gets its
 *    snapshot after the first one has ended.
 * 5. The request may be sent before the answer to the query before it.
 *
 * The library calls the methods with the messages of the server. An answer that does not fit the request fails the query: a
 * message that no statement of Rondo causes, a row with another number of values, or another number of rows than the server
 * announces at the end.
 */
import type pg from "pg";

export type Value = string | number | boolean | null;

/** Returns the value of a text that the server sent. */
type Parser = (text: string) => unknown;

/** The columns of a result: their types, as text for comparison, and how their values are parsed. */
export interface Columns {
  readonly types: string;
  readonly parsers: readonly Parser[];
}

export interface Answer {
  readonly rows: readonly (readonly unknown[])[];
  /** The columns as the server has described them now; null if it was not asked. */
  readonly described: Columns | null;
}

/** A call of a prepared statement. */
interface Call {
  /** The name of the statement on the server. */
  readonly name: string;
  readonly values: readonly Value[];
}

interface Options extends Call {
  readonly text: string;
  /** The statement that runs first; the connection must have prepared it. Its rows are dropped. */
  readonly first?: Call | undefined;
  /** The known columns; null if the server must describe them. It also does that if the connection has not prepared the statement. */
  readonly columns: Columns | null;
}

/** The parts of a connection of the library that a query uses. */
interface Connection {
  readonly stream: { write(bytes: Buffer): boolean; cork(): void; uncork(): void };
  /** The texts of the statements that were prepared over the connection, by name. */
  readonly parsedStatements: Readonly<Record<string, string>>;
  parse(statement: { readonly name: string; readonly text: string }): void;
}

/** The queries of one connection, as far as this module has sent them. */
class Line {
  /** The queries without an answer, in the order in which the library sends them. */
  #open: PreparedQuery[] = [];
  /** Whether an answer did not fit its request. Then later answers may belong to other queries, and none is believed. */
  isBroken = false;

  add(query: PreparedQuery): void {
    this.#open = [...this.#open, query];
  }

  remove(query: PreparedQuery): void {
    this.#open = this.#open.filter((one) => one !== query);
  }

  /** Whether everything before a query was sent, so that its request may be written now. */
  isNext(query: PreparedQuery | null): boolean {
    return !this.isBroken && this.#open.every((one) => one === query || one.isSent);
  }
}

const lines = new WeakMap<pg.Client, Line>();

function lineOf(client: pg.Client): Line {
  let line = lines.get(client);
  if (line === undefined) lines.set(client, (line = new Line()));
  return line;
}

type Callback = (error: Error | null, answer: Answer | null) => void;

export class PreparedQuery implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  readonly values: readonly Value[];
  readonly #first: Call | undefined;
  /**
   * Called once, with the answer or the error. If the URL has a `query_timeout`, the library puts its own function here, which also fails
   * the query after that time.
   */
  callback: Callback = () => {};
  readonly #rows: unknown[][] = [];
  #columns: Columns | null;
  #described: Columns | null = null;
  #tag: string | null = null;
  /** How many rows the first statement has returned so far; null while no first statement is running. */
  #firstRows: number | null;
  /** Why the answer does not fit the request. */
  #misfit: Error | null = null;
  /** Whether the request was written to the connection. */
  isSent = false;
  #line: Line | null = null;

  constructor({ name, text, values, first, columns }: Options) {
    this.name = name;
    this.text = text;
    this.values = values;
    this.#first = first;
    this.#firstRows = first === undefined ? null : 0;
    this.#columns = columns;
  }

  static isPrepared(client: pg.Client, name: string): boolean {
    return Object.hasOwn((client.connection as unknown as Connection).parsedStatements, name);
  }

  /**
   * Sends the query and resolves with its answer. The library sends a query only after the answer to the one before. This function sends a
   * prepared statement at once. `onEnd` is called at once when the answer is there, before anything of the next answer is read.
   */
  static run(client: pg.Client, options: Options, onEnd: () => void = () => {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const query = new PreparedQuery(options);
      const line = lineOf(client);
      query.#line = line;
      line.add(query);
      query.callback = (error, answer) => {
        line.remove(query);
        onEnd();
        // At a `query_timeout` of the URL, the library calls it with the error alone.
        if (error !== null) reject(error);
        else resolve(answer as Answer);
      };
      client.query(query);
      // A query that is not prepared is sent by the library. No other one may overtake it, or their answers would be swapped.
      if (!query.isSent && line.isNext(query) && PreparedQuery.isPrepared(client, query.name))
        query.submit(client.connection);
    });
  }

  /** Whether a prepared query may be sent now, although others have no answer yet. */
  static mayFollow(client: pg.Client): boolean {
    return lineOf(client).isNext(null);
  }

  /** Whether an answer over this connection did not fit its request. The connection must not be used any more. */
  static isBroken(client: pg.Client): boolean {
    return lines.get(client)?.isBroken === true;
  }

  /** Sends the request. The library calls it when the answer to this query is next; then `run` may have sent it already. */
  submit(connection: pg.Connection): null {
    if (this.isSent) return null;
    this.isSent = true;
    const { stream, parsedStatements } = connection as unknown as Connection;
    const { name, text } = this;
    const isPrepared = Object.hasOwn(parsedStatements, name);
    if (!isPrepared) this.#columns = null;
    const calls = this.#first === undefined ? [this] : [this.#first, this];
    const request = encodeRequest(calls, this.#columns === null);
    if (isPrepared) stream.write(request);
    else {
      stream.cork();
      (connection as unknown as Connection).parse({ name, text });
      stream.write(request);
      stream.uncork();
    }
    if (this.#columns === null) this.#described = NO_COLUMNS;
    return null;
  }

  handleRowDescription({ fields }: { readonly fields: readonly { readonly dataTypeID: number }[] }): void {
    if (this.#columns !== null) return this.#unexpected("a description of columns");
    this.#described = this.#columns = {
      types: fields.map(({ dataTypeID }) => dataTypeID).join(),
      parsers: fields.map(({ dataTypeID }) => parserOf(dataTypeID)),
    };
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    if (this.#firstRows !== null) {
      this.#firstRows++;
      return;
    }
    const { parsers } = this.#columns ?? NO_COLUMNS;
    const { length } = fields;
    if (length !== parsers.length || length === 0) return this.#unexpected(`a row of ${length} values`);
    const row = new Array<unknown>(length);
    for (let i = 0; i < length; i++) {
      const text = fields[i] as string | null;
      row[i] = text === null ? null : (parsers[i] as Parser)(text);
      if (Number.isNaN(row[i])) return this.#unexpected(`the number ${JSON.stringify(text)}`);
    }
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    if (this.#firstRows !== null) {
      if (countIn(text) !== this.#firstRows) this.#unexpected(`the end ${JSON.stringify(text)}`);
      this.#firstRows = null;
      return;
    }
    if (this.#tag !== null) return this.#unexpected("a second end");
    this.#tag = text;
  }

  handleReadyForQuery(): void {
    const misfit = this.#line?.isBroken === true ? outOfStep() : (this.#misfit ?? this.#miscount());
    if (misfit !== null) return this.#fail(misfit);
    this.callback(null, { rows: this.#rows, described: this.#described });
  }

  handleError(error: Error): void {
    if (this.#line?.isBroken === true) this.#fail(outOfStep());
    else if (isOutOfStep(error)) this.#fail(error);
    else this.callback(error, null);
  }

  /** Fails the query, and those after it, because the answers no longer fit the requests. */
  #fail(error: Error): void {
    if (this.#line !== null) this.#line.isBroken = true;
    this.callback(error, null);
  }

  handlePortalSuspended(): void {
    this.#unexpected("a suspended result");
  }

  handleEmptyQuery(): void {
    this.#unexpected("the answer to an empty query");
  }

  handleCopyInResponse(): void {
    this.#unexpected("a request for data");
  }

  handleCopyData(): void {
    this.#unexpected("copied data");
  }

  #unexpected(what: string): void {
    this.#misfit ??= new Error(`the server sent ${what} that was not expected`);
  }

  /** Compares the rows with the number that the server announces at the end. A statement without columns returns no rows. */
  #miscount(): Error | null {
    const announced = this.#tag === null ? null : countIn(this.#tag);
    if (announced === null)
      return new Error(`the server ended a statement with ${JSON.stringify(this.#tag)}`);
    const { parsers } = this.#columns ?? NO_COLUMNS;
    if (parsers.length === 0 || announced === this.#rows.length) return null;
    return new Error(`${this.#rows.length} rows were returned, but the server announced ${announced}`);
  }
}

/** Whether the server has found a damaged request, or the error is not one of the server. */
function isOutOfStep(error: Error & { readonly code?: unknown; readonly severity?: unknown }): boolean {
  return error.severity === undefined || String(error.code).startsWith(CONNECTION_EXCEPTION);
}

/** The class of errors of the connection. The server then skips bytes up to the end of a request, which may be that of the next one. */
const CONNECTION_EXCEPTION = "08";

function outOfStep(): Error {
  return new Error("Connection terminated: an earlier answer did not fit its request");
}

/** Returns the row count in the message at the end of a statement: NaN for a command without rows, null for a text that is no such message. */
function countIn(tag: string): number | null {
  return /^[A-Z]+(?: \d+)*$/.test(tag) ? Number(tag.slice(tag.lastIndexOf(" ") + 1)) : null;
}

const NO_COLUMNS: Columns = { types: "", parsers: [] };

const BOOL = 16;
const INT8 = 20;
const INT2 = 21;
const INT4 = 23;
const asText: Parser = (text) => text;
const asFlag: Parser = (text) => text === "t";

/** Returns the parser of a type. 64-bit integers become JavaScript numbers, because all numbers of Rondo are safe integers. */
export function parserOf(type: number): Parser {
  if (type === INT8 || type === INT4 || type === INT2) return Number;
  return type === BOOL ? asFlag : asText;
}

/** Message types of PostgreSQL's protocol, as bytes. */
const BIND = 0x42;
const DESCRIBE = 0x44;
const EXECUTE = 0x45;
const SYNC = 0x53;
const PORTAL = 0x50;
/** The length of a null value. */
const NULL_LENGTH = -1;
/** For texts up to this length, counting their bytes costs more than reserving the most that they can have. */
const SHORT_CHARS = 100;
/** The most bytes of a UTF-16 code unit in UTF-8. */
const CODE_UNIT_BYTES = 3;
/** The bytes of a call besides the name and the values, and then of the end of a request. */
const CALL_BYTES = 31;
const SYNC_BYTES = 5;

/**
 * Encodes a request: binds the values of each call to a portal, then executes the portals in their order, then ends the request, and thereby
 * the transaction. If `describes` is set, the server describes the columns of the last call. All values and results are texts.
 *
 * All values come before the first execution. Otherwise a node that dies while it sends a large value would leave the server waiting for the
 * rest with the lock of the first statement, for hours, and no other node could take the partition. The snapshot of a write is
 * taken when it is executed, not when it is bound.
 */
export function encodeRequest(calls: readonly Call[], describes: boolean): Buffer {
  let size = SYNC_BYTES;
  const texts = calls.map(({ values }) =>
    values.map((value) => (typeof value === "string" || value === null ? value : String(value))),
  );
  for (const [i, { name }] of calls.entries()) {
    size += CALL_BYTES + name.length;
    for (const text of texts[i] as (string | null)[]) size += 4 + (text === null ? 0 : bytesOf(text));
  }
  const bytes = Buffer.allocUnsafe(size);
  const portals = calls.map((_, i) => (i === calls.length - 1 ? "" : String(i)));
  let at = 0;
  for (const [i, { name }] of calls.entries())
    at = bind(bytes, at, { portal: portals[i] as string, name, texts: texts[i] as (string | null)[] });
  if (describes) {
    at = begin(bytes, at, DESCRIBE, 6);
    bytes[at] = PORTAL;
    bytes[at + 1] = 0;
    at += 2;
  }
  for (const portal of portals) {
    at = begin(bytes, at, EXECUTE, 9 + portal.length);
    at += bytes.write(portal, at, "latin1");
    bytes[at] = 0;
    // All rows are returned.
    at = bytes.writeUInt32BE(0, at + 1);
  }
  at = begin(bytes, at, SYNC, 4);
  return bytes.subarray(0, at);
}

interface Binding {
  readonly portal: string;
  readonly name: string;
  readonly texts: readonly (string | null)[];
}

/** Writes the message that binds values to a statement. Returns the offset after the message, as `begin` does. */
function bind(bytes: Buffer, from: number, { portal, name, texts }: Binding): number {
  bytes[from] = BIND;
  let at = from + 5 + bytes.write(portal, from + 5, "latin1");
  bytes[at++] = 0;
  at += bytes.write(name, at, "latin1");
  bytes[at] = 0;
  // No formats are given, so all values are texts.
  at = bytes.writeUInt16BE(0, at + 1);
  at = bytes.writeUInt16BE(texts.length, at);
  for (const text of texts) {
    const length = text === null ? NULL_LENGTH : bytes.write(text, at + 4, "utf8");
    at = bytes.writeInt32BE(length, at) + Math.max(0, length);
  }
  at = bytes.writeUInt16BE(0, at);
  bytes.writeUInt32BE(at - from - 1, from + 1);
  return at;
}

/** Writes the type and the length of a message. */
function begin(bytes: Buffer, at: number, type: number, length: number): number {
  bytes[at] = type;
  return bytes.writeUInt32BE(length, at + 1);
}

function bytesOf(text: string): number {
  return text.length <= SHORT_CHARS ? text.length * CODE_UNIT_BYTES : Buffer.byteLength(text);
}
