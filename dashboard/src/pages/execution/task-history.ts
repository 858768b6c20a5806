/** Reads the history of a task: its attempts with their outcomes, its steps and its child. */
import type { TaskHistory } from "../../api/shapes.ts";

export type TaskEvent = TaskHistory["events"][number];

/** A step of a handler, or a run of a script. */
export interface TaskStep {
  readonly name: string;
  readonly at: number;
  readonly attempt: number;
  readonly state: "running" | "done" | "failed";
  readonly result?: unknown;
  readonly error?: unknown;
  readonly ms: number | null;
}

/** An attempt of a task. */
export interface Attempt {
  readonly n: number;
  state: "running" | "waiting" | "retrying" | "failed" | "done" | "cancelled" | "lost" | "pending";
  startedAt: number | null;
  endedAt: number | null;
  worker: string | null;
  ms: number | null;
  reason: string | null;
  error?: unknown;
  /** When the next attempt is due. */
  until: number | null;
  /** The signal or the time that the attempt waits for. */
  wait: string | null;
}

export interface ReadHistory {
  /** The newest first. */
  readonly attempts: readonly Attempt[];
  readonly steps: readonly TaskStep[];
  /** Who retried the task, and when. */
  readonly retries: readonly { readonly at: number; readonly by: string }[];
}

export function readHistory(events: readonly TaskEvent[]): ReadHistory {
  const attempts = new Map<number, Attempt>();
  const steps = new Map<string, TaskStep>();
  const retries: { at: number; by: string }[] = [];
  const of = (n: number): Attempt => {
    const known = attempts.get(n) ?? newAttempt(n);
    attempts.set(n, known);
    return known;
  };
  for (const event of events) {
    const { at } = event;
    const kind = event.kind.replace(/^workflow\./, "");
    const text = (name: string): string | null => (typeof event[name] === "string" ? event[name] : null);
    if (kind === "tasks.retried") {
      retries.push({ at, by: text("by") ?? "" });
      continue;
    }
    if (event.attempt === undefined) continue;
    const attempt = of(event.attempt);
    switch (kind) {
      case "tasks.started":
      case "child.started":
        attempt.state = "running";
        attempt.startedAt ??= at;
        attempt.worker = text("worker") ?? attempt.worker;
        break;
      case "tasks.waiting":
        attempt.state = "waiting";
        attempt.wait = text("signal") === null ? "sleeps" : `waits for the signal “${text("signal")}”`;
        break;
      case "tasks.lost":
        attempt.state = "lost";
        attempt.endedAt = at;
        attempt.worker = text("worker") ?? attempt.worker;
        break;
      case "tasks.retrying":
        attempt.state = text("reason") === "released" ? "pending" : "retrying";
        attempt.endedAt = at;
        attempt.reason = text("reason");
        attempt.until = typeof event["until"] === "number" ? event["until"] : null;
        attempt.error = event["error"];
        break;
      case "tasks.settled":
        settle(attempt, event);
        break;
      case "task.step":
      case "task.run":
      case "task.run.started":
      case "task.run.crashed":
        steps.set(`${event.attempt} ${text("name")}`, stepOf(kind, event, steps));
        break;
      default:
    }
  }
  return {
    attempts: [...attempts.values()].sort((a, b) => b.n - a.n),
    steps: [...steps.values()].sort((a, b) => a.at - b.at),
    retries,
  };
}

function newAttempt(n: number): Attempt {
  return {
    ...{ n, state: "pending", startedAt: null, endedAt: null, worker: null, ms: null },
    ...{ reason: null, until: null, wait: null },
  };
}

function settle(attempt: Attempt, event: TaskEvent): void {
  const ms = typeof event["ms"] === "number" ? event["ms"] : null;
  attempt.state = event["status"] as Attempt["state"];
  attempt.endedAt = event.at;
  attempt.ms = ms;
  attempt.startedAt ??= ms === null ? null : event.at - ms;
  attempt.reason = typeof event["reason"] === "string" ? event["reason"] : null;
  attempt.worker = typeof event["worker"] === "string" ? event["worker"] : attempt.worker;
  if ("error" in event) attempt.error = event["error"];
  attempt.until = null;
}

function stepOf(kind: string, event: TaskEvent, known: ReadonlyMap<string, TaskStep>): TaskStep {
  const name = String(event["name"]);
  const attempt = event.attempt ?? 0;
  const begun = known.get(`${attempt} ${name}`);
  const stats = (event["stats"] ?? {}) as { durationMs?: number };
  const isFailed = kind === "task.run.crashed" || ("error" in event && event["error"] !== null);
  return {
    name,
    attempt,
    at: begun?.at ?? event.at,
    state: kind === "task.run.started" ? "running" : isFailed ? "failed" : "done",
    ...(isFailed ? { error: event["error"] ?? event["message"] ?? event["reason"] } : {}),
    ...(kind === "task.step" || kind === "task.run"
      ? { result: event["result"] ?? event["state"] ?? null }
      : {}),
    ms: stats.durationMs ?? null,
  };
}

/** Texts for the reasons of outcomes. */
const REASONS: Readonly<Record<string, string>> = {
  attempts: "no retries left",
  fatal: "not retried: the error is fatal",
  failed: "failed",
  exception: "threw an error",
  killed: "timed out",
  timeout: "timed out",
  crashed: "the worker crashed",
  lost: "the worker was lost",
  released: "given back by its worker",
  cancelled: "cancelled",
  "not begun": "never began",
};

export function reasonText(reason: string | null): string {
  return reason === null ? "" : (REASONS[reason] ?? reason);
}
