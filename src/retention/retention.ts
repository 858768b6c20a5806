/**
 * Deletes data that is older than the retention period: executions (through the engine that owns them), their generated definitions,
 * events, the audit log, alerts and the figures of workflows. A round runs once a minute. It deletes a bounded amount, in pages with
 * pauses, so that it does not disturb other work. If there is more to delete, the next round follows soon. Every node of a cluster
 * deletes its own data and skips the data of other nodes.
 */
import type { Clock } from "../std/clock.ts";
import { sleep } from "../std/within.ts";
import { type Store, StoreFault } from "../store/store.ts";
import { EVENTS_KEPT_MS, forgetEvents, UNMATCHED_KEPT_MS } from "../triggers/event-log.ts";
import {
  type GeneratedNames,
  UnusedDefinitions,
  type UnusedDefinitionsOptions,
} from "./unused-definitions.ts";

export interface RetentionOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "listEnded" | "deleteDocuments"> & UnusedDefinitionsOptions["store"];
  /**
   * The names of definitions that were generated for executions. They are deleted after these executions. Left out if there are no such
   * definitions.
   */
  readonly generated?: GeneratedNames;
  /** Deletes executions that have ended and are not in use. */
  readonly purge: (ids: readonly string[]) => void | Promise<void>;
  /** Whether this node owns an execution. If it is left out, this node owns all. */
  readonly isMine?: (id: string) => boolean;
  /** How long ended executions are kept; 0 or Infinity means for ever. The default is 30 days. */
  readonly retentionMs?: number;
  /** How long the ids of events are kept, to recognise repeated events. The default is 7 days. */
  readonly eventsKeptMs?: number;
  /** Called when the store failed. The next round tries again. */
  readonly onFault?: (fault: Error) => void;
}

const RETENTION_MS = 30 * 86_400_000;
const ROUND_MS = 60_000;
/** The pause before a round that continues the last one. */
const SOON_MS = 1_000;
const PAGE = 500;
const PAGES_MAX = 20;
/** The most ended executions that are read in search of one page of executions that belong to this node. */
const OTHERS_MAX = 50_000;
const PAUSE_MS = 50;

/** Kinds of documents whose ids begin with the time of the document. */
const BY_TIME = ["alert", "audit", "figures", "undelivered"];
const TIME_DIGITS = 15;

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
    const { generated, clock, store, isMine = () => true } = options;
    this.#unused =
      generated === undefined ? null : new UnusedDefinitions({ clock, store, generated, isMine });
    this.#retentionMs = retentionMs === 0 ? Number.POSITIVE_INFINITY : retentionMs;
    this.#after(ROUND_MS);
  }

  /** Stops the rounds. Resolves when the running round has ended. */
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
      if (this.#retentionMs !== Number.POSITIVE_INFINITY) isLeft = await this.#forgetEnded();
      isLeft = (await this.#inPages(() => this.#forget(false))) || isLeft;
      isLeft = (await this.#inPages(() => this.#forget(true))) || isLeft;
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#options.onFault?.(thrown);
    } finally {
      this.#round = null;
      this.#after(isLeft ? SOON_MS : ROUND_MS);
    }
  }

  /** Deletes data that is older than the retention period. Returns true if there may be more. */
  async #forgetEnded(): Promise<boolean> {
    const before = this.#options.clock.now() - this.#retentionMs;
    let isLeft = await this.#purge(before);
    for (const kind of BY_TIME) isLeft = (await this.#inPages(() => this.#dropPage(kind, before))) || isLeft;
    await this.#unused?.round();
    return isLeft;
  }

  /** Processes pages until one is not full, up to a bound. Returns true if there may be more pages. */
  async #inPages(page: () => Promise<boolean>): Promise<boolean> {
    for (let n = 0; n < PAGES_MAX && !this.#isClosed; n++) {
      if (!(await page())) return false;
      await sleep(this.#options.clock, PAUSE_MS);
    }
    return true;
  }

  /** Deletes ended executions. Returns true if there may be more. The same page is not requested twice in a round. */
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

  /** Deletes a page of old events; with `unmatched`, of events that no trigger matched. Returns true if there may be more. */
  #forget(unmatched: boolean): Promise<boolean> {
    const { store, clock, purge, isMine = () => true, eventsKeptMs = EVENTS_KEPT_MS } = this.#options;
    const before = clock.now() - (unmatched ? Math.min(UNMATCHED_KEPT_MS, eventsKeptMs) : eventsKeptMs);
    return forgetEvents(store, { unmatched, before }, { purge, isMine });
  }

  /** Reads the oldest ended executions of this node. It skips a bounded number of executions of other nodes. */
  async #ownPage(finishedBefore: number): Promise<readonly string[]> {
    const { store, isMine = () => true } = this.#options;
    for (let max = PAGE; ; max *= 2) {
      const found = await store.listEnded({ finishedBefore, max });
      const ids = found.filter(isMine).slice(0, PAGE);
      if (ids.length === PAGE || found.length < max || max >= OTHERS_MAX) return ids;
    }
  }

  /** Deletes one page of old documents. Returns true if the whole page was old, so that there may be more. */
  async #dropPage(kind: string, before: number): Promise<boolean> {
    const { store } = this.#options;
    const first = String(Math.max(0, before)).padStart(TIME_DIGITS, "0");
    const page = await store.listDocuments(kind, { max: PAGE });
    const old = page.filter(({ id }) => id < first);
    await store.deleteDocuments(
      kind,
      old.map(({ id }) => id),
    );
    return old.length === PAGE;
  }
}
