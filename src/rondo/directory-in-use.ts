/** The error of `openRondo` for a directory that another process, or this one, has open. */
import { RondoError, reject } from "../std/rejection.ts";

/** What is known of the process that has a directory. */
export interface DirectoryOwner {
  readonly pid: number;
  /** When it opened the directory, in milliseconds since 1970. */
  readonly startedAt: number;
  /** Where its API listens; left out: nowhere. */
  readonly listening?: string;
}

/** A store's directory is in use: only one process can have it open. Its `code` is `conflict`. */
export class DirectoryInUse extends RondoError {
  override name = "DirectoryInUse";
  readonly directory: string;
  /** Null: the owner has not said who it is. */
  readonly owner: DirectoryOwner | null;

  constructor(fault: Error & { readonly directory: string; readonly owner: DirectoryOwner | null }) {
    super(reject("conflict", fault.message), { cause: fault });
    this.directory = fault.directory;
    this.owner = fault.owner;
  }
}
