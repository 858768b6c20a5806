/** The selection of the execution page, as its address contains it: the moment (`at`), the handler (`lane`), the task. */
import type { PhaseView } from "../../api/shapes.ts";
import { usePlace } from "../../core/router.ts";
import type { Span } from "./time-view.ts";

/** A handler of a visit. */
export interface LaneName {
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
}

export interface ExecutionPlace {
  /** The event after which the execution is shown; null for its present state. */
  readonly at: number | null;
  /** The selected handler; null for the default one. */
  readonly lane: LaneName | null;
  readonly task: number | null;
  /** The selected span of time; null for all of it. */
  readonly span: Span | null;
  readonly tab: string;
  readonly by: string;
  /** The group of errors whose tasks are listed; null for all tasks. */
  readonly error: string | null;
}

/** Reads the selection from the address. */
export function useExecutionPlace(): ExecutionPlace {
  const { query } = usePlace();
  return {
    at: numberOf(query.get("at")),
    lane: parseLane(query.get("lane")),
    task: numberOf(query.get("task")),
    span: spanOf(query),
    tab: query.get("tab") ?? "tasks",
    by: query.get("by") ?? "state",
    error: query.get("error"),
  };
}

/** Reads the selected span of time from an address. */
export function spanOf(query: URLSearchParams): Span | null {
  const [from, to] = [numberOf(query.get("from")), numberOf(query.get("to"))];
  return from !== null && to !== null && from < to ? { from, to } : null;
}

function numberOf(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Writes a handler of a visit as `phase.visit.handler`. */
export function laneText({ phase, visit, handler }: LaneName): string {
  return `${phase}.${visit}.${handler}`;
}

function parseLane(text: string | null): LaneName | null {
  const match = /^([^.]+)\.(\d+)\.([^.]+)$/.exec(text ?? "");
  if (match === null) return null;
  return { phase: match[1] as string, visit: Number(match[2]), handler: match[3] as string };
}

/**
 * The handler to show: the selected one, else the one that failed the phase, else one that works, else any; among these the one
 * with most tasks, the later of equals.
 */
export function shownLane(chosen: LaneName | null, phases: readonly PhaseView[]): LaneName | null {
  const all = phases.flatMap(({ name, visit, status, handlers }) =>
    visit === 0
      ? []
      : handlers.map((handler) => ({
          name: { phase: name, visit, handler: handler.name },
          weight: weightOf(status, handler),
        })),
  );
  const found = chosen === null ? undefined : all.find(({ name }) => laneText(name) === laneText(chosen));
  if (found !== undefined) return found.name;
  const most = Math.max(...all.map(({ weight }) => weight));
  return all.findLast(({ weight }) => weight === most)?.name ?? null;
}

function weightOf(status: PhaseView["status"], handler: PhaseView["handlers"][number]): number {
  const { total, done, failed, cancelled } = handler;
  if (status === "failed" && failed > 0) return Number.POSITIVE_INFINITY;
  return done + failed + cancelled < total ? total + Number.MAX_SAFE_INTEGER / 2 : total;
}
