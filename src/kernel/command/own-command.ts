/**
 * The commands of one execution. A definition has either the whole commands, or only what all documents of its shape share
 * (`commands: "input"`). Then the input of the execution has the data and metadata of each command, in the form
 * `{ steps: [{ cmd_data, cmd_metadata }] }`, and `cmd_data` in the definition lists the references that occur in the data.
 */
import { isObject } from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { byteLength, type Json } from "../../std/json.ts";
import { type CommandDefinition, LIMITS } from "../definition/definition.ts";
import type { Plan } from "../definition/plan.ts";
import type { Execution } from "../execution.ts";
import { type CommandPlan, commandHashes, withHashes } from "./command-plan.ts";
import { type Found, follow, type Reference, resolveReferences } from "./reference.ts";

/** A command with its hashes, in the submitted form: references are not resolved. */
export type OwnCommand = Pick<CommandPlan, "cmd" | "hash" | "workflowHash">;

/** The part of a command that is in the input. Absent fields count as `{}`. */
export type GivenCommand = Omit<CommandDefinition, "cmd_type">;

/**
 * The commands of an execution with this input, in the order of their steps. Only submissions start such executions, with an input
 * that was checked. In any other input, what is not a command counts as absent.
 */
export function ownCommands({ definition, commands }: Plan, input: Json): readonly OwnCommand[] {
  if (definition.commands === undefined) return commands.map(({ command }) => command);
  const steps = isObject(input) && Array.isArray(input["steps"]) ? (input["steps"] as readonly Json[]) : [];
  return hashedCommands(
    commands.map(({ command }, i) => ({ ...givenCommand(steps[i]), cmd_type: command.cmd.cmd_type })),
  );
}

function givenCommand(step: Json | undefined): GivenCommand {
  if (!isObject(step)) return {};
  const { cmd_data, cmd_metadata } = step as Record<string, Json>;
  return defined({
    cmd_data,
    cmd_metadata: isObject(cmd_metadata) ? cmd_metadata : undefined,
  });
}

/** Adds the hashes to the commands of a document. */
export function hashedCommands(commands: readonly CommandDefinition[]): readonly OwnCommand[] {
  const { hashes, workflowHash } = commandHashes(commands);
  return commands.map((command, i) => {
    const hash = hashes[i] as string;
    return { cmd: withHashes(command, hash, workflowHash), hash, workflowHash };
  });
}

/** The commands of executions in memory whose commands are in their input. */
const givenTo = new WeakMap<Execution, readonly OwnCommand[]>();

function ownCommand(execution: Execution, command: CommandPlan): OwnCommand {
  const { plan, input } = execution;
  if (plan.definition.commands === undefined) return command;
  let own = givenTo.get(execution);
  if (own === undefined) {
    own = ownCommands(plan, JSON.parse(input) as Json);
    // A document of one command is needed once, when it is sent.
    if (own.length > 1) givenTo.set(execution, own);
  }
  return own[command.step] ?? command;
}

/** Returns the command to send as JSON text, or an error as JSON text if a reference has no value. */
export function resolveCommand(
  execution: Execution,
  command: CommandPlan,
  task: string,
): { readonly text: string } | { readonly error: string } {
  const own = ownCommand(execution, command);
  if (command.references.length === 0)
    return { text: own === command ? textOf(command) : JSON.stringify(own.cmd) };
  // A command can repeat a reference many times, so the total number of inserted bytes is limited.
  let bytes = 0;
  const resolved = resolveReferences(own.cmd.cmd_data, (reference) => {
    const found = bytes > BYTES_MAX ? null : find(execution, reference, task);
    bytes += found === null ? 0 : byteLength(JSON.stringify(found.value));
    return found;
  });
  if (bytes > BYTES_MAX)
    return failed("TooLarge", "too_large", `the references make the command larger than ${BYTES_MAX} bytes`);
  if ("value" in resolved) return { text: JSON.stringify({ ...own.cmd, cmd_data: resolved.value }) };
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

/** The most bytes that the references of one command may insert. */
const BYTES_MAX = LIMITS.inputBytes;
const commandTexts = new WeakMap<CommandPlan, string>();

/** Returns the JSON text of a command without references. It is the same for all executions, so it is made once. */
function textOf(command: CommandPlan): string {
  let text = commandTexts.get(command);
  if (text === undefined) {
    text = JSON.stringify(command.cmd);
    commandTexts.set(command, text);
  }
  return text;
}
