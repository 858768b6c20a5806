/**
 * Parses untrusted data into a canonical `Definition`, or a rejection with the place, the reason and a hint. This file,
 * parse-phase.ts and parse-option.ts check everything that the kernel assumes about a definition.
 */
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import type { Rejection } from "../../std/rejection.ts";
import { parseReferences } from "../command/reference.ts";
import { receiptTopicOf } from "../command/topic-rules.ts";
import { type Definition, type GivenVersion, LIMITS, type PhaseDefinition } from "./definition.ts";
import { checkMeaning, parsePhase } from "./parse-phase.ts";
import { Invalid, object, parseName, reference, rejectInvalid, show } from "./parse-primitive.ts";

/** The canonical definition of `data` in version 1 or 2, or a rejection. */
export function parseDefinition(data: unknown): Definition | Rejection {
  return rejectInvalid(() => {
    const parsed = definition(data, [1, 2]);
    for (const { name, handlers } of parsed.phases)
      for (const [key, handler] of Object.entries(handlers))
        checkMeaning(handler, `phase "${name}" handler "${key}"`);
    checkTopics(parsed.phases);
    return parsed;
  });
}

/** Parses a stored definition (version 1), which an earlier Rondo may have accepted. */
export function parseStored(data: unknown): Definition | Rejection {
  return rejectInvalid(() => definition(data, [1]));
}

function definition(data: unknown, known: readonly GivenVersion[]): Definition {
  const fields = object(data, "definition", ["rondo", "name", "input", "phases", "returns"]);
  const version = givenVersion(fields["rondo"], known);
  const name = parseName(fields["name"], "name");
  const list = fields["phases"];
  if (!Array.isArray(list) || list.length === 0) {
    throw new Invalid("phases", "a workflow needs at least one phase", "add one with .phase(name, handler)");
  }
  if (list.length > LIMITS.phases)
    throw new Invalid("phases", `${list.length} phases; at most ${LIMITS.phases} are allowed`);
  const phases = list.map((entry, i) => parsePhase(entry, `phases[${i}]`, version));
  checkGraph(phases);
  checkReferences(phases);
  const returns = fields["returns"] === undefined ? undefined : reference(fields["returns"], "returns");
  return { rondo: 1, name, ...defined({ input: fields["input"] as Json | undefined, returns }), phases };
}

/** The version of a definition; 1 by default. */
function givenVersion(given: unknown, known: readonly GivenVersion[]): GivenVersion {
  const version = given === undefined ? 1 : known.find((one) => one === given);
  if (version !== undefined) return version;
  const isQuoted = known.some((one) => String(one) === given);
  throw new Invalid(
    "rondo",
    `version ${show(given)} is not known`,
    isQuoted ? "write it without quotes" : `known versions are: ${known.join(", ")}`,
  );
}

/** Checks that a command refers only to results of single commands in earlier phases, which exist when it is sent. */
function checkReferences(phases: readonly PhaseDefinition[]): void {
  const steps: { phase: number; isSingle: boolean }[] = [];
  for (const [phase, { handlers }] of phases.entries())
    for (const { command, tasks, enumerate } of Object.values(handlers))
      if (command !== undefined)
        steps.push({ phase, isSingle: tasks === undefined && enumerate === undefined });
  for (const [phase, { name, handlers }] of phases.entries())
    for (const [key, { command }] of Object.entries(handlers)) {
      const at = `phase "${name}" handler "${key}".command.cmd_data`;
      for (const { from, step, text } of parseReferences(command?.cmd_data ?? {}, at)) {
        const target = steps[step];
        if (from !== "steps" || (target !== undefined && target.phase < phase && target.isSingle)) continue;
        const why =
          target === undefined
            ? `there are ${steps.length} commands, counted from 0`
            : target.isSingle
              ? "that command is not in an earlier phase"
              : "that command has several tasks";
        throw new Invalid(at, `"\${${text}}" refers to a result that is not there: ${why}`);
      }
    }
}

/** Checks that no topic is used both for commands and for receipts. */
function checkTopics(phases: readonly PhaseDefinition[]): void {
  const handlers = phases.flatMap(({ name, handlers: all }) =>
    Object.entries(all).map(([key, handler]) => ({ at: `phase "${name}" handler "${key}"`, ...handler })),
  );
  const receipts = new Map<string, string>();
  for (const { at, command, topic, receiptTopic } of handlers)
    if (command !== undefined && topic !== undefined) receipts.set(receiptTopic ?? receiptTopicOf(topic), at);
  for (const { at, command, topic } of handlers) {
    const of = command === undefined || topic === undefined ? undefined : receipts.get(topic);
    if (of === undefined) continue;
    throw new Invalid(
      `${at}.topic`,
      `"${topic}" is where the receipts of ${of} come back, so no command can go there`,
      "choose another topic, or give the other command a receiptTopic of its own",
    );
  }
}

/** Checks that targets exist, names are unique, and no repair phase is entered by default order. */
function checkGraph(phases: readonly PhaseDefinition[]): void {
  const names = uniqueNames(phases);
  const known = [...names].join(", ");
  const check = (target: string, at: string) => {
    if (!names.has(target))
      throw new Invalid(at, `names the phase "${target}", which does not exist`, `the phases are: ${known}`);
  };
  const repairs = new Map<string, string>();
  for (const phase of phases) {
    const at = `phase "${phase.name}"`;
    if (typeof phase.next === "string") check(phase.next, `${at}.next`);
    else for (const target of phase.next?.among ?? []) check(target, `${at}.next.among`);
    if (phase.onError !== undefined) {
      check(phase.onError, `${at}.onError`);
      if (phase.onError === phase.name)
        throw new Invalid(`${at}.onError`, "names the phase itself", "use retry to run tasks again");
      repairs.set(phase.onError, phase.name);
    }
  }
  phases.forEach((phase, i) => {
    const by = repairs.get(phase.name);
    if (by === undefined) return;
    const before = phases[i - 1];
    if (before === undefined || (before.final === undefined && before.next === undefined)) {
      throw new Invalid(
        `phase "${phase.name}"`,
        `repairs "${by}" by onError, but is also reached ${before ? `after "${before.name}"` : "first"} by default order`,
        before ? `make "${before.name}" final, or give it a next` : "move it behind a final phase",
      );
    }
  });
}

/** The names of phases; throws `Invalid` for a duplicate. */
export function uniqueNames(phases: readonly { readonly name: string }[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { name } of phases) {
    if (names.has(name))
      throw new Invalid(`phase "${name}"`, "is defined twice", "phase names are unique in a workflow");
    names.add(name);
  }
  return names;
}
