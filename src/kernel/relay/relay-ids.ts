/** Ids of relays and of the executions that they start. This is apart from relay.ts, which browsers load. */
import { contentHash } from "../../std/canonical-json.ts";
import { sha256 } from "../../std/hash.ts";
import type { Json } from "../../std/json.ts";
import { GATE_PREFIX, type GatePolicy, RELAY_DEFINITIONS } from "./relay.ts";

export const GATE_HASH = contentHash(RELAY_DEFINITIONS[1] as unknown as Json);

/** The id of the execution of an event. */
export function eventExecution(project: string, id: string): string {
  return `event~${sha256(`${project}\n${id}`).slice(0, 32)}`;
}

/** The id of the gate of a key. */
export function gateId(trigger: {
  readonly project: string;
  readonly workflow: string;
  readonly event: string;
  readonly key: string;
}): string {
  const { project, workflow, event, key } = trigger;
  return `${GATE_PREFIX}${sha256(`${project}\n${workflow}\n${event}\n${key}`).slice(0, 32)}`;
}

/** The id of the execution that an event starts by a trigger, or of the signal that it sends. */
export function startedBy(
  event: string,
  { workflow, trigger }: Pick<GatePolicy, "workflow" | "trigger">,
): string {
  return `${workflow}~${sha256(`${event}\n${trigger}`).slice(0, 24)}`;
}
