/**
 * Relays: executions without phases that pass events on. There are two kinds. An event is a relay that sends one message for each
 * matching trigger, in the commit that creates it, and then ends. A gate is a relay for one key of one trigger: it holds events back
 * (debounce, batch, throttle) and knows which executions of its key are open (singleton, cancelOn). A gate that holds nothing ends;
 * the next event opens it again.
 */
import type { Definition } from "../definition/definition.ts";

/** The workflow names of events and gates. Users' workflows cannot have these names. */
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

/** The most executions that one event starts or signals. It is also the most that a gate cancels in one step. */
export const TARGETS_MAX = 1_000;

/** What a gate does with an event while an execution of its key is open. */
export type Singleton = "skip" | "cancel" | "signal";

/** The options of a trigger that its gate needs, and the workflow that it starts. Times are in milliseconds. */
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
  /** The name of the signal that an open execution gets, if `singleton` is `signal`. */
  readonly signal?: string;
  /** Whether the gate must know which executions are open. */
  readonly tracks?: true;
}

/** An event that is sent to a gate. */
export interface GateEntry {
  /** The id of the execution that stands for the event. */
  readonly event: string;
  /** The data of the event, as JSON text. */
  readonly data: string;
  readonly policy: GatePolicy;
  /** Whether the event cancels the gate's open executions and drops its held events. */
  readonly cancels?: true;
  /** The execution that returned the event, because it had ended when it got the event as a signal. */
  readonly returnedBy?: string;
  /** The events of a batch that an ended execution returned as one signal. This entry is the last event of the batch. */
  readonly batch?: readonly HeldEvent[];
}

/** An event that a gate holds. */
export interface HeldEvent {
  readonly event: string;
  readonly data: string;
}

/** The progress of cancelling a gate's open executions, from the oldest to the newest. */
export interface GateCancelling {
  /** The id of the event that cancels the executions. */
  readonly event: string;
  /** The number of executions that were sent a cancel so far. */
  readonly sent: number;
  /** The number of executions that are to be cancelled. */
  readonly to: number;
}

export interface GateState {
  readonly policy: GatePolicy;
  /** The held events: the last one (debounce), or all events of a batch. */
  readonly held: readonly HeldEvent[];
  /** The time at which the first held event came. The next field is the time of the last one. */
  readonly since: number;
  readonly last: number;
  /** The times of the latest starts, as many as the throttle needs. */
  readonly starts: readonly number[];
  /** The open executions of the key, the oldest first. */
  readonly open: readonly string[];
  /** The progress of cancelling open executions, page by page; missing if no cancelling is in progress. */
  readonly cancelling?: GateCancelling;
}
