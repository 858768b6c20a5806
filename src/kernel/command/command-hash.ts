/**
 * The hashes that name commands: of one command, and of a workflow's commands in their order. They are over the form
 * that was submitted, before references are resolved, and leave out what is filled in later. Apart from the commands
 * themselves, since hashing needs Node and browsers read definitions too.
 */
import { contentHash } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import type { CommandDefinition } from "../definition/definition.ts";

/** The `cmd_hash` of a command. */
export function commandHash(command: CommandDefinition): string {
  return contentHash(hashed(command));
}

/** The `workflow_hash` of commands in their order. */
export function commandsHash(commands: readonly CommandDefinition[]): string {
  return contentHash(commands.map(hashed));
}

/** Null is a value of its own; only what is absent counts as `{}`. */
function hashed({ cmd_type, cmd_data = {}, cmd_metadata }: CommandDefinition): Json {
  const { cmd_hash: _, workflow_hash: __, rondo: ___, ...metadata } = cmd_metadata ?? {};
  return { cmd_type, cmd_data, cmd_metadata: metadata };
}
