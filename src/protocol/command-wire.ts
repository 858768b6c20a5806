/** A command in the form in which it is sent on a topic, with the mark that its receipt must repeat. */
import type { Json } from "../std/json.ts";
import { idempotencyKey } from "./idempotency-key.ts";
import type { Grant, GrantItem } from "./work.ts";

/** The mark that matches a receipt with its command: `cmd_metadata.rondo`. */
export interface CommandMark {
  readonly workflow_id: string;
  /** The number of the command within the workflow, from 0. */
  readonly step: number;
  /** The number of the task within its step. */
  readonly task: number;
  /** The id of the command's attempt. */
  readonly attempt: string;
  readonly token: string;
  /** A key that is the same for all attempts of the task. */
  readonly idempotency_key: string;
}

/** Writes the command of an attempt with its mark, as JSON text. */
export function markCommand(
  grant: Grant,
  item: GrantItem,
  { id, token }: { readonly id: string; readonly token: string },
): string {
  const cmd = JSON.parse(item.task ?? "{}") as Record<string, Json>;
  const metadata = (cmd["cmd_metadata"] ?? {}) as Record<string, Json>;
  const mark: CommandMark = {
    workflow_id: grant.execution,
    step: grant.command?.step ?? 0,
    task: item.number,
    attempt: id,
    token,
    idempotency_key: idempotencyKey(grant, item.number),
  };
  return JSON.stringify({ ...cmd, cmd_metadata: { ...metadata, rondo: { ...mark } } });
}
