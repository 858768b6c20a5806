/** The error that `openRondo` throws if another process, or this one, has the directory open. */
import { RondoError, reject } from "../std/rejection.ts";

/** What is known about the process that has a directory open. */
export interface DirectoryOwner {
  /** The process id. */
  readonly pid: number;
  /** When the process opened the directory, in milliseconds since 1970. */
  readonly startedAt: number;
  /** The address of the process's API; left out if it has none. */
  readonly listening?: string;
}

/** `openRondo` throws this error if another process, or this one, has the directory of the store open. Its `code` is `conflict`. */
export class DirectoryInUse extends RondoError {
  override name = "DirectoryInUse";
  /** The directory. */
  readonly directory: string;
  /** The process that has the directory open; null if it left no information about itself. */
  readonly owner: DirectoryOwner | null;

  /** Made by `openRondo`. */
  constructor(fault: Error & { readonly directory: string; readonly owner: DirectoryOwner | null }) {
    super(reject("conflict", fault.message), { cause: fault });
    this.directory = fault.directory;
    this.owner = fault.owner;
  }
}
