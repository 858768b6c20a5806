/** The workers of a driver, and what they are told. */
import type { Beat, Serves } from "../protocol/work.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { WorkerLink } from "./driver-options.ts";
import type { Inspection, Output } from "./io.ts";

type Told = Extract<Output, { kind: "grant" | "cancel" | "withdraw" | "desk-closed" }>;

export class WorkerLinks {
  readonly #links = new Map<string, WorkerLink>();

  /** A worker comes; those that queue hear what it serves. */
  add(worker: string, link: WorkerLink, serves: readonly Serves[]): void {
    this.#links.set(worker, link);
    for (const other of this.#links.values()) if (other !== link) other.joined?.(serves);
  }

  remove(worker: string): void {
    this.#links.delete(worker);
  }

  tell(told: Told): void {
    const link = this.#links.get(told.worker);
    switch (told.kind) {
      case "grant":
        return link?.take(told.grant);
      case "cancel":
        return link?.cancel(told.attempts, told.why);
      case "withdraw":
        return link?.withdraw?.(told.from, told.why);
      case "desk-closed":
        return link?.closed?.(told.desk);
    }
  }

  /** How an execution is, with what the worker that queues knows of its commands. */
  async explain(inspection: Inspection | Rejection): Promise<Inspection | Rejection> {
    if (isRejection(inspection) || inspection.commands?.some(({ queued }) => queued !== undefined) !== true)
      return inspection;
    for (const link of this.#links.values()) if (link.explain !== undefined) return link.explain(inspection);
    return inspection;
  }

  /** Which of these silent attempts still run, by the worker's own word. */
  async ask(worker: string, attempts: readonly Beat[]): Promise<readonly Beat[]> {
    return (await this.#links.get(worker)?.ask?.(attempts)) ?? [];
  }
}
