/**
 * Parses one phase of a definition with its handlers. Checks across phases are in parse-definition.ts. The SDK's builder uses these
 * parsers too, before a whole definition exists.
 */
import {
  anything,
  at,
  type Fields,
  integer,
  isObject,
  KEPT,
  listOf,
  object,
  optional,
  orElse,
  orNull,
  show,
  where,
} from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { reservedTopic } from "../command/topic-rules.ts";
import {
  DEFAULTS,
  type GivenVersion,
  HANDLER_MODES,
  type HandlerDefinition,
  type PhaseDefinition,
} from "./definition.ts";
import { answerFields, OPTIONS } from "./parse-option.ts";
import { known, parseName, strict, wrong } from "./parse-primitive.ts";
import { nameOf, noName, pointedAt, waitedFor, whyNoKey } from "./task-name.ts";

const phaseName = strict({
  name: parseName,
  handlers: anything,
  next: anything,
  onError: anything,
  final: anything,
  maxVisits: anything,
});

const phaseNames = listOf(parseName);
const decision = strict({
  ...answerFields,
  among: (among) => {
    if (Array.isArray(among) && among.length > 0) return phaseNames(among);
    throw wrong("", "a decision must name the phases that it can choose", 'give among: ["a", "b"]');
  },
});

function parseDecision(data: unknown): Exclude<PhaseDefinition["next"], string | undefined> {
  const { use, among, ...options } = decision(data);
  return { use, among, ...defined(options) };
}

const phaseFields = object(
  {
    name: parseName,
    handlers: orElse(orNull(where<Fields>("an object of handlers by name", isObject)), null),
    final: optional(
      where<boolean | "failed">('true or "failed"', (final) =>
        [true, false, "failed"].includes(final as never),
      ),
    ),
    maxVisits: optional(integer(1, 1_000_000)),
    next: optional((next) => (typeof next === "string" ? next : parseDecision(next))),
    onError: optional(parseName),
  },
  KEPT,
);

/** Decodes `data` at a path as a phase in canonical form. */
export function parsePhase(data: unknown, path: string, version: GivenVersion = 1): PhaseDefinition {
  const { name } = at(path, phaseName, data);
  return at(phaseAt(name), (given) => namedPhase(given, version), data);
}

function namedPhase(data: unknown, version: GivenVersion): PhaseDefinition {
  const { name, handlers: given, final, maxVisits, next, onError } = phaseFields(data);
  if (name === "returns") throw wrong("", 'the phase name "returns" is reserved', "choose another name");
  const handlers: Record<string, HandlerDefinition> = {};
  for (const [key, value] of Object.entries(given ?? {})) {
    parseHandlerName(key);
    handlers[key] = at(handlerAt(key), (handler) => parseHandler(handler, version), value);
  }
  const isFinal = final === true || final === "failed";
  if (isFinal && next !== undefined)
    throw wrong("", "is final and has a next", "a final phase ends the execution: remove one of the two");
  return {
    name,
    handlers,
    ...defined({
      next,
      onError,
      final: isFinal ? final : undefined,
      maxVisits: maxVisits === DEFAULTS.maxVisits ? undefined : maxVisits,
    }),
  };
}

/** Returns the part of an error path that names a phase. */
export function phaseAt(name: string): string {
  return `phase "${name}"`;
}

/** Returns the part of an error path that names a handler, after its phase. */
export function handlerAt(name: string): string {
  return ` handler "${name}"`;
}

/** Decodes the name of a handler in a phase. */
export function parseHandlerName(data: unknown): string {
  const name = at(" handler name", parseName, data);
  if (name === "next")
    throw wrong("", 'the handler name "next" is reserved for the decision', "choose another name");
  return name;
}

const handlerFields = known([...Object.keys(OPTIONS), "single"]);

/** Decodes `data` in the given version as a handler in canonical form. */
export function parseHandler(data: unknown, version: GivenVersion = 1): HandlerDefinition {
  const fields = handlerFields(data);
  const modes = HANDLER_MODES.filter((mode) => fields[mode] !== undefined);
  if (modes.length !== 1) {
    throw wrong(
      "",
      `has ${modes.length === 0 ? "none" : modes.join(" and ")} of ${HANDLER_MODES.join(" | ")}`,
      "give exactly one",
    );
  }
  const parsed: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const read = OPTIONS[key];
    const option = read === undefined ? undefined : at(key, read, value);
    if (option !== undefined) parsed[key] = option;
  }
  if (parsed["tasks"] !== undefined && parsed["enumerate"] !== undefined)
    throw wrong("", "has both tasks and enumerate", "give one of them");
  const saysSource = parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined;
  const isSingle = parseSingle(fields["single"], parsed);
  if (version === 2 && parsed["use"] !== undefined && !saysSource && !isSingle)
    parsed["enumerate"] = { use: parsed["use"] };
  for (const option of ["concurrencyPerKey", "ratePerKey"])
    if (parsed[option] !== undefined && parsed["key"] === undefined)
      throw wrong("", `has ${option} but no key`, "give key, which says how to find the key of a task");
  if (
    parsed["script"] !== undefined &&
    parsed["state"] !== undefined &&
    (parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined)
  )
    throw wrong(
      "",
      "has a state and several tasks",
      "each task is the state of its own script: remove state",
    );
  if (parsed["workflow"] !== undefined)
    for (const option of ["batch", "concurrencyPerKey", "ratePerKey"])
      if (parsed[option] !== undefined)
        throw wrong(
          option,
          "cannot be used where each task is an execution of a child workflow",
          "leave it out",
        );
  if (parsed["command"] !== undefined && parsed["topic"] === undefined)
    throw wrong("topic", "a command needs a topic", "name the topic that the command is sent to");
  if (parsed["command"] !== undefined && parsed["receiptTopic"] === parsed["topic"])
    throw wrong("receiptTopic", "must differ from the topic of the command", "choose another name");
  checkGrowth(parsed);
  const waits = parsed["sleep"] !== undefined || parsed["waitFor"] !== undefined;
  if (waits && (parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined))
    throw wrong("", "a sleep or a wait has exactly one task", "remove tasks and enumerate");
  if (waits && parsed["compensate"] !== undefined)
    throw wrong("compensate", "cannot be used with a sleep or a wait", "leave it out");
  return parsed;
}

