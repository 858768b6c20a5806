/**
 * Queues that operators paused: no task of their code is given out, at any node, until they are resumed. Each is a document. A
 * node of a cluster reads the documents again every two seconds.
 */
import type { Clock } from "../../std/clock.ts";
import { KEPT, number, object, orNull, string } from "../../std/decode.ts";
import { allDocuments, jsonForm } from "../../store/document-form.ts";
import type { Store } from "../../store/store.ts";
import { FreshCopy } from "../auth/fresh-copy.ts";

/** A paused queue. */
export interface PausedQueue {
  /** The name of the code, or `topic:` and the name of a topic. */
  readonly use: string;
  readonly by: string;
  readonly at: number;
  readonly reason: string | null;
}

const KIND = "paused-queue";
const form = jsonForm<PausedQueue>(
  KIND,
  object({ use: string, by: string, at: number, reason: orNull(string) }, KEPT),
);

/** The other fields of a paused queue whose document is damaged. */
const UNKNOWN = { by: "an operator", at: 0, reason: "the document about the pause is damaged" };

export interface PausedQueuesOptions {
  readonly store: Pick<Store, "putDocument" | "listDocuments">;
  readonly clock: Clock;
  /** Whether other nodes pause queues too. */
  readonly isShared: boolean;
  /** Tells the engine which queues are paused. */
  readonly apply: (paused: ReadonlyMap<string, string>) => void;
  readonly onFault: (fault: Error) => void;
}

export class PausedQueues {
  readonly #options: PausedQueuesOptions;
  #all: readonly PausedQueue[] = [];
  #copy: FreshCopy | null = null;

  private constructor(options: PausedQueuesOptions) {
    this.#options = options;
  }

  static async open(options: PausedQueuesOptions): Promise<PausedQueues> {
    const queues = new PausedQueues(options);
    await queues.#read();
    const { clock, isShared, onFault } = options;
    if (isShared) queues.#copy = new FreshCopy({ clock, read: () => queues.#read(), onFault });
    return queues;
  }

  close(): void {
    this.#copy?.close();
  }

  get all(): readonly PausedQueue[] {
    return this.#all;
  }

  async pause(queue: PausedQueue): Promise<void> {
    await this.#options.store.putDocument(KIND, queue.use, JSON.stringify(queue));
    await this.#read();
  }

  /** Resumes a queue; false if it is not paused. */
  async resume(use: string): Promise<boolean> {
    await this.#read();
    if (!this.#all.some((queue) => queue.use === use)) return false;
    await this.#options.store.putDocument(KIND, use, null);
    await this.#read();
    return true;
  }

  async #read(): Promise<void> {
    const found: PausedQueue[] = [];
    // The id is the name of the queue. A queue with a damaged document stays paused until an operator resumes it.
    for await (const one of allDocuments(this.#options.store, form))
      found.push(one.damage === undefined ? one.value : { use: one.id, ...UNKNOWN });
    const isSame = JSON.stringify(found) === JSON.stringify(this.#all);
    this.#all = found;
    if (!isSame)
      this.#options.apply(
        new Map(found.map(({ use, by, reason }) => [use, `by ${by}${reason === null ? "" : `: ${reason}`}`])),
      );
  }
}
