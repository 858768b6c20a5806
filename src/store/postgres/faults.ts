/** Faults of the database, with advice. A failed statement has no effect; if the connection is lost, the outcome is unknown. */
import { StoreFault } from "../store.ts";

export type UnusableReason = "version" | "settings" | "foreign" | "newer" | "restored" | "older";

/** The fault for a database that this node must not use. Nothing was written. */
export class DatabaseUnusable extends StoreFault {
  override name = "DatabaseUnusable";
  readonly reason: UnusableReason;
  constructor(reason: UnusableReason, message: string, cause?: unknown) {
    super(message, { retryable: false, nothingWritten: true, cause });
    this.reason = reason;
  }
}

/**
 * The fault for a stored value that the database cannot read, because a page, a large value (TOAST) or an index is corrupted.
 * See read-apart.ts.
 */
export class UnreadableValue extends StoreFault {
  override name = "UnreadableValue";
  /** Why the value cannot be read, shown as the damage of a row. */
  readonly why: string;
  constructor(error: Error, state: string) {
    const why = `the database cannot read it (${error.message}, SQLSTATE ${state})`;
    super(`a stored value is corrupted: ${why}`, { retryable: true, nothingWritten: true, cause: error });
    this.why = why;
  }
}

/** SQLSTATEs for data_corrupted, index_corrupted, and bytes that are not in the encoding of the database. */
const CORRUPTED = ["XX001", "XX002", "22021"];
/** Messages of internal errors (XX000) about a value with a wrong length, compression or TOAST pointer; never translated. */
const CORRUPTED_VALUE = /alloc request size|toast|chunk|compress|decompress/i;

/**
 * The prefix of the generation that a database gets when acknowledged writes are missing. No node has such a generation, so all
 * writes are refused.
 */
export const LOST_GENERATION = "lost-";

/** The SQLSTATE that Rondo's SQL functions raise for a store of another generation. */
const OTHER_GENERATION = "RO001";

/** Whether a failed statement was sent to the server, and whether it writes. */
export interface Attempted {
  readonly sent: boolean;
  readonly writes: boolean;
}

/** Converts an error of the server or of the connection into a fault; returns every other error unchanged. */
export function faultOf(error: unknown, attempted: Attempted): unknown {
  if (error instanceof StoreFault || !(error instanceof Error)) return error;
  const state = sqlState(error);
  if (state === null) return isOfConnection(error) ? lost(error, attempted) : error;
  const fault = (what: string, retryable: boolean): StoreFault =>
    new StoreFault(`${what} (${error.message}, SQLSTATE ${state})`, {
      retryable,
      nothingWritten: true,
      cause: error,
    });
  if (state === OTHER_GENERATION) return restoredMeanwhile(error.message, error);
  if (endsConnection(error, state)) return lost(error, attempted);
  if (CORRUPTED.includes(state) || (state === "XX000" && CORRUPTED_VALUE.test(error.message)))
    return new UnreadableValue(error, state);
  switch (state) {
    case "53100":
      return fault("the database's disk is full: nothing was written; work goes on when there is room", true);
    case "25006":
      return fault("the database is read-only; is it a standby?", true);
    case "57014":
      return fault("the database took too long", true);
    case "3D000":
      return fault("the database does not exist; create it first", false);
    case "42501":
      return fault("the user of the database lacks a permission; grant it", false);
    case "3F000":
    case "42P01":
    case "42883":
      return fault(
        "Rondo's schema does not exist, or the user may not access it: was it dropped or renamed, or were permissions revoked?",
        false,
      );
    default:
      break;
  }
  switch (state.slice(0, 2)) {
    case "53":
      return fault("the database has no free connections or memory", true);
    case "40":
    case "55":
      return fault("the database was busy: a lock timed out, or a transaction conflicted with another", true);
    case "28":
      return fault("the database rejects the user or the password; check the URL", false);
    case "58":
    case "XX":
      return fault("the database failed; see its log", true);
    default:
      return error;
  }
}

/** Makes the fault for an error while connecting. The reason is usually a wrong URL. */
export function connectFault(error: unknown): StoreFault {
  const isOfSetUp =
    error instanceof Error && "code" in error && /^ERR_(?:INVALID|TLS)/.test(String(error.code));
  const fault = isOfSetUp ? null : faultOf(error, { sent: false, writes: false });
  if (fault instanceof StoreFault) return fault;
  const message = error instanceof Error ? error.message : String(error);
  return new StoreFault(
    `cannot connect to the database (${message}); check the URL: host, port, password, sslmode`,
    { retryable: false, nothingWritten: true, cause: error },
  );
}

/**
 * Whether only garbled bytes can cause the error. Rondo's statements are tested, so a statement that the server does not
 * understand was changed in transit. A violated constraint (class 23) has other causes.
 */
export function isGarbled(error: unknown): error is Error {
  if (error instanceof StoreFault || !(error instanceof Error)) return false;
  const state = sqlState(error);
  if (state?.startsWith("23") === true) return false;
  return state === null ? !isOfConnection(error) : faultOf(error, { sent: true, writes: false }) === error;
}

/** The fault for a connection with garbled bytes, which is closed and replaced. */
export function garbled(error: Error, { sent, writes }: Attempted): StoreFault {
  // If the server reported an error, its statement had no effect. After any other error the outcome is unknown.
  const isUnknown = sent && writes && sqlState(error) === null;
  return new StoreFault(
    `a connection to the database delivered invalid bytes (${error.message}): it is closed, and another is opened`,
    { retryable: true, nothingWritten: !isUnknown, cause: error },
  );
}

/** The SQLSTATE of an error of the server; null for any other error. */
export function sqlState(error: unknown): string | null {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && "severity" in (error as Error)
    ? code
    : null;
}

/** Makes the fault for a database that was declared restored while this node was running. */
export function restoredMeanwhile(message: string, cause?: unknown): DatabaseUnusable {
  if (message.includes(`generation ${LOST_GENERATION}`))
    return new DatabaseUnusable(
      "older",
      "the database lacks writes that it had acknowledged, as another node found after a failover; its log says which. " +
        "This node stops writing. Start it again: it then says what to do",
      cause,
    );
  return new DatabaseUnusable(
    "restored",
    `the database was restored meanwhile: ${message}; the leases of this node are invalid. Start it again`,
    cause,
  );
}

/** Whether the server closes the connection after this error. */
function endsConnection(error: Error, state: string): boolean {
  const severity = "severity" in error ? error.severity : "";
  const isOfStart = state.startsWith("28") || state.startsWith("3D") || state.startsWith("53");
  return state.startsWith("08") || state.startsWith("57P") || (severity !== "ERROR" && !isOfStart);
}

function isOfConnection(error: Error): boolean {
  return (
    ("code" in error && typeof error.code === "string" && /^E[A-Z_]+$/.test(error.code)) ||
    /^(?:Connection terminated|timeout expired|Query read timeout|Client has encountered|Client was closed)/.test(
      error.message,
    )
  );
}

/** Whether the library has given up waiting, as a `query_timeout` of the URL says. The server may still run the statement. */
export function isReadTimeout(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Query read timeout");
}

function lost(error: Error, { sent, writes }: Attempted): StoreFault {
  const isUnknown = sent && writes;
  const message = error instanceof AggregateError ? String(error.errors[0]) : error.message;
  const outcome = isUnknown ? "; whether it was written is not known" : "";
  return new StoreFault(`the database cannot be reached (${message})${outcome}`, {
    retryable: true,
    nothingWritten: !isUnknown,
    cause: error,
  });
}
