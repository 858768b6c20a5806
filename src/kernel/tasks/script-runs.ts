/**
 * The runs of a script task. A run is identified by its name among the runs of the definition, and by its index if one is given. The
 * journal has the first runs of the script, in order; a run that is not the next one is never journaled.
 */
import { type Rejection, reject } from "../../std/rejection.ts";
import type { HandlerState } from "../execution.ts";
import type { Checkpoint } from "./checkpoint.ts";

type RunCheckpoint = Extract<Checkpoint, { kind: "run" }>;

interface AttemptAt {
  readonly task: number;
  readonly attempt: number;
  readonly round: number;
}

const NONE: readonly RunCheckpoint[] = [];

/** Returns the journaled runs of a task: the first runs of the script, in order, over all attempts. */
export function journaledRuns(handler: HandlerState, task: number): readonly RunCheckpoint[] {
  const { script } = handler.plan.definition;
  const runs = handler.progress.tasks.get(task)?.runs;
  if (runs === undefined || script === undefined) return NONE;
  const end = runs.findIndex(({ name }, i) => name !== script[i]?.name);
  return end < 0 ? runs : runs.slice(0, end);
}

/** Returns the runs that count as finished for an attempt. With `resume: false`, runs of earlier attempts do not count. */
export function finishedRuns(handler: HandlerState, at: AttemptAt): readonly RunCheckpoint[] {
  const progress = handler.progress.tasks.get(at.task);
  const isNewer = progress !== undefined && (at.round > progress.round || at.attempt > progress.attempt);
  return handler.plan.definition.resume === false && isNewer ? NONE : journaledRuns(handler, at.task);
}

/** Returns the index of a finished run, and whether the run is journaled already. Returns a rejection if it is not the next run. */
export function placeRun(
  handler: HandlerState,
  at: AttemptAt,
  run: { readonly name: string; readonly index: number | null },
): { readonly index: number; readonly isRepeat: boolean } | Rejection {
  const index = indexOfRun(handler, run);
  if (typeof index !== "number") return index;
  const finished = finishedRuns(handler, at).length;
  if (index <= finished) return { index, /* @plant finished run counts again */ isRepeat: index < finished };
  const { script = [] } = handler.plan.definition;
  return reject("wrong_status", `run ${run.name} is not the next one`, {
    path: "run",
    hint: `${finished} of ${script.length} runs are finished; the next one is ${script[finished]?.name}`,
  });
}

/** Returns the index of the run with this name. Returns a rejection if the script has no such run, or if the run has another index. */
export function indexOfRun(
  handler: HandlerState,
  { name, index }: { readonly name: string; readonly index: number | null },
): number | Rejection {
  const shown = name.slice(0, 100);
  const { script } = handler.plan.definition;
  if (script === undefined)
    return reject("invalid_input", `run ${shown}: the handler ${handler.plan.name} is not a script`, {
      path: "run",
      hint: "only scripts have runs; end this attempt with its receipt",
    });
  // @plant runs counted, not identified 2
  const found = script.findIndex((run) => run.name === name);
  if (found < 0)
    return reject("invalid_input", `the script has no run ${shown}`, {
      path: "run",
      hint: `the runs of the script are ${listed(script.map((run) => run.name))}`,
    });
  if (/* @plant runs counted, not identified */ index !== null && index !== found)
    return reject("invalid_input", `run ${shown} has the index ${found}, not ${index}`, {
      path: "index",
      hint: "leave the index out, or send the run's place among all runs of the script, from 0",
    });
  return found;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 10).join(", ");
  return names.length > 10 ? `${shown} and ${names.length - 10} more` : shown;
}
