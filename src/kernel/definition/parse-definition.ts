/**
 * Parses untrusted data into a canonical `Definition`. If that fails, returns a rejection with the place, the reason and a hint. This
 * file, parse-phase.ts and parse-option.ts check everything that the kernel assumes about a definition.
 */
import { at, type Fields, listOf, mapOf, oneOf, optional, show } from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { durationMs } from "../../std/duration.ts";
import type { Json } from "../../std/json.ts";
import type { Rejection } from "../../std/rejection.ts";
import { parseReferences } from "../command/reference.ts";
import { receiptTopicOf } from "../command/topic-rules.ts";
import {
  CLEANUPS,
  DEFAULTS,
  type Definition,
  FROM_INPUT,
  type GivenVersion,
  knownSignals,
  LAST,
  LIMITS,
  type PhaseDefinition,
} from "./definition.ts";
import { composedName } from "./names.ts";
import { parseAnswer, parseVersion } from "./parse-option.ts";
import { checkMeaning, handlerAt, parsePhase, phaseAt } from "./parse-phase.ts";
import { decodeDefinition, known, parseName, wrong } from "./parse-primitive.ts";
import { checkOwnName, parseTriggers } from "./parse-trigger.ts";

/** Parses a definition of version 1 or 2 into its canonical form, or returns a rejection. */
export function parseDefinition(data: unknown): Definition | Rejection {
  return decodeDefinition((given) => {
    const parsed = definition(given, [1, 2]);
    checkOwnName(parsed.name);
    for (const { name, handlers } of parsed.phases)
      for (const [key, handler] of Object.entries(handlers))
        at(phaseAt(name), () => at(handlerAt(key), () => checkMeaning(handler), handler), handler);
    checkTopics(parsed.phases);
    checkSignals(parsed);
    if (parsed.commands !== undefined)
      throw wrong("commands", "is only for submitted documents", "leave it out");
    return parsed;
  }, data);
}

/** Parses a stored definition (version 1), which an earlier version of Rondo may have accepted. */
export function parseStored(data: unknown): Definition | Rejection {
  return decodeDefinition((given) => definition(given, [1]), data);
}

/** The most names of signals in a definition. */
const SIGNALS_MAX = 1_000;

const definitionFields = known([
  "rondo",
  "name",
  "version",
  "input",
  "phases",
  "returns",
  "unread",
  "signals",
  ...CLEANUPS,
  "cleanupTimeout",
  "on",
  "commands",
]);

function definition(data: unknown, known: readonly GivenVersion[]): Definition {
  const fields = at("definition", definitionFields, data);
  const version = givenVersion(fields["rondo"], known);
  const name = at("name", parseName, fields["name"]);
  const own = at("version", optional(parseVersion), fields["version"]);
  const list = fields["phases"];
  if (!Array.isArray(list) || list.length === 0) {
    throw wrong("phases", "a workflow needs at least one phase", "add a phase with .phase(name, handler)");
  }
  if (list.length > LIMITS.phases)
    throw wrong("phases", `${list.length} phases; at most ${LIMITS.phases} are allowed`);
  const phases = list.map((entry, i) => parsePhase(entry, `phases[${i}]`, version));
  const ends = cleanup(fields, phases);
  checkGraph(phases, ends);
  checkReferences(phases);
  const unread = unreadBy(fields["unread"], phases, Object.values(ends));
  const signals = at("signals", optional(signalNames), fields["signals"]);
  const on = at("on", parseTriggers, fields["on"]);
  const commands = at("commands", optional(oneOf([FROM_INPUT] as const)), fields["commands"]);
  const returns = fields["returns"] === LAST ? LAST : at("returns", optional(parseAnswer), fields["returns"]);
  return {
    rondo: 1,
    name,
    ...defined({ version: own, input: fields["input"] as Json | undefined, returns }),
    phases,
    ...defined({ unread, signals }),
    ...ends,
    ...defined({ on, commands }),
  };
}

/** Refuses a trigger whose signal the workflow never waits for. */
function checkSignals(parsed: Definition): void {
  if (parsed.signals === undefined) return;
  const known = knownSignals(parsed);
  for (const [i, { singleton, signal }] of (parsed.on ?? []).entries())
    if (singleton === "signal" && signal !== undefined && !known.has(signal))
      throw wrong(
        `on[${i}].signal`,
        `the workflow never waits for the signal "${signal}"`,
        "add it to signals",
      );
}

