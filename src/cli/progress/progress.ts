/** Computes the progress of an execution by phase: initially from its view, then from its summary events. */
import type { ExecutionView, PublicEvent } from "../../index.ts";
import { NEXT } from "../../kernel/definition/definition.ts";

/** One visit of a phase. */
export interface PhaseProgress {
  readonly name: string;
  /** The display name of the phase. */
  readonly label: string;
  readonly visit: number;
  status: "running" | "done" | "failed" | "cancelled";
  /** The number of known tasks. `isSealed` says that no more tasks will be added. */
  total: number;
  isSealed: boolean;
  done: number;
  failed: number;
  cancelled: number;
  /** The number of attempts that failed and are retried, and of lost attempts. Attempts from before the display started are not counted. */
  retried: number;
  /** When the phase began; null if it began before the display started. */
  startedAt: number | null;
  finishedAt: number | null;
  /** The timer of a phase that waits: the end of a sleep, or the deadline of a signal. */
  timer: { readonly purpose: string; readonly due: number } | null;
}

/** Display names of phases, by name. A phase without an entry is shown by its name. */
export type PhaseLabels = ReadonlyMap<string, string>;

export class Progress {
  /** The phases in the order in which they began. */
  readonly phases: PhaseProgress[] = [];
  readonly #labels: PhaseLabels;

  constructor(labels: PhaseLabels = new Map()) {
    this.#labels = labels;
  }

  /** Makes the progress from an execution's view. */
  static of(view: ExecutionView, labels: PhaseLabels = new Map()): Progress {
    const progress = new Progress(labels);
    for (const { name, visit, status, handlers } of view.phases) {
      if (status === "pending" || status === "skipped") continue;
      const sum = (field: "total" | "done" | "failed" | "cancelled") =>
        handlers.reduce((total, handler) => total + (handler.name === NEXT ? 0 : handler[field]), 0);
      const isOver = status !== "running";
      progress.phases.push({
        ...begun({ name, label: labels.get(name) ?? name, visit }, null),
        status,
        total: sum("total"),
        isSealed: handlers.every((handler) => handler.sealed),
        done: sum("done"),
        failed: sum("failed"),
        cancelled: sum("cancelled"),
        finishedAt: isOver ? view.createdAt : null,
      });
    }
    return progress;
  }

  /** The phase that runs now. */
  get current(): PhaseProgress | null {
    return this.phases.findLast((phase) => phase.status === "running") ?? null;
  }

  /** Applies an event. Returns the phase if it has just begun or ended. */
  apply(event: PublicEvent): PhaseProgress | null {
    const kind = event.kind.replace(/^workflow\./, "");
    if (kind.startsWith("timer.")) return this.#timer(kind === "timer.set" ? event : null);
    if (typeof event["phase"] !== "string") return null;
    const phase = this.#phase(event["phase"], event["visit"] as number, event.at);
    switch (kind) {
      case "phase.started":
        return phase;
      case "phase.finished":
        phase.status = event["status"] as PhaseProgress["status"];
        phase.finishedAt = event.at;
        phase.isSealed = true;
        return phase;
      case "retried":
        phase.status = "running";
        phase.finishedAt = null;
        phase.failed = 0;
        phase.cancelled = 0;
        return phase;
      case "tasks.retried":
        phase.status = "running";
        phase.finishedAt = null;
        phase.failed = Math.max(0, phase.failed - (event["failed"] as number));
        return null;
      default:
        if (event["handler"] !== NEXT) count(phase, kind, event);
        return null;
    }
  }

  #phase(name: string, visit: number, at: number): PhaseProgress {
    const known = this.phases.findLast((phase) => phase.name === name && phase.visit === visit);
    if (known !== undefined) return known;
    const phase = begun({ name, label: this.#labels.get(name) ?? name, visit }, at);
    this.phases.push(phase);
    return phase;
  }

  #timer(set: PublicEvent | null): null {
    const { current } = this;
    if (current !== null)
      current.timer = set && { purpose: set["purpose"] as string, due: set["due"] as number };
    return null;
  }
}

function begun(phase: Pick<PhaseProgress, "name" | "label" | "visit">, at: number | null): PhaseProgress {
  return {
    ...phase,
    status: "running",
    total: 0,
    isSealed: false,
    done: 0,
    failed: 0,
    cancelled: 0,
    retried: 0,
    startedAt: at,
    finishedAt: null,
    timer: null,
  };
}

function count(phase: PhaseProgress, kind: string, event: PublicEvent): void {
  const number = (field: string): number => (event[field] as number | undefined) ?? 0;
  switch (kind) {
    case "tasks.enumerated":
      phase.total += number("count");
      break;
    case "handler.enumerated":
      phase.isSealed = true;
      break;
    case "tasks.settled":
      phase.done += number("done");
      phase.failed += number("failed");
      phase.total = Math.max(phase.total, phase.done + phase.failed);
      break;
    case "handler.finished":
      // Tasks that had not begun when their phase failed have no event of their own, so they are counted as cancelled at its end.
      phase.cancelled += number("cancelled");
      phase.total = Math.max(phase.total, phase.done + phase.failed + phase.cancelled);
      break;
    case "tasks.retrying":
    case "tasks.lost":
      phase.retried += number("count");
      break;
    default:
      break;
  }
}
