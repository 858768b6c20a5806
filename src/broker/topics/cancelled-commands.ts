/**
 * Announces cancelled commands on the fanout `cancel.consumer`. A copy may still be in its topic or at a worker: Rondo's
 * workers stop it, or acknowledge it without running it. `task_queue` names a queue that commands never have, so workers
 * that do not know the field `commands` stop nothing.
 */

import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { publishCancel } from "../visits/visit-announcer.ts";

type Parts = Pick<BridgeParts, "names" | "publisher" | "settings" | "clock">;

/** Ids in one message. */
const PORTION = 500;

export class CancelledCommands {
  readonly #parts: Parts;
  /** Ids of the attempts cancelled in this turn, by the queue that tasks of their handler would have. */
  readonly #ids = new Map<string, string[]>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Announces a cancelled command, together with the others of this turn. */
  add(at: ReportedAttempt): void {
    const { clock, names } = this.#parts;
    if (this.#ids.size === 0) clock.soon(() => this.#announce());
    const queue = names.tasks(at);
    const ids = this.#ids.get(queue) ?? [];
    this.#ids.set(queue, ids);
    ids.push(encodeAttempt(at));
  }

  #announce(): void {
    for (const [queue, ids] of this.#ids)
      for (let from = 0; from < ids.length; from += PORTION)
        publishCancel(this.#parts, {
          task_queue: queue,
          reason: "cancelled",
          commands: ids.slice(from, from + PORTION),
        });
    this.#ids.clear();
  }
}