const signalNames = listOf(composedName("the name of a signal"), { max: SIGNALS_MAX });

const unreadFields = mapOf(parseName, { key: parseName, max: LIMITS.phases });

/** Decodes the option `unread`: the phases that must read signals before the execution can be done. */
function unreadBy(
  data: unknown,
  phases: readonly PhaseDefinition[],
  ends: readonly unknown[],
): Definition["unread"] {
  const unread = at("unread", optional(unreadFields), data);
  for (const [signal, name] of Object.entries(unread ?? {})) {
    if (!phases.some((phase) => phase.name === name))
      throw wrong(
        `unread.${signal}`,
        `names the phase "${name}", which does not exist`,
        `the phases are: ${phases.map((phase) => phase.name).join(", ")}`,
      );
    if (ends.includes(name))
      throw wrong(
        `unread.${signal}`,
        `names the phase "${name}", which runs only at the end of the execution`,
        "name a phase of the work",
      );
  }
  return unread === undefined || Object.keys(unread).length === 0 ? undefined : unread;
}

type Cleanup = Pick<Definition, (typeof CLEANUPS)[number] | "cleanupTimeout">;

/** Decodes the phases of the clean-up and its time limit. A clean-up phase runs only when the execution ends. */
function cleanup(fields: Fields, phases: readonly PhaseDefinition[]): Cleanup {
  const named: { -readonly [Field in (typeof CLEANUPS)[number]]?: string } = {};
  for (const field of CLEANUPS) {
    const name = at(field, optional(parseName), fields[field]);
    if (name === undefined) continue;
    const phase = phases.find((one) => one.name === name);
    if (phase === undefined)
      throw wrong(
        field,
        `names the phase "${name}", which does not exist`,
        `the phases are: ${phases.map((one) => one.name).join(", ")}`,
      );
    checkCleanup(phase, field);
    named[field] = name;
  }
  const names = Object.values(named);
  const last = named.finally;
  if (last !== undefined && (last === named.onCancel || last === named.onFailure))
    throw wrong(
      "finally",
      `names the phase "${last}", which onCancel or onFailure runs already`,
      "name another phase",
    );
  if (phases.every((phase) => names.includes(phase.name)))
    throw wrong("phases", "every phase is a clean-up phase", "add a phase that does the work");
  for (const phase of phases) checkReached(phase, names);
  const ms = at("cleanupTimeout", optional(durationMs(1)), fields["cleanupTimeout"]);
  if (ms !== undefined && names.length === 0 && !phases.some(isCompensated))
    throw wrong("cleanupTimeout", "can only be used if the workflow has a clean-up", "leave it out");
  return { ...named, ...defined({ cleanupTimeout: ms === DEFAULTS.cleanupTimeoutMs ? undefined : ms }) };
}

function isCompensated({ handlers }: PhaseDefinition): boolean {
  return Object.values(handlers).some(({ compensate }) => compensate !== undefined);
}

/** Refuses options that have no effect in a phase of the clean-up. */
function checkCleanup(phase: PhaseDefinition, field: string): void {
  const path = phaseAt(phase.name);
  for (const option of ["next", "onError", "final"] as const)
    if (phase[option] !== undefined)
      throw wrong(
        path,
        `has ${option}, which has no effect: ${field} runs this phase when the execution ends`,
        `remove ${option}: the clean-up chooses its next phase itself`,
      );
  for (const [name, { compensate }] of Object.entries(phase.handlers))
    if (compensate !== undefined)
      throw wrong(
        `${path}${handlerAt(name)}.compensate`,
        `cannot be used in a phase that ${field} runs: a clean-up is not compensated`,
        "leave it out",
      );
}

/** Refuses a phase of the work that leads into a clean-up phase. */
function checkReached({ name, next, onError }: PhaseDefinition, cleanups: readonly string[]): void {
  const targets = [...(typeof next === "object" ? next.among : [next]), onError];
  const target = targets.find((one) => one !== undefined && cleanups.includes(one));
  if (target !== undefined)
    throw wrong(
      phaseAt(name),
      `leads to the phase "${target}", which runs only at the end of the execution`,
      `name another phase, or remove "${target}" from ${CLEANUPS.join(", ")}`,
    );
}

