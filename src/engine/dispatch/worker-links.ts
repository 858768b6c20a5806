/** The links of a driver to its workers. */
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

  /** Adds a worker, and announces what it serves to workers that queue. */
  add(worker: string, link: WorkerLink, serves: readonly Serves[]): void {
    this.#links.set(worker, link);
    for (const other of this.#links.values()) if (other !== link) other.joined?.(serves);
  }

  remove(worker: string): void {
    this.#links.delete(worker);
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

  /** Adds what the worker that queues knows of an execution's commands to an inspection. */
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
