/**
 * Finds open commands that are in the store but not in memory: after a restart or a takeover, or if the bridge had too many to keep.
 *
 * 1. An execution that leaves memory while its command is at the broker has a row `~retry` among the timers in the store.
 * 2. After a takeover, such commands may wait on each receipt topic that was ever consumed.
 * 3. A search reads these rows until a command is known for each of the topics. It asks the engine whether a command is open.
 * 4. A topic without a command is not consumed.
 */
import { RETRY_TIMER } from "../../engine/commit/execution-write.ts";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Plan } from "../../kernel/definition/plan.ts";
import type { SentAt } from "../../protocol/work.ts";
import { isRejection } from "../../std/rejection.ts";
import { sleep } from "../../std/within.ts";
import type { Store, StoredHead } from "../../store/store.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import type { QueueRegistry } from "../visits/queue-registry.ts";
import type { ReceiptTopics } from "./receipt-topics.ts";

export interface WaitingCommandsParts extends Pick<BridgeParts, "clock" | "session"> {
  readonly store: Pick<Store, "scanTimers" | "load">;
  readonly engine: Pick<EnginePort, "isOwn" | "inspect">;
  readonly queueRegistry: Pick<QueueRegistry, "topics">;
  readonly planOf: (hash: string) => Promise<Plan | null>;
}

/** How many rows are read at a time, and the pause between two reads, which leaves the store to other readers. */
const PAGE = 200;
const PAUSE_MS = 20;
/** The most definitions whose receipt topics are cached. */
const KEPT_MAX = 1_000;

export class WaitingCommands {
  readonly #parts: WaitingCommandsParts;
  readonly #receipts: Pick<ReceiptTopics, "unsure" | "needsCommand" | "mayHaveMore" | "hasNoMore">;
  readonly #onFound: (sent: SentAt) => void;
  readonly #topics = new Map<string, Plan["commands"]>();
  #hasNewPartitions = false;
  #isSearching = false;
  #isWanted = false;

  constructor(
    parts: WaitingCommandsParts,
    receipts: Pick<ReceiptTopics, "unsure" | "needsCommand" | "mayHaveMore" | "hasNoMore">,
    onFound: (sent: SentAt) => void,
  ) {
    this.#parts = parts;
    this.#receipts = receipts;
    this.#onFound = onFound;
  }

  tookOver(): void {
    this.#hasNewPartitions = true;
  }

  /** Starts a search if a topic may have commands of which none is known. Only one search runs at a time. */
  async find(): Promise<void> {
    this.#isWanted = true;
    if (this.#isSearching) return;
    this.#isSearching = true;
    try {
      while (this.#isWanted && this.#parts.session() !== null) {
        this.#isWanted = false;
        await this.#noteTopics();
        await this.#search();
      }
    } finally {
      this.#isSearching = false;
    }
  }

  async #noteTopics(): Promise<void> {
    if (!this.#hasNewPartitions) return;
    // If a takeover happened during the read, it has set the flag again, and the next search reads the topics again.
    this.#hasNewPartitions = false;
    try {
      for (const { receiptTopic } of await this.#parts.queueRegistry.topics())
        this.#receipts.mayHaveMore(receiptTopic);
    } catch (thrown) {
      this.#hasNewPartitions = true;
      throw thrown;
    }
  }

  async #search(): Promise<void> {
    const { store, session, clock } = this.#parts;
    const asked = this.#receipts.unsure;
    const isWanted = (name: string): boolean => asked.has(name) && this.#receipts.needsCommand(name);
    const isOver = (): boolean => ![...asked.keys()].some(isWanted);
    if (isOver()) return;
    let isWhole = true;
    for await (const ids of this.#executions()) {
      for (const loaded of await store.load(ids)) {
        if (loaded === null || !(await this.#topicsOf(loaded.head)).some(isWanted)) continue;
        if (!(await this.#report(loaded.head, isWanted))) isWhole = false;
      }
      if (isOver()) return;
      await sleep(clock, PAUSE_MS);
      if (session() === null) return;
    }
    if (!isWhole) return;
    for (const [name, since] of asked) if (isWanted(name)) this.#receipts.hasNoMore(name, since);
  }

  /** Reports the open commands of an execution at these topics. Returns false if the engine cannot say now which commands are open. */
  async #report({ id, project }: StoredHead, isWanted: (topic: string) => boolean): Promise<boolean> {
    const found = await this.#parts.engine.inspect(id);
    // An execution that has ended or belongs to another node now has no open command at this node.
    if (isRejection(found)) return found.code === "not_found" || found.code === "not_owner";
    for (const { phase, handler, topic, receiptTopic, queued } of found.commands ?? [])
      if (queued !== undefined && isWanted(receiptTopic)) {
        const attempt = { ...queued, execution: id, phase, handler };
        this.#onFound({ attempt, topic, receiptTopic, project });
      }
    return true;
  }

  /**
   * Yields the executions of this node that may wait for receipts, page by page. A row that changes during the search moves to a later
   * time, so it is not missed.
   */
  async *#executions(): AsyncGenerator<readonly string[]> {
    const { store, engine } = this.#parts;
    let from = 0;
    let max = PAGE;
    let seen = new Set<string>();
    for (;;) {
      const rows = await store.scanTimers({ from, until: Number.MAX_SAFE_INTEGER, max, partitions: null });
      const found = rows.filter(({ timer }) => timer === RETRY_TIMER);
      const ids = found.map(({ execution }) => execution);
      yield ids.filter((id) => !seen.has(id) && engine.isOwn(id));
      if (rows.length < max) return;
      const last = rows.at(-1)?.due ?? from;
      // If all rows of a page are due at the same time, a larger page is read, because pages continue by time.
      if (last === from) max *= 2;
      else {
        [from, max] = [last, PAGE];
        seen = new Set();
      }
      for (const { execution, due } of found) if (due === from) seen.add(execution);
    }
  }

  /** Returns the topics on which an execution in this phase may get receipts. */
  async #topicsOf({ hash, phase }: StoredHead): Promise<readonly string[]> {
    let commands = this.#topics.get(hash);
    if (commands === undefined) {
      commands = (await this.#parts.planOf(hash))?.commands ?? [];
      if (this.#topics.size >= KEPT_MAX) this.#topics.clear();
      this.#topics.set(hash, commands);
    }
    return commands.filter((at) => at.phase.name === phase).map(({ command }) => command.receiptTopic);
  }
}
