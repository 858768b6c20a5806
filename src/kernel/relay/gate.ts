/**
 * Gates: executions that take events, hold them according to the policy of their trigger, and pass them on as starts or signals. See
 * relay.ts.
 */
import { byteLength } from "../../std/json.ts";
import { LIMITS } from "../definition/definition.ts";
import type { Execution } from "../execution.ts";
import type { Answer, GateEndedMessage, StartMessage } from "../message.ts";
import type { Step } from "../step.ts";
import { clearTimer } from "../timer-ids.ts";
import { ENGINE } from "../timers.ts";
import {
  GATE_WORKFLOW,
  type GateCancelling,
  type GateEntry,
  type GatePolicy,
  type GateState,
  type HeldEvent,
  TARGETS_MAX,
} from "./relay.ts";
import { GATE_HASH, startedBy } from "./relay-ids.ts";

/** The name of the only timer of a gate. */
const TIMER = "gate";

/** Takes an event into the gate. If the gate has ended, it opens again. */
export function enterGate(step: Step, entry: GateEntry): Answer {
  const { execution } = step;
  const { policy, cancels, returnedBy } = entry;
  if (cancels === true) return cancelAll(step, entry);
  if (returnedBy !== undefined && isOpen(execution, returnedBy))
    step.emit({ kind: "gate.freed", execution: returnedBy });
  for (const held of entry.batch ?? [entry]) take(step, held, policy);
  settle(step);
  return { kind: "applied", seq: execution.seq };
}

function take(step: Step, { event, data }: HeldEvent, policy: GatePolicy): void {
  const { execution } = step;
  if (mustPassFirst(execution.gate, data, policy)) pass(step);
  step.emit({ kind: "gate.taken", event, data, policy });
  const { batch, debounce } = policy;
  const isHeld =
    debounce !== undefined || (batch !== undefined && stateOf(execution).held.length < batch.max);
  // @plant debounce passes each event
  if (!isHeld) pass(step);
}

/**
 * Whether the held batch must be passed on before this event is taken, because it would become too large, or the trigger does not
 * collect batches any more.
 */
function mustPassFirst(gate: GateState | null, data: string, { batch }: GatePolicy): boolean {
  if (gate === null || gate.policy.batch === undefined || gate.held.length === 0) return false;
  if (batch === undefined) return true;
  // Each event adds its data and a comma. The brackets of the list add two characters.
  const bytes = gate.held.reduce((sum, held) => sum + byteLength(held.data) + 1, 2);
  return bytes + byteLength(data) > LIMITS.inputBytes;
}

/** Records that an execution of the gate's key has ended. */
export function leaveGate(step: Step, { execution: ended }: GateEndedMessage): Answer {
  const { execution } = step;
  if (!isOpen(execution, ended)) return { kind: "ignored", why: "the gate does not know the execution" };
  step.emit({ kind: "gate.freed", execution: ended });
  settle(step);
  return { kind: "applied", seq: execution.seq };
}

/** Called when the timer of the gate has fired. */
export function gateDue(step: Step): void {
  const { gate } = step.execution;
  // @plant debounce does not wait for the last event
  if (gate !== null && gate.held.length > 0 && heldUntil(gate) <= step.now) pass(step);
  if (gate?.cancelling !== undefined) sendCancels(step, gate.cancelling);
  settle(step);
}

/**
 * Compacts the journal of a gate: one event gets the whole state, so the rows before that event can be deleted. Otherwise the journal
 * of a gate that is never idle for the time of the retention would grow without end. A gate that has ended is opened for that and
 * ends again.
 */
export function carryGate(step: Step): Answer {
  const { execution } = step;
  const { gate, project, input, createdAt } = execution;
  if (gate === null) return { kind: "ignored", why: "only the journal of a gate can be compacted" };
  const timers = Array.from(execution.timers, ([timer, { due }]) => ({ timer, due }));
  step.emit({ kind: "gate.carried", project, input, createdAt, state: gate, timers });
  settle(step);
  return { kind: "applied", seq: execution.seq };
}

/** Whether the journal of a gate is long enough to be compacted. The larger the state of the gate, the longer its journal may become. */
export function isCarryDue({ gate, seq, carriedAt }: Execution, eventsMax: number): boolean {
  return gate !== null && seq - carriedAt >= Math.max(eventsMax, 2 * (gate.open.length + gate.held.length));
}

/** Makes the message that brings an event to a gate. The message creates the gate if it does not exist. */
export function gateMessage(gate: string, entry: GateEntry): StartMessage {
  const { project } = entry.policy;
  const { workflow, trigger } = entry.policy;
  return {
    kind: "start",
    execution: gate,
    workflow: GATE_WORKFLOW,
    hash: GATE_HASH,
    project,
    input: JSON.stringify({ workflow, event: trigger }),
    tags: {},
    gate: entry,
  };
}