/** Checks `adds` and `after`. These options need tasks that the definition lists or code enumerates. */
function checkGrowth(parsed: HandlerDefinition): void {
  const { adds, after, identity, tasks, enumerate, use, batch } = parsed;
  for (const [option, given] of [
    ["adds", adds],
    ["after", after],
  ] as const)
    if (given !== undefined && tasks === undefined && enumerate === undefined)
      throw wrong(
        option,
        "needs enumerate or tasks, which give the handler its first tasks",
        "give one of them",
      );
  if (adds !== undefined && use === undefined)
    throw wrong("adds", "can only be used with code that processes tasks", "leave it out");
  if (adds !== undefined && batch !== undefined)
    throw wrong("adds", "cannot be used together with batch", "process the tasks one by one");
  if (after !== undefined && identity === undefined)
    throw wrong("after", "needs identity, because it names tasks by their identities", "give identity too");
}

/**
 * Whether the handler has `single: true`, so that its only task is the input. The canonical form leaves this out, because it is the
 * default.
 */
function parseSingle(given: unknown, { tasks, enumerate, key, identity }: HandlerDefinition): boolean {
  if (given === undefined) return false;
  if (given !== true)
    throw wrong(
      "single",
      `${show(given)} is not true`,
      "leave single out, and say with tasks or enumerate where the tasks come from",
    );
  const other = tasks !== undefined ? "tasks" : enumerate !== undefined ? "enumerate" : null;
  if (other !== null)
    throw wrong(
      "",
      `has both single and ${other}`,
      "give only one of them: with single: true, the handler's only task is the input",
    );
  for (const [option, naming] of [
    ["key", key],
    ["identity", identity],
  ] as const)
    if (naming === true)
      throw wrong(
        option,
        "is true, which means that the enumerating code computes it; but with single: true, no code enumerates",
        'write a JSON Pointer, such as "/customer", or leave it out',
      );
  return true;
}

/** Refuses options that have no effect in this handler. */
export function checkMeaning(handler: HandlerDefinition): void {
  if (handler.command === undefined) {
    for (const option of ["topic", "receiptTopic"] as const)
      if (handler[option] !== undefined)
        throw wrong(option, "can only be used with a command", "leave it out");
  } else {
    for (const option of ["batch", "version", "schema", "optional", "state", "resume"] as const)
      if (handler[option] !== undefined) throw wrong(option, "cannot be used with a command", "leave it out");
    for (const option of ["topic", "receiptTopic"] as const) checkReserved(handler[option] ?? "", option);
  }
  for (const option of ["key", "identity"] as const)
    for (const [i, task] of (handler.tasks ?? []).entries()) {
      const naming = handler[option];
      const value = typeof naming === "string" ? pointedAt(task, naming) : "";
      const name = nameOf(value);
      if (name === null) throw wrong(`tasks[${i}]`, noName(value, option, `"${naming}"`), "name it there");
      const why = option === "key" && typeof naming === "string" ? whyNoKey(name) : null;
      if (why !== null) throw wrong(`tasks[${i}]`, why);
    }
  for (const [i, task] of (handler.tasks ?? []).entries()) {
    const names = typeof handler.after === "string" ? waitedFor(task, handler.after) : [];
    if ("why" in names) throw wrong(`tasks[${i}]`, names.why, "list identities there");
  }
  // If code enumerates the tasks of a child handler, these options apply to the enumeration, so they are allowed.
  if (handler.workflow === undefined || handler.enumerate !== undefined) return;
  for (const option of ["heartbeat", "priority"] as const)
    if (handler[option] !== undefined)
      throw wrong(
        option,
        "cannot be used where each task is an execution of a child workflow",
        "give this option to the handlers of the child workflow",
      );
}

function checkReserved(topic: string, path: string): void {
  const refusal = reservedTopic(topic);
  if (refusal !== null) throw wrong(path, refusal.message, refusal.hint);
}
