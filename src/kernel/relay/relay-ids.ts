/** Ids of relays and of the executions that they start. They are not in relay.ts, because browsers load that file. */
import { contentHash } from "../../std/canonical-json.ts";
import { sha256 } from "../../std/hash.ts";
import type { Json } from "../../std/json.ts";
import { GATE_PREFIX, type GatePolicy, RELAY_DEFINITIONS } from "./relay.ts";

export const GATE_HASH = contentHash(RELAY_DEFINITIONS[1] as unknown as Json);

/** Returns the id of the execution that stands for an event. */
export function eventExecution(project: string, id: string): string {
  return `event~${sha256(`${project}\n${id}`).slice(0, 32)}`;
}

/** Returns the id of the gate for a key of a trigger. */
export function gateId(trigger: {
  readonly project: string;
  readonly workflow: string;
  readonly event: string;
  readonly key: string;
}): string {
  const { project, workflow, event, key } = trigger;
  return `${GATE_PREFIX}${sha256(`${project}\n${workflow}\n${event}\n${key}`).slice(0, 32)}`;
}

/** Returns the id of the execution that an event starts through a trigger, or of the signal that it sends. */
export function startedBy(
  event: string,
  { workflow, trigger }: Pick<GatePolicy, "workflow" | "trigger">,
): string {
  return `${workflow}~${sha256(`${event}\n${trigger}`).slice(0, 24)}`;
}