/** Cancels the open executions of the gate's key, and drops the held events. */
function cancelAll(step: Step, { event }: GateEntry): Answer {
  const { execution } = step;
  const { gate } = execution;
  if (gate !== null && gate.held.length + gate.open.length > 0) {
    // Ids of messages contain the sequence number of the last event, so every step that sends messages must emit an event.
    step.emit({ kind: "gate.dropped", events: gate.held.map((held) => held.event), reason: "cancelled" });
    cancelOpen(step, event);
  }
  settle(step);
  return { kind: "applied", seq: execution.seq };
}

/** Cancels the executions that are open now. The first page of them gets a cancel at once, the others when the timer fires. */
function cancelOpen(step: Step, event: string): void {
  const { open, cancelling } = stateOf(step.execution);
  sendCancels(step, { event, sent: cancelling?.sent ?? 0, to: open.length });
}

/** Sends a cancel to the next page of executions that are to get one. */
function sendCancels(step: Step, { event, sent, to }: GateCancelling): void {
  if (sent >= to) return;
  const end = Math.min(to, sent + TARGETS_MAX);
  for (const target of stateOf(step.execution).open.slice(sent, end))
    step.send(target, { kind: "cancel", id: `${event}~cancel`, by: ENGINE, reason: `event ${event}` });
  step.emit({ kind: "gate.cancelled", event, sent: end, to });
}

/** Passes the held events on: as the start of an execution, or as a signal to the open execution. */
function pass(step: Step): void {
  const { execution } = step;
  const gate = stateOf(execution);
  const { policy, held, open } = gate;
  const events = held.map(({ event }) => event);
  const last = held[held.length - 1] as GateState["held"][number];
  const input = policy.batch === undefined ? last.data : `[${held.map(({ data }) => data).join(",")}]`;
  const { singleton, workflow, hash, project, trigger } = policy;
  const current = open[open.length - 1];
  // @plant singleton starts a second execution
  if (singleton === "skip" && current !== undefined)
    return step.emit({ kind: "gate.dropped", events, reason: "singleton" });
  if (singleton === "signal" && policy.signal !== undefined && current !== undefined) {
    step.emit({ kind: "gate.passed", events, execution: current, as: "signal" });
    // The signal says where it comes from: if the execution ends before it gets the signal, it sends the event back to the gate.
    const returned = policy.batch === undefined ? last : { event: last.event, data: "null", batch: held };
    const from = { gate: execution.id, entry: { ...returned, policy } };
    const id = startedBy(last.event, policy);
    step.send(current, { kind: "signal", id, signal: policy.signal, data: input, from });
    return;
  }
  if (singleton === "cancel") cancelOpen(step, last.event);
  const startAt = throttled(gate, step.now);
  const started = startedBy(last.event, policy);
  step.emit({ kind: "gate.passed", events, execution: started, as: "start", startAt });
  step.send(started, {
    kind: "start",
    execution: started,
    workflow,
    hash,
    project,
    input,
    tags: { event: trigger },
    ...(startAt > step.now ? { startAt } : {}),
    ...(policy.tracks === true ? { notifies: execution.id } : {}),
  });
}

/** Returns when the next execution may start, so that no period of the throttle's length has more starts than its limit. */
function throttled({ policy: { throttle }, starts }: GateState, now: number): number {
  if (throttle === undefined) return now;
  const first = starts[starts.length - throttle.limit];
  // @plant throttle starts at once
  return first === undefined ? now : Math.max(now, first + throttle.per);
}

/** Returns the time at which the held events are passed on. */
function heldUntil({ policy: { debounce, batch }, since, last }: GateState): number {
  if (debounce !== undefined)
    return Math.min(last + debounce.quiet, since + (debounce.max ?? Number.POSITIVE_INFINITY));
  return since + (batch?.wait ?? 0);
}

/** Sets the gate's timer for events that are still held and starts that must be remembered. A gate that has neither ends. */
function settle(step: Step): void {
  const { execution } = step;
  const { gate } = execution;
  const due = gate === null ? null : nextDue(gate, step.now);
  const set = execution.timers.get(TIMER)?.due;
  // A timer that fires too early may stay, because it is set again when it fires.
  if (due === null || (set !== undefined && set > due)) clearTimer(step, TIMER);
  // @plant gate forgets its timer
  if (due !== null && !execution.timers.has(TIMER))
    step.emit({ kind: "timer.set", timer: TIMER, purpose: "gate", due });
  if (due !== null || (gate !== null && gate.open.length > 0) || execution.ended) return;
  step.emit({ kind: "finished", status: "done", output: null, error: null, round: execution.round });
}

function nextDue(gate: GateState, now: number): number | null {
  const { cancelling } = gate;
  if (cancelling !== undefined && cancelling.sent < cancelling.to) return now;
  if (gate.held.length > 0) return heldUntil(gate);
  const { throttle } = gate.policy;
  const last = gate.starts[gate.starts.length - 1];
  if (throttle === undefined || last === undefined || last + throttle.per <= now) return null;
  return last + throttle.per;
}

function isOpen({ gate }: Execution, id: string): boolean {
  return gate?.open.includes(id) === true;
}

function stateOf({ gate }: Execution): GateState {
  if (gate === null) throw new Error("a gate that has taken an event must have a state");
  return gate;
}
