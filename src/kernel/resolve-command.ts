/** A command as it is sent: with its references resolved. Pure, at dispatch, from committed state. */
import type { Json } from "../std/json.ts";
import type { CommandPlan } from "./command-plan.ts";
import type { Execution } from "./execution.ts";
import { type Found, follow, type Reference, resolveReferences } from "./reference.ts";

/** The command as JSON text, or the error (a JSON text) of a task that refers to what is not there. */
export function resolveCommand(
  execution: Execution,
  command: CommandPlan,
  task: string,
): { readonly text: string } | { readonly error: string } {
  if (command.references.length === 0) return { text: textOf(command) };
  const resolved = resolveReferences(command.cmd.cmd_data, (reference) => find(execution, reference, task));
  if ("value" in resolved) return { text: JSON.stringify({ ...command.cmd, cmd_data: resolved.value }) };
  const error = {
    name: "UnresolvedReference",
    code: "unresolved_reference",
    message: `"\${${resolved.missing.text}}" leads nowhere`,
  };
  return { error: JSON.stringify(error) };
}

function find({ referred, input }: Execution, { from, path, text }: Reference, task: string): Found {
  if (from !== "steps") return follow(JSON.parse(from === "input" ? input : task) as Json, path);
  const value = referred.get(text);
  return value === undefined ? null : { value: JSON.parse(value) as Json };
}

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
