/**
 * Keeps receipts on disk until the broker has confirmed them. If a worker ends before that, the next worker with the same
 * directory publishes them, and the tasks do not run again at that worker.
 */
import { TransientMap } from "../../std/transient-map.ts";
import { type DamagedSpool, Spool, type SpooledEvent } from "../http/spool.ts";

export interface SpooledReceipt {
  /** The id of the attempt. */
  readonly id: string;
  readonly queue: string;
  readonly body: Buffer;
}

export class ReceiptSpool {
  readonly #spool: Spool;
  readonly #onBug: (thrown: unknown) => void;
  readonly #open = new TransientMap<string, SpooledEvent>();
  readonly #unconfirmed = new Set<SpooledEvent>();
  /** The receipts that earlier processes left in the directory when they ended. */
  readonly left: readonly SpooledReceipt[];
  readonly damaged: readonly DamagedSpool[];

  constructor(directory: string, onBug: (thrown: unknown) => void) {
    const { spool, left, damaged } = Spool.open(directory);
    this.#spool = spool;
    this.#onBug = onBug;
    this.damaged = damaged;
    this.left = left.map((event) => {
      this.#note(event);
      const { queue, body } = JSON.parse(event.json) as { readonly queue: string; readonly body: string };
      return { id: event.attempt, queue, body: Buffer.from(body) };
    });
    spool.unacknowledged = this.#unconfirmed;
  }

  /** Writes a receipt to disk, and then calls `publish`. */
  add({ id, queue, body }: SpooledReceipt, publish: () => void): void {
    const json = JSON.stringify({ queue, body: body.toString() });
    const event = { attempt: id, token: "", n: 1, json, isReceipt: true };
    this.#spool.append(
      [event],
      () => {
        this.#note(event);
        publish();
      },
      this.#onBug,
    );
  }

  /** Removes a receipt. Called when the broker has confirmed it, or when no queue accepts it. */
  confirmed(id: string): void {
    const event = this.#open.get(id);
    if (event === undefined) return;
    this.#open.delete(id);
    this.#unconfirmed.delete(event);
    this.#spool.acknowledged();
  }

  close(): void {
    this.#spool.close();
  }

  #note(event: SpooledEvent): void {
    const before = this.#open.get(event.attempt);
    if (before !== undefined) this.#unconfirmed.delete(before);
    this.#open.set(event.attempt, event);
    this.#unconfirmed.add(event);
  }
}
