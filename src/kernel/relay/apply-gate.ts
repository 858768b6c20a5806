/** The fold of a gate's events. See relay.ts. */
import type { GateEvent } from "../event.ts";
import type { Execution } from "../execution.ts";
import type { GateState } from "./relay.ts";

/** Applies an event of a gate. */
export function applyGate(execution: Execution, event: GateEvent): void {
  if (event.kind === "gate.taken") {
    execution.status = "running";
    execution.finishedAt = null;
    execution.gate = taken(execution.gate, event, execution.now);
    return;
  }
  const { gate } = execution;
  if (gate === null) return;
  switch (event.kind) {
    case "gate.dropped":
      execution.gate = { ...gate, held: [] };
      return;
    case "gate.freed":
      execution.gate = { ...gate, open: gate.open.filter((id) => id !== event.execution) };
      return;
    case "gate.passed": {
      const { throttle, tracks } = gate.policy;
      const isStart = event.as === "start";
      const starts =
        isStart && throttle !== undefined
          ? [...gate.starts, event.startAt ?? execution.now].slice(-throttle.limit)
          : gate.starts;
      const open = isStart && tracks === true ? [...gate.open, event.execution] : gate.open;
      execution.gate = { ...gate, held: [], starts, open };
      return;
    }
  }
}

function taken(
  gate: GateState | null,
  { event, data, policy }: Extract<GateEvent, { kind: "gate.taken" }>,
  now: number,
): GateState {
  const { held, since, starts, open } = gate ?? { held: [], since: 0, starts: [], open: [] };
  const one = { event, data };
  return {
    policy,
    // @plant batch forgets the events before
    held: policy.batch === undefined ? [one] : [...held, one],
    since: held.length === 0 ? now : since,
    last: now,
    starts,
    open,
  };
}
