/**
 * One interface over two synchronous SQLite drivers: `node:sqlite` where the runtime has it (>= 22.13), else libsql.
 * 1. Both drivers cut a text at a NUL when they read it, so a text with a NUL is stored as bytes (`textValue`).
 * 2. libsql aborts the process if it reads a text that is not UTF-8, which a damaged file can contain. So statements read
 *    columns as bytes (`text`) or numbers (`integer`), and this file decodes the text.
 * 3. libsql closes a connection only when no prepared statement is left. A connection that must be closed before the thread
 *    ends uses `exec` only.
 */
import { isUtf8 } from "node:buffer";
import { pathToFileURL } from "node:url";

export type Value = string | number | null | Uint8Array;

export interface Statement {
  /** Runs the statement and returns the number of changed rows. */
  run(values: readonly Value[]): number;
  get<R>(values: readonly Value[]): R | undefined;
  all<R>(values: readonly Value[]): R[];
}

export interface Connection {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  /** Rolls back a failed transaction. Does nothing if SQLite has rolled it back itself. */
  rollback(): void;
  close(): void;
}

export interface Driver {
  readonly name: "node:sqlite" | "libsql";
  open(file: string, options?: { readOnly: boolean }): Connection;
}

/** An error of SQLite with its extended result code. */
export class SqliteError extends Error {
  override name = "SqliteError";
  readonly code: number;
  constructor(message: string, code: number, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

export function prepareAll<Name extends string>(
  connection: Connection,
  statements: Readonly<Record<Name, string>>,
): Record<Name, Statement> {
  const prepared = Object.entries<string>(statements).map(([name, sql]) => [name, connection.prepare(sql)]);
  return Object.fromEntries(prepared) as Record<Name, Statement>;
}

export async function loadDriver(): Promise<Driver> {
  return nodeSqlite() ?? (await libsql());
}

/** Converts a text to a value that can be bound. */
export function textValue(text: string): string | Uint8Array {
  return text.includes("\0") ? Buffer.from(text) : text;
}

/** Returns SQL that reads a column as the bytes of its text. */
export function text(column: string): string {
  return `CAST(${column} AS BLOB)`;
}

/** Returns SQL that reads a column as a safe integer. */
export function integer(column: string): string {
  return `max(-${MAX}, min(${MAX}, CAST(${column} AS INTEGER)))`;
}

const MAX = Number.MAX_SAFE_INTEGER;

/** The bytes of a text as a driver returns them; libsql returns an `ArrayBuffer` in lists. */
export type Bytes = Uint8Array | ArrayBuffer;

/** Decodes bytes; invalid UTF-8 becomes U+FFFD. NULL, which a damaged row can have in any column, becomes an empty text. */
export function textOf(bytes: Bytes | null): string {
  return bytes === null ? "" : asBuffer(bytes).toString();
}

export function isText(bytes: Bytes | null): boolean {
  return bytes !== null && isUtf8(bytes);
}

/** Converts a text to bytes that can be bound; `CAST(? AS TEXT)` compares them bytewise. */
export function bytesOf(value: string): Uint8Array {
  return Buffer.from(value);
}

function asBuffer(bytes: Bytes): Buffer {
  if (bytes instanceof ArrayBuffer) return Buffer.from(bytes);
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function nodeSqlite(): Driver | null {
  // Loads `node:sqlite` without the warning that the module is experimental.
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => {};
  const sqlite = process.getBuiltinModule("node:sqlite") as typeof import("node:sqlite") | undefined;
  process.emitWarning = emitWarning;
  if (sqlite === undefined) return null;
  const codeOf = (error: unknown): number | undefined => (error as { errcode?: number }).errcode;
  return {
    name: "node:sqlite",
    open(file, options) {
      const database = guard(codeOf, () => new sqlite.DatabaseSync(file, options ?? {}));
      return connection(database, codeOf, (sql) => {
        const statement = database.prepare(sql);
        return {
          run: (values) => Number(statement.run(...values).changes),
          get: (values) => statement.get(...values),
          all: (values) => statement.all(...values),
        };
      });
    },
  };
}

async function libsql(): Promise<Driver> {
  const { default: Database } = await import("libsql");
  const codeOf = (error: unknown): number | undefined => (error as { rawCode?: number }).rawCode;
  return {
    name: "libsql",
    open(file, options) {
      const name = options?.readOnly ? `${pathToFileURL(file).href}?mode=ro` : file;
      const database = guard(codeOf, () => new Database(name));
      return connection(database, codeOf, (sql) => {
        const statement = database.prepare(sql);
        return {
          run: (values) => statement.run(values).changes,
          get: (values) => statement.get(values),
          all: (values) => statement.all(values),
        };
      });
    },
  };
}

type CodeOf = (error: unknown) => number | undefined;

interface RawStatement {
  run(values: readonly Value[]): number;
  get(values: readonly Value[]): unknown;
  all(values: readonly Value[]): unknown[];
}

function connection(
  database: { exec(sql: string): unknown; close(): unknown },
  codeOf: CodeOf,
  prepare: (sql: string) => RawStatement,
): Connection {
  return {
    exec: (sql) => void guard(codeOf, () => database.exec(sql)),
    prepare(sql) {
      const statement = guard(codeOf, () => prepare(sql));
      return {
        run: (values) => guard(codeOf, () => statement.run(values)),
        get: <R>(values: readonly Value[]) => guard(codeOf, () => statement.get(values)) as R | undefined,
        all: <R>(values: readonly Value[]) => guard(codeOf, () => statement.all(values)) as R[],
      };
    },
    rollback() {
      try {
        database.exec("ROLLBACK");
      } catch (error) {
        if (!String(error).includes("no transaction is active")) throw asSqliteError(error, codeOf);
      }
    },
    close: () => void guard(codeOf, () => database.close()),
  };
}

function guard<T>(codeOf: CodeOf, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw asSqliteError(error, codeOf);
  }
}

function asSqliteError(error: unknown, codeOf: CodeOf): unknown {
  const code = codeOf(error);
  return code === undefined ? error : new SqliteError((error as Error).message, code, error);
}
