/** Applies the events of a gate to its state. See relay.ts. */
import type { GateCarried, GateEvent } from "../event.ts";
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
  if (event.kind === "gate.carried") return carried(execution, event);
  const { gate } = execution;
  if (gate === null) return;
  switch (event.kind) {
    case "gate.dropped":
      execution.gate = { ...gate, held: [] };
      return;
    case "gate.freed":
      execution.gate = freed(gate, event.execution);
      return;
    case "gate.cancelled": {
      const { event: by, sent, to } = event;
      execution.gate = { ...gate, cancelling: { event: by, sent, to } };
      return;
    }
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

/** Applies the event that compacts a gate's journal. In a replay, this can be the first event of the journal. */
function carried(execution: Execution, event: GateCarried): void {
  const { project, input, createdAt, state, timers } = event;
  Object.assign(execution, { project, input, createdAt, due: execution.plan.first });
  // @plant carried gate forgets what it holds
  execution.gate = state;
  execution.carriedAt = execution.seq;
  execution.status = "running";
  execution.finishedAt = null;
  // @plant carried gate forgets its timer
  for (const { timer, due } of timers) execution.timers.set(timer, { purpose: "gate", due });
}

function freed(gate: GateState, id: string): GateState {
  const index = gate.open.indexOf(id);
  if (index < 0) return gate;
  const { cancelling, ...rest } = gate;
  const open = gate.open.filter((_, i) => i !== index);
  if (cancelling === undefined) return { ...rest, open };
  const sent = index < cancelling.sent ? cancelling.sent - 1 : cancelling.sent;
  const to = index < cancelling.to ? cancelling.to - 1 : cancelling.to;
  return to === 0 ? { ...rest, open } : { ...rest, open, cancelling: { ...cancelling, sent, to } };
}

function taken(
  gate: GateState | null,
  { event, data, policy }: Extract<GateEvent, { kind: "gate.taken" }>,
  now: number,
): GateState {
  const before: GateState = gate ?? { policy, held: [], since: 0, last: 0, starts: [], open: [] };
  const { held, since } = before;
  const one = { event, data };
  return {
    ...before,
    policy,
    // @plant batch forgets the events before
    held: policy.batch === undefined ? [one] : [...held, one],
    since: held.length === 0 ? now : since,
    last: now,
  };
}
