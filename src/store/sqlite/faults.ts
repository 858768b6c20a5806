/**
 * The faults of a store's files, with advice to the user. An error goes from one thread to another as a plain object, because
 * cloning loses its class.
 */
import { type Damage, DamagedData } from "../../kernel/journal/damage.ts";
import { Bug } from "../../std/assert.ts";
import { StoreFault } from "../store.ts";
import { SqliteError } from "./driver.ts";

export interface Owner {
  readonly pid: number;
  readonly startedAt: number;
  /** The address at which the owner's API listens, once it does. */
  readonly listening?: string;
}

export class DirectoryOwned extends StoreFault {
  override name = "DirectoryOwned";
  readonly directory: string;
  readonly owner: Owner | null;
  constructor(directory: string, owner: Owner | null) {
    const by =
      owner === null
        ? "another process"
        : `process ${owner.pid} (since ${new Date(owner.startedAt).toISOString()})`;
    const where = owner?.listening === undefined ? "" : `, which listens at ${owner.listening}`;
    const advice = owner?.listening === undefined ? "stop it first" : "use that process, or stop it first";
    super(`the directory ${directory} is in use by ${by}${where}; ${advice}, or choose another directory`, {
      retryable: true,
      nothingWritten: true,
    });
    this.directory = directory;
    this.owner = owner;
  }
}

export type UnreadableReason = "damaged" | "foreign" | "newer";

const ADVICE: Readonly<Record<UnreadableReason, string>> = {
  damaged:
    "move the directory away, keep it for inspection, and restore a backup into its place: " +
    "rondo restore FILE (docs/operate.md, Damage, says what can be done without one)",
  foreign: "choose another directory, or move that file away",
  newer: "use the newer Rondo, or choose another directory",
};

/** The fault for a file that this version of Rondo must not open. */
export class StoreUnreadable extends StoreFault {
  override name = "StoreUnreadable";
  readonly file: string;
  readonly reason: UnreadableReason;
  readonly what: string;
  constructor(
    file: string,
    options: { reason: UnreadableReason; what: string; advice?: string; cause?: unknown },
  ) {
    const advice = options.advice ?? ADVICE[options.reason];
    super(`${file} ${options.what}; nothing was changed. To go on: ${advice}`, {
      retryable: false,
      nothingWritten: true,
      cause: options.cause,
    });
    this.file = file;
    this.reason = options.reason;
    this.what = options.what;
  }
}

/** The fault for a disk that failed while writing. The process must end, because only a restart shows what is on the disk. */
export class DiskFailed extends StoreFault {
  override name = "DiskFailed";
  constructor(message: string, cause?: unknown) {
    super(message, { retryable: false, nothingWritten: false, cause });
  }
}

/** Primary result codes of SQLite that are not bugs. */
const CODE = {
  perm: 3,
  busy: 5,
  locked: 6,
  noMemory: 7,
  readOnly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  auth: 23,
  notADatabase: 26,
} as const;

/** Converts an error of SQLite or of the file system into a fault; returns every other error unchanged. */
export function faultOf(error: unknown, context: { file: string; writing: boolean }): unknown {
  const { file, writing } = context;
  if (!(error instanceof SqliteError)) return fileFault(error, file);
  const fault = (what: string, retryable: boolean): StoreFault =>
    new StoreFault(`${what} (${file}: ${error.message})`, { retryable, nothingWritten: true, cause: error });
  switch (error.code & 0xff) {
    case CODE.full:
      return fault("the disk is full: nothing was written; work goes on when there is room", true);
    case CODE.corrupt:
    case CODE.notADatabase:
      return new StoreUnreadable(file, {
        reason: "damaged",
        what: `is damaged (${error.message})`,
        cause: error,
      });
    case CODE.io:
      if (!writing) return fault("the disk failed while reading", true);
      return new DiskFailed(
        `the disk failed while writing (${file}: ${error.message}, code ${error.code}); ` +
          "the process ends, because only a restart shows what is on the disk",
        error,
      );
    case CODE.busy:
    case CODE.locked:
      return fault("another program has the database open; close it", true);
    case CODE.noMemory:
      return fault("out of memory", true);
    case CODE.perm:
    case CODE.readOnly:
    case CODE.auth:
    case CODE.cannotOpen:
      return fault(
        "the database cannot be opened for writing; check the permissions of its directory",
        false,
      );
    default:
      return error;
  }
}

function fileFault(error: unknown, file: string): unknown {
  if (!(error instanceof Error) || !("syscall" in error)) return error;
  const full = "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");
  const what = full ? "the disk is full" : "the directory of the store cannot be used";
  const path = "path" in error && typeof error.path === "string" ? error.path : file;
  const where = error.message.includes(path) ? error.message : `${path}: ${error.message}`;
  return new StoreFault(`${what} (${where})`, {
    retryable: full,
    nothingWritten: true,
    cause: error,
  });
}

export type FaultReport =
  | { readonly kind: "owned"; readonly directory: string; readonly owner: Owner | null }
  | {
      readonly kind: "unreadable";
      readonly file: string;
      readonly reason: UnreadableReason;
      readonly what: string;
    }
  | { readonly kind: "damaged"; readonly damage: Damage }
  | { readonly kind: "disk"; readonly message: string }
  | {
      readonly kind: "fault";
      readonly message: string;
      readonly retryable: boolean;
      readonly nothingWritten: boolean;
    }
  | { readonly kind: "bug"; readonly message: string };

export function toReport(error: unknown): FaultReport {
  if (error instanceof DirectoryOwned)
    return { kind: "owned", directory: error.directory, owner: error.owner };
  if (error instanceof StoreUnreadable)
    return { kind: "unreadable", file: error.file, reason: error.reason, what: error.what };
  if (error instanceof DamagedData) return { kind: "damaged", damage: error.damage };
  if (error instanceof DiskFailed) return { kind: "disk", message: error.message };
  if (error instanceof StoreFault) {
    const { message, retryable, nothingWritten } = error;
    return { kind: "fault", message, retryable, nothingWritten };
  }
  return { kind: "bug", message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

export function fromReport(report: FaultReport): Error {
  switch (report.kind) {
    case "owned":
      return new DirectoryOwned(report.directory, report.owner);
    case "unreadable":
      return new StoreUnreadable(report.file, report);
    case "damaged":
      return new DamagedData(report.damage);
    case "disk":
      return new DiskFailed(report.message);
    case "fault":
      return new StoreFault(report.message, report);
    case "bug":
      return new Bug(report.message);
  }
}
