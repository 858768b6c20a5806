/**
 * Relays: executions without phases that pass events on. There are two kinds. An event is a relay that sends one message for
 * each of its triggers in the commit that creates it, and ends. A gate is a relay for one key of one trigger: it holds events
 * back (debounce, batch, throttle) and knows which executions of its key are open (singleton, cancelOn). A gate that holds
 * nothing ends, and the next event opens it again.
 */
import type { Definition } from "../definition/definition.ts";

/** The names of the workflows of relays. No other workflow can have them. */
export const EVENT_WORKFLOW = "rondo-event";
export const GATE_WORKFLOW = "rondo-gate";

/** The beginning of the id of every gate. */
export const GATE_PREFIX = "gate~";

export function isRelayName(workflow: string): boolean {
  return workflow === EVENT_WORKFLOW || workflow === GATE_WORKFLOW;
}

/** The definitions of relays. Their phase is never entered. */
export const RELAY_DEFINITIONS: readonly Definition[] = [EVENT_WORKFLOW, GATE_WORKFLOW].map((name) => ({
  rondo: 1,
  name,
  phases: [{ name: "relay", handlers: {} }],
}));

/** The most executions that one event starts or signals, and the most that a gate cancels in one step. */
export const TARGETS_MAX = 1_000;

/** What a gate does while an execution of its key is open. */
export type Singleton = "skip" | "cancel" | "signal";

/** The rules of a trigger as a gate needs them, with the workflow that it starts. Times are in milliseconds. */
export interface GatePolicy {
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  /** The name of the event. */
  readonly trigger: string;
  readonly debounce?: { readonly quiet: number; readonly max?: number };
  readonly throttle?: { readonly limit: number; readonly per: number };
  readonly batch?: { readonly max: number; readonly wait: number };
  readonly singleton?: Singleton;
  /** The signal that an open execution gets, if `singleton` is `signal`. */
  readonly signal?: string;
  /** Whether the gate must know which executions are open. */
  readonly tracks?: true;
}

/** An event on its way into a gate. */
export interface GateEntry {
  /** The id of the event's own execution. */
  readonly event: string;
  /** The data of the event, as JSON text. */
  readonly data: string;
  readonly policy: GatePolicy;
  /** Whether the event cancels what the gate holds and the executions that are open. */
  readonly cancels?: true;
  /** The execution that refused the event as a signal, because it had ended. */
  readonly returnedBy?: string;
  /** The events of a batch that an ended execution refused as one signal. This entry is the last event of the batch. */
  readonly batch?: readonly HeldEvent[];
}

/** An event that a gate holds. */
export interface HeldEvent {
  readonly event: string;
  readonly data: string;
}

/** How far the cancelling of a gate's open executions is. Both numbers count from the oldest one. */
export interface GateCancelling {
  /** The event that cancels. */
  readonly event: string;
  /** How many were sent a cancel. */
  readonly sent: number;
  /** How many are to get one. */
  readonly to: number;
}

export interface GateState {
  readonly policy: GatePolicy;
  /** The events that are held: the last one (debounce), or all of a batch. */
  readonly held: readonly HeldEvent[];
  /** When the first and the last of the held events came. */
  readonly since: number;
  readonly last: number;
  /** The latest starts, as many as the throttle needs. */
  readonly starts: readonly number[];
  /** The open executions of the key, the oldest first. */
  readonly open: readonly string[];
  /** The cancelling of open executions, page by page; missing if none of them is cancelled. */
  readonly cancelling?: GateCancelling;
}
