/** A command as it goes out on a topic, over whichever transport: with what its receipt has to repeat. */
import type { Json } from "../std/json.ts";

/** What a receipt is told by: `cmd_metadata.rondo`. */
export interface CommandMark {
  readonly workflow_id: string;
  /** Which command of the workflow, counted from 0. */
  readonly step: number;
  /** The attempt's id, as wires have it. */
  readonly attempt: string;
  readonly token: string;
}

/** The command (a JSON text) with its mark, as JSON text. */
export function markCommand(command: string, mark: CommandMark): string {
  const cmd = JSON.parse(command) as Record<string, Json>;
  const metadata = (cmd["cmd_metadata"] ?? {}) as Record<string, Json>;
  return JSON.stringify({ ...cmd, cmd_metadata: { ...metadata, rondo: { ...mark } } });
}
