/**
 * Forgets what has been over for longer than the retention: executions, through the engine that owns them, definitions
 * that were made for them, and the audit log. Looks once a minute; a round does a bounded amount, in pages with pauses between them, so that it never
 * stands in the way of work. If a round leaves something, the next one comes soon.
 *
 * Every node of a cluster forgets what is its own. What is another's, and may stay if that one is gone, is looked past.
 */

import type { Clock } from "../std/clock.ts";
import { sleep } from "../std/within.ts";
import { type Store, StoreFault } from "../store/store.ts";
import { type MadeNames, UnusedDefinitions, type UnusedDefinitionsOptions } from "./unused-definitions.ts";

export interface RetentionOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "listEnded"> & UnusedDefinitionsOptions["store"];
  /** Names of definitions that are made for executions, and go with them. Left out: there are none. */
  readonly made?: MadeNames;
  /** Forgets executions that are over and not in use. */
  readonly purge: (ids: readonly string[]) => void | Promise<void>;
  /** Whether an execution is this node's to forget. Left out: all are. */
  readonly isMine?: (id: string) => boolean;
  /** How long what is over is kept; 0 or Infinity: forever. Default: 30 days. */
  readonly retentionMs?: number;
  /** The store failed: the next round tries again. */
  readonly onFault?: (fault: Error) => void;
}

const RETENTION_MS = 30 * 86_400_000;
const ROUND_MS = 60_000;
/** The wait before a round that goes on with what the one before has left. */
const SOON_MS = 1_000;
const PAGE = 500;
const PAGES_MAX = 20;
/** Of other nodes' executions, so many are looked past. */
const OTHERS_MAX = 50_000;
const PAUSE_MS = 50;

/** The audit log's documents are named by their time. */
const AUDIT = "audit";
const AUDIT_TIME_DIGITS = 15;

export class Retention {
  readonly #options: RetentionOptions;
  readonly #retentionMs: number;
  readonly #unused: UnusedDefinitions | null;
  #round: Promise<void> | null = null;
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
    const { retentionMs = RETENTION_MS } = options;
    const { made, clock, store, isMine = () => true } = options;
    this.#unused = made === undefined ? null : new UnusedDefinitions({ clock, store, made, isMine });
    this.#retentionMs = retentionMs === 0 ? Number.POSITIVE_INFINITY : retentionMs;
    if (this.#retentionMs !== Number.POSITIVE_INFINITY) this.#after(ROUND_MS);
  }

  /** Begins nothing more; resolves when the round under way has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#round;
  }

  #after(ms: number): void {
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(ms, () => {
      this.#round = this.#runRound();
    });
  }

  async #runRound(): Promise<void> {
    let isLeft = false;
    try {
      const before = this.#options.clock.now() - this.#retentionMs;
      isLeft = await this.#purge(before);
      isLeft = (await this.#inPages(() => this.#dropAuditPage(before))) || isLeft;
      await this.#unused?.round();
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#options.onFault?.(thrown);
    } finally {
      this.#round = null;
      this.#after(isLeft ? SOON_MS : ROUND_MS);
    }
  }

  /** Does pages until one is not full; true if there may be more than one round does. */
  async #inPages(page: () => Promise<boolean>): Promise<boolean> {
    for (let n = 0; n < PAGES_MAX && !this.#isClosed; n++) {
      if (!(await page())) return false;
      await sleep(this.#options.clock, PAUSE_MS);
    }
    return true;
  }

  /** Executions; true if there may be more. The engine forgets in its own time: a page is asked for once a round. */
  async #purge(finishedBefore: number): Promise<boolean> {
    let [first, asked] = ["", 0];
    const isLeft = await this.#inPages(async () => {
      const ids = await this.#ownPage(finishedBefore);
      if (ids[0] !== undefined && ids[0] !== first) {
        first = ids[0];
        asked++;
        await this.#options.purge(ids);
      }
      return ids.length === PAGE;
    });
    return isLeft && asked > 1;
  }

  /** The oldest of this node's own, behind however many of others. */
  async #ownPage(finishedBefore: number): Promise<readonly string[]> {
    const { store, isMine = () => true } = this.#options;
    for (let max = PAGE; ; max *= 2) {
      const found = await store.listEnded({ finishedBefore, max });
      const ids = found.filter(isMine).slice(0, PAGE);
      if (ids.length === PAGE || found.length < max || max >= OTHERS_MAX) return ids;
    }
  }

  /** One page of the audit log; true if all of it was old. */
  async #dropAuditPage(before: number): Promise<boolean> {
    const { store } = this.#options;
    const first = String(Math.max(0, before)).padStart(AUDIT_TIME_DIGITS, "0");
    const page = await store.listDocuments(AUDIT, { max: PAGE });
    const old = page.filter(({ id }) => id < first);
    await Promise.all(old.map(({ id }) => store.putDocument(AUDIT, id, null)));
    return old.length === PAGE;
  }
}
