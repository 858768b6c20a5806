/** Walks from failed task to failed task, through all handlers of the execution, by the keys n and p. */
import { ask } from "../../api/client.ts";
import { TASK_STATES } from "../../api/shapes.ts";
import { choose } from "../../core/router.ts";
import { useKeys } from "../../shell/keys.ts";
import { tell, tellProblem } from "../../ui/toast.tsx";
import type { About } from "./execution.tsx";
import { type LaneName, laneText, useExecutionPlace } from "./place.ts";

const FAILED = TASK_STATES.indexOf("failed");

/** Returns a function that goes to the next (1) or the previous (-1) failed task. */
export function useFailureWalk({ path, at, facts, lane }: About): (by: 1 | -1) => void {
  const { task } = useExecutionPlace();
  const go = async (by: 1 | -1): Promise<void> => {
    const lanes = failedLanes(facts.phases);
    if (lane === null || lanes.length === 0) return tell("No task has failed.");
    const ordered = by === 1 ? lanes : lanes.toReversed();
    const here = ordered.findIndex((one) => laneText(one) === laneText(lane));
    if (here >= 0) {
      const n = find(await readStates(path, lane, at), task, by);
      if (n !== null) return choose({ lane: laneText(lane), task: String(n) });
    }
    const next = ordered[here + 1];
    if (next === undefined)
      return tell(by === 1 ? "This is the last failed task." : "This is the first failed task.");
    const n = find(await readStates(path, next, at), null, by);
    choose({ lane: laneText(next), task: n === null ? null : String(n) });
  };
  const walk = (by: 1 | -1): void => void go(by).catch(tellProblem);
  useKeys("Execution", [
    { keys: "n", label: "Next failed task", run: () => walk(1) },
    { keys: "p", label: "Previous failed task", run: () => walk(-1) },
  ]);
  return walk;
}

/** Handlers with failed tasks, in the order of their phases. */
function failedLanes(phases: About["facts"]["phases"]): readonly LaneName[] {
  return phases.flatMap(({ name: phase, visit, handlers }) =>
    handlers.flatMap(({ name: handler, failed }) => (failed > 0 ? [{ phase, visit, handler }] : [])),
  );
}

async function readStates(path: string, lane: LaneName, at: number | null): Promise<Uint8Array> {
  const response = await ask("GET", `${path}/tasks/states`, { query: { ...lane, at } });
  return new Uint8Array(await response.arrayBuffer());
}

/** The next failed task after or before a task (null: the first or the last). */
function find(bytes: Uint8Array, task: number | null, by: 1 | -1): number | null {
  for (
    let n = task === null ? (by === 1 ? 0 : bytes.length - 1) : task + by;
    n >= 0 && n < bytes.length;
    n += by
  )
    if (((bytes[n] as number) & 15) === FAILED) return n;
  return null;
}
