/** The error of `openRondo` for a directory that another process, or this one, has open. */
import { RondoError, reject } from "../std/rejection.ts";

/** The process that has a directory open, as far as it is known. */
export interface DirectoryOwner {
  /** The process id. */
  readonly pid: number;
  /** When the process opened the directory, in milliseconds since 1970. */
  readonly startedAt: number;
  /** The address of the process's API; left out if it has none. */
  readonly listening?: string;
}

/**
 * Thrown by `openRondo`: another process, or this one, has the directory of the store open. Its `code` is
 * `conflict`.
 */
export class DirectoryInUse extends RondoError {
  override name = "DirectoryInUse";
  /** The directory. */
  readonly directory: string;
  /** The process that has it; null if it has not written down who it is. */
  readonly owner: DirectoryOwner | null;

  /** Made by `openRondo`. */
  constructor(fault: Error & { readonly directory: string; readonly owner: DirectoryOwner | null }) {
    super(reject("conflict", fault.message), { cause: fault });
    this.directory = fault.directory;
    this.owner = fault.owner;
  }
}
