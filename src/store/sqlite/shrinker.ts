/**
 * Gives room that a purge has freed back to the file system, some pages at a time, so that no commit waits long. Files made by
 * this version keep what that needs (`auto_vacuum = INCREMENTAL`, which must be set before the first table); older ones do after
 * `rondo backup` and `rondo restore`. Some free pages stay, since new executions use them again.
 */
import type { Connection, Statement } from "./driver.ts";
import { Pace } from "./pace.ts";

/** Free pages that stay: so many, or this share of the file. */
const KEPT_PAGES = 1_024;
const KEPT_SHARE = 0.1;
/** How long one call should take, and how many pages it gives back. */
const PACE = { goalMs: 10, first: 64, min: 8, max: 2_000 };
const INCREMENTAL = 2;

export class Shrinker {
  readonly #connection: Connection;
  readonly #free: Statement;
  readonly #all: Statement;
  readonly #isPossible: boolean;
  readonly #pace = new Pace(PACE);

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#free = connection.prepare("PRAGMA freelist_count");
    this.#all = connection.prepare("PRAGMA page_count");
    const mode = connection.prepare("PRAGMA auto_vacuum").get<{ auto_vacuum: number }>([]);
    this.#isPossible = mode?.auto_vacuum === INCREMENTAL;
  }

  /** Gives some pages back; says how many were touched, and whether there are more. */
  run(): { readonly pages: number; readonly more: boolean } {
    const surplus = this.#isPossible ? this.#surplus() : 0;
    if (surplus <= 0) return { pages: 0, more: false };
    const pages = Math.min(this.#pace.size, surplus);
    // It is synced like a commit: else the next commit would wait for its pages, and nobody would know how long.
    this.#pace.run(() => this.#connection.exec(`PRAGMA incremental_vacuum(${pages})`));
    return { pages, more: surplus > pages };
  }

  #surplus(): number {
    const { freelist_count: free = 0 } = this.#free.get<{ freelist_count: number }>([]) ?? {};
    const { page_count: all = 0 } = this.#all.get<{ page_count: number }>([]) ?? {};
    return free - Math.max(KEPT_PAGES, Math.floor((all - free) * KEPT_SHARE));
  }
}
