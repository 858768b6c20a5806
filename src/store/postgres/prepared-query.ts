/**
 * A query of a prepared statement over a connection of the pg library. It does what the library's own query does for Rondo's
 * statements, in less time:
 * 1. The values, the call and the end of the request are encoded into one buffer, which is written at once.
 * 2. The server describes the columns only if that is asked for, because they are the same at every call.
 * 3. Rows are arrays.
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

interface Options {
  /** The name of the statement on the server. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly Value[];
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

type Callback = (error: Error | null, answer: Answer | null) => void;

export class PreparedQuery implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  readonly values: readonly Value[];
  /** Called once with the answer, or with the error. The library replaces the function if the URL has a `query_timeout`. */
  callback: Callback = () => {};
  readonly #rows: unknown[][] = [];
  #columns: Columns | null;
  #described: Columns | null = null;
  #tag: string | null = null;
  /** Why the answer does not fit the request. */
  #misfit: Error | null = null;

  constructor({ name, text, values, columns }: Options) {
    this.name = name;
    this.text = text;
    this.values = values;
    this.#columns = columns;
  }

  /** Sends the query and resolves with its answer. */
  static run(client: pg.Client, options: Options): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const query = new PreparedQuery(options);
      query.callback = (error, answer) => {
        if (answer === null) reject(error);
        else resolve(answer);
      };
      client.query(query);
    });
  }

  submit(connection: pg.Connection): null {
    const { stream, parsedStatements } = connection as unknown as Connection;
    const { name, text } = this;
    const isPrepared = Object.hasOwn(parsedStatements, name);
    if (!isPrepared) this.#columns = null;
    const request = encodeRequest(name, this.values, this.#columns === null);
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
    const { parsers } = this.#columns ?? NO_COLUMNS;
    const { length } = fields;
    if (length !== parsers.length || length === 0) return this.#unexpected(`a row of ${length} values`);
    const row = new Array<unknown>(length);
    for (let i = 0; i < length; i++) {
      const text = fields[i] as string | null;
      row[i] = text === null ? null : (parsers[i] as Parser)(text);
    }
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    if (this.#tag !== null) return this.#unexpected("a second end");
    this.#tag = text;
  }

  handleReadyForQuery(): void {
    const misfit = this.#misfit ?? this.#miscount();
    if (misfit === null) this.callback(null, { rows: this.#rows, described: this.#described });
    else this.callback(misfit, null);
  }

  handleError(error: Error): void {
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
    const count = this.#tag === null ? null : /^[A-Z]+(?: \d+)*$/.exec(this.#tag);
    if (count === null) return new Error(`the server ended a statement with ${JSON.stringify(this.#tag)}`);
    const { parsers } = this.#columns ?? NO_COLUMNS;
    const announced = Number(count[0].slice(count[0].lastIndexOf(" ") + 1));
    if (parsers.length === 0 || announced === this.#rows.length) return null;
    return new Error(`${this.#rows.length} rows were returned, but the server announced ${announced}`);
  }
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
/** The bytes of a request besides the name and the values. */
const FRAME_BYTES = 36;

/**
 * Encodes a request: binds the values to the statement's unnamed portal, describes the portal if that is wanted, executes it
 * and ends the request. All values and results are texts.
 */
export function encodeRequest(name: string, values: readonly Value[], describes: boolean): Buffer {
  const texts = values.map((value) => (typeof value === "string" || value === null ? value : String(value)));
  let size = FRAME_BYTES + name.length + texts.length * 4;
  for (const text of texts) if (text !== null) size += bytesOf(text);
  const bytes = Buffer.allocUnsafe(size);
  bytes[0] = BIND;
  // The empty name of the portal.
  bytes[5] = 0;
  let at = 6 + bytes.write(name, 6, "latin1");
  bytes[at] = 0;
  // No formats are given, so all values are texts.
  at = bytes.writeUInt16BE(0, at + 1);
  at = bytes.writeUInt16BE(texts.length, at);
  for (const text of texts) {
    const length = text === null ? NULL_LENGTH : bytes.write(text, at + 4, "utf8");
    at = bytes.writeInt32BE(length, at) + Math.max(0, length);
  }
  at = bytes.writeUInt16BE(0, at);
  bytes.writeUInt32BE(at - 1, 1);
  if (describes) {
    at = begin(bytes, at, DESCRIBE, 6);
    bytes[at] = PORTAL;
    bytes[at + 1] = 0;
    at += 2;
  }
  at = begin(bytes, at, EXECUTE, 9);
  bytes[at] = 0;
  // All rows are returned.
  at = bytes.writeUInt32BE(0, at + 1);
  at = begin(bytes, at, SYNC, 4);
  return bytes.subarray(0, at);
}

/** Writes the type and the length of a message. */
function begin(bytes: Buffer, at: number, type: number, length: number): number {
  bytes[at] = type;
  return bytes.writeUInt32BE(length, at + 1);
}

function bytesOf(text: string): number {
  return text.length <= SHORT_CHARS ? text.length * CODE_UNIT_BYTES : Buffer.byteLength(text);
}