/** The version of a definition; 1 by default. */
function givenVersion(given: unknown, known: readonly GivenVersion[]): GivenVersion {
  const version = given === undefined ? 1 : known.find((one) => one === given);
  if (version !== undefined) return version;
  const isQuoted = known.some((one) => String(one) === given);
  throw wrong(
    "rondo",
    `version ${show(given)} is not known`,
    isQuoted ? "write it without quotes" : `known versions are: ${known.join(", ")}`,
  );
}

/**
 * Checks the references of commands: each must name the result of a command with one task in an earlier phase, so that the result
 * exists when the command is sent.
 */
function checkReferences(phases: readonly PhaseDefinition[]): void {
  const steps: { phase: number; isSingle: boolean }[] = [];
  for (const [phase, { handlers }] of phases.entries())
    for (const { command, tasks, enumerate } of Object.values(handlers))
      if (command !== undefined)
        steps.push({ phase, isSingle: tasks === undefined && enumerate === undefined });
  for (const [phase, { name, handlers }] of phases.entries())
    for (const [key, { command }] of Object.entries(handlers)) {
      const path = `${phaseAt(name)}${handlerAt(key)}.command.cmd_data`;
      for (const { from, step, text } of parseReferences(command?.cmd_data ?? {}, path)) {
        const target = steps[step];
        if (from !== "steps" || (target !== undefined && target.phase < phase && target.isSingle)) continue;
        const why =
          target === undefined
            ? `there are ${steps.length} commands, counted from 0`
            : target.isSingle
              ? "that command is not in an earlier phase"
              : "that command has several tasks";
        throw wrong(path, `"\${${text}}" refers to a result that is not there: ${why}`);
      }
    }
}

/** Checks that no topic is used both for commands and for receipts. */
function checkTopics(phases: readonly PhaseDefinition[]): void {
  const handlers = phases.flatMap(({ name, handlers: all }) =>
    Object.entries(all).map(([key, handler]) => ({ path: `${phaseAt(name)}${handlerAt(key)}`, ...handler })),
  );
  const receipts = new Map<string, string>();
  for (const { path, command, topic, receiptTopic } of handlers)
    if (command !== undefined && topic !== undefined)
      receipts.set(receiptTopic ?? receiptTopicOf(topic), path);
  for (const { path, command, topic } of handlers) {
    const of = command === undefined || topic === undefined ? undefined : receipts.get(topic);
    if (of === undefined) continue;
    throw wrong(
      `${path}.topic`,
      `"${topic}" is the receipt topic of ${of}, so commands cannot be sent to it`,
      "choose another topic, or give the other command a receiptTopic of its own",
    );
  }
}

/** Checks that the phases named by others exist, that names are unique, and that the default order enters no repair phase. */
function checkGraph(phases: readonly PhaseDefinition[], ends: Cleanup): void {
  const names = uniqueNames(phases);
  const known = [...names].join(", ");
  const check = (target: string, path: string) => {
    if (!names.has(target))
      throw wrong(path, `names the phase "${target}", which does not exist`, `the phases are: ${known}`);
  };
  const repairs = new Map<string, string>();
  for (const phase of phases) {
    const path = phaseAt(phase.name);
    if (typeof phase.next === "string") check(phase.next, `${path}.next`);
    else for (const target of phase.next?.among ?? []) check(target, `${path}.next.among`);
    if (phase.onError !== undefined) {
      check(phase.onError, `${path}.onError`);
      if (phase.onError === phase.name)
        throw wrong(`${path}.onError`, "names the phase itself", "use retry to run tasks again");
      repairs.set(phase.onError, phase.name);
    }
  }
  const inOrder = phases.filter(({ name }) => CLEANUPS.every((field) => ends[field] !== name));
  inOrder.forEach((phase, i) => {
    const by = repairs.get(phase.name);
    if (by === undefined) return;
    const before = inOrder[i - 1];
    if (before === undefined || (before.final === undefined && before.next === undefined)) {
      throw wrong(
        phaseAt(phase.name),
        `repairs "${by}" by onError, but is also reached ${before ? `after "${before.name}"` : "first"} by default order`,
        before ? `make "${before.name}" final, or give it a next` : "move this phase behind a final phase",
      );
    }
  });
}

/** Returns the names of the phases. Throws an error if a name occurs twice. */
export function uniqueNames(phases: readonly { readonly name: string }[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { name } of phases) {
    if (names.has(name))
      throw wrong(phaseAt(name), "is defined twice", "phase names must be unique in a workflow");
    names.add(name);
  }
  return names;
}
