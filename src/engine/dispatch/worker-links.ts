/** The driver's connections to its workers. */
import type { Serves } from "../../protocol/work.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { WorkerLink } from "../driver-options.ts";
import type { Input, Inspection, Output } from "../io.ts";

type WorkerOutput = Extract<
  Output,
  { kind: "grant" | "cancel" | "withdraw" | "check-sent" | "took-over" | "queue-closed" }
>;

export class WorkerLinks {
  readonly #links = new Map<string, WorkerLink>();
  readonly #serves = new Map<string, readonly Serves[]>();

  /** Adds a worker. A worker that forwards to queues is informed of the code that every other worker serves, whichever joined first. */
  add(worker: string, link: WorkerLink, serves: readonly Serves[]): void {
    const isNew = this.#links.get(worker) !== link;
    this.#links.set(worker, link);
    this.#serves.set(worker, serves);
    for (const [name, other] of this.#links) {
      if (name === worker) continue;
      other.joined?.(serves);
      if (isNew) link.joined?.(this.#serves.get(name) ?? []);
    }
  }

  remove(worker: string): void {
    this.#links.delete(worker);
    this.#serves.delete(worker);
  }

  send(told: WorkerOutput): void {
    const link = this.#links.get(told.worker);
    switch (told.kind) {
      case "grant":
        return link?.accept(told.grant);
      case "cancel":
        return link?.cancel(told.attempts, told.why, told.topic);
      case "withdraw":
        return link?.withdraw?.(told.from, told.why);
      case "check-sent":
        return link?.check?.(told.at);
      case "took-over":
        return link?.tookOver?.();
      case "queue-closed":
        return link?.closed?.(told.place);
    }
  }

  /** Adds to an inspection the information that the queueing worker has about the execution's commands. */
  async explain(inspection: Inspection | Rejection): Promise<Inspection | Rejection> {
    if (isRejection(inspection) || inspection.commands?.some(({ queued }) => queued !== undefined) !== true)
      return inspection;
    for (const link of this.#links.values()) if (link.explain !== undefined) return link.explain(inspection);
    return inspection;
  }

  /** Asks a worker which of these silent attempts still run. */
  async ask(
    { worker, attempts }: Extract<Output, { kind: "ask-worker" }>,
    onVouched: (vouched: Extract<Input, { kind: "worker-vouches" }>) => void,
  ): Promise<void> {
    const beats = (await this.#links.get(worker)?.ask?.(attempts)) ?? [];
    if (beats.length > 0) onVouched({ kind: "worker-vouches", worker, beats });
  }
}
