/** A command as it is sent: with its references resolved. Pure, at dispatch, from committed state. */
import { byteLength, type Json } from "../../std/json.ts";
import { LIMITS } from "../definition/definition.ts";
import type { Execution } from "../execution.ts";
import type { CommandPlan } from "./command-plan.ts";
import { type Found, follow, type Reference, resolveReferences } from "./reference.ts";

/** The command as JSON text, or the error (a JSON text) of a task that refers to what is not there. */
export function resolveCommand(
  execution: Execution,
  command: CommandPlan,
  task: string,
): { readonly text: string } | { readonly error: string } {
  if (command.references.length === 0) return { text: textOf(command) };
  // One reference can stand in a command as often as there is room for it.
  let bytes = 0;
  const resolved = resolveReferences(command.cmd.cmd_data, (reference) => {
    const found = bytes > BYTES_MAX ? null : find(execution, reference, task);
    bytes += found === null ? 0 : byteLength(JSON.stringify(found.value));
    return found;
  });
  if (bytes > BYTES_MAX)
    return failed("TooLarge", "too_large", `its references make it larger than ${BYTES_MAX} bytes`);
  if ("value" in resolved) return { text: JSON.stringify({ ...command.cmd, cmd_data: resolved.value }) };
  const { text } = resolved.missing;
  return failed("UnresolvedReference", "unresolved_reference", `"\${${text}}" leads nowhere`);
}

function failed(name: string, code: string, message: string): { readonly error: string } {
  return { error: JSON.stringify({ name, code, message }) };
}

function find({ plan, referred, input }: Execution, reference: Reference, task: string): Found {
  const { from, path, text } = reference;
  if (from !== "steps") return follow(JSON.parse(from === "input" ? input : task) as Json, path);
  const kept = plan.referred.keptFor.get(text);
  const value = kept === undefined ? undefined : referred.get(kept.text);
  if (kept === undefined || value === undefined) return null;
  return follow(JSON.parse(value) as Json, path.slice(kept.path.length));
}

/** What the references of one command may bring into it. */
const BYTES_MAX = LIMITS.inputBytes;
const texts = new WeakMap<CommandPlan, string>();

/** Commands without references are the same for all. */
function textOf(command: CommandPlan): string {
  let text = texts.get(command);
  if (text === undefined) {
    text = JSON.stringify(command.cmd);
    texts.set(command, text);
  }
  return text;
}
