/**
 * Parses one phase of a definition with its handlers. Checks over several phases are in parse-definition.ts. The SDK's
 * builder uses these parsers too, before there is a definition.
 */
import { defined } from "../../std/defined.ts";
import { reservedTopic } from "../command/topic-rules.ts";
import {
  DEFAULTS,
  type GivenVersion,
  HANDLER_MODES,
  type HandlerDefinition,
  type PhaseDefinition,
} from "./definition.ts";
import { OPTION_PARSERS } from "./parse-option.ts";
import { Invalid, integer, object, parseName, parseUse, show } from "./parse-primitive.ts";
import { nameOf, noName, pointedAt, whyNoKey } from "./task-name.ts";

/** The canonical phase of `data`; throws `Invalid`. */
export function parsePhase(data: unknown, path: string, version: GivenVersion = 1): PhaseDefinition {
  const fields = object(data, path, ["name", "handlers", "next", "onError", "final", "maxVisits"]);
  const name = parseName(fields["name"], `${path}.name`);
  const at = `phase "${name}"`;
  if (name === "returns")
    throw new Invalid(at, 'the phase name "returns" is reserved', "choose another name");
  const handlers: Record<string, HandlerDefinition> = {};
  const given = fields["handlers"] ?? {};
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new Invalid(`${at}.handlers`, "must be an object of handlers by name");
  for (const [key, value] of Object.entries(given)) {
    parseHandlerName(key, at);
    handlers[key] = parseHandler(value, `${at} handler "${key}"`, version);
  }
  const final = fields["final"];
  if (final !== undefined && final !== true && final !== false && final !== "failed")
    throw new Invalid(`${at}.final`, 'must be true or "failed"');
  const isFinal = final === true || final === "failed";
  if (isFinal && fields["next"] !== undefined)
    throw new Invalid(
      at,
      "is final and has a next",
      "a final phase ends the execution: remove one of the two",
    );
  const maxVisits =
    fields["maxVisits"] === undefined
      ? undefined
      : integer(fields["maxVisits"], `${at}.maxVisits`, 1, 1_000_000);
  return {
    name,
    handlers,
    ...defined({
      next: fields["next"] === undefined ? undefined : next(fields["next"], at),
      onError: fields["onError"] === undefined ? undefined : parseName(fields["onError"], `${at}.onError`),
      final: isFinal ? final : undefined,
      maxVisits: maxVisits === DEFAULTS.maxVisits ? undefined : maxVisits,
    }),
  };
}

/** The name of a handler in the phase `at`; throws `Invalid`. */
export function parseHandlerName(data: unknown, at: string): string {
  const name = parseName(data, `${at} handler name`);
  if (name === "next")
    throw new Invalid(at, 'the handler name "next" is reserved for the decision', "choose another name");
  return name;
}

/** The canonical handler of `data` in the given version; throws `Invalid`. */
export function parseHandler(data: unknown, at: string, version: GivenVersion = 1): HandlerDefinition {
  const fields = object(data, at, [...Object.keys(OPTION_PARSERS), "single"]);
  const modes = HANDLER_MODES.filter((mode) => fields[mode] !== undefined);
  if (modes.length !== 1) {
    throw new Invalid(
      at,
      `has ${modes.length === 0 ? "none" : modes.join(" and ")} of ${HANDLER_MODES.join(" | ")}`,
      "give exactly one",
    );
  }
  const parsed: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const option = OPTION_PARSERS[key]?.(value, `${at}.${key}`);
    if (option !== undefined) parsed[key] = option;
  }
  if (parsed["tasks"] !== undefined && parsed["enumerate"] !== undefined)
    throw new Invalid(at, "has both tasks and enumerate", "give one of them");
  const saysSource = parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined;
  const isSingle = parseSingle(fields["single"], parsed, at);
  if (version === 2 && parsed["use"] !== undefined && !saysSource && !isSingle)
    parsed["enumerate"] = { use: parsed["use"] };
  if (parsed["concurrencyPerKey"] !== undefined && parsed["key"] === undefined)
    throw new Invalid(at, "has concurrencyPerKey but no key", "say what the key of a task is");
  if (
    parsed["script"] !== undefined &&
    parsed["state"] !== undefined &&
    (parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined)
  )
    throw new Invalid(
      at,
      "has a state and several tasks",
      "each task is the state of its own script: remove state",
    );
  if (parsed["workflow"] !== undefined)
    for (const option of ["batch", "concurrencyPerKey"])
      if (parsed[option] !== undefined)
        throw new Invalid(
          `${at}.${option}`,
          "means nothing where tasks are executions of their own",
          "leave it out",
        );
  if (parsed["command"] !== undefined && parsed["topic"] === undefined)
    throw new Invalid(`${at}.topic`, "a command needs a topic", "say where it goes");
  if (parsed["command"] !== undefined && parsed["receiptTopic"] === parsed["topic"])
    throw new Invalid(`${at}.receiptTopic`, "is the topic of the command itself", "choose another name");
  const waits = parsed["sleep"] !== undefined || parsed["waitFor"] !== undefined;
  if (waits && (parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined))
    throw new Invalid(at, "a sleep or a wait has exactly one task", "remove tasks and enumerate");
  return parsed;
}

/** Whether the handler has `single: true`: its one task is the input. The canonical form omits it, as that is the default. */
function parseSingle(
  given: unknown,
  { tasks, enumerate, key, identity }: HandlerDefinition,
  at: string,
): boolean {
  if (given === undefined) return false;
  if (given !== true)
    throw new Invalid(
      `${at}.single`,
      `${show(given)} is not true`,
      "leave it out, and say where the tasks come from by tasks or enumerate",
    );
  const other = tasks !== undefined ? "tasks" : enumerate !== undefined ? "enumerate" : null;
  if (other !== null)
    throw new Invalid(
      at,
      `has both single and ${other}`,
      "give one of them: with single: true its one task is the input",
    );
  for (const [option, naming] of [
    ["key", key],
    ["identity", identity],
  ] as const)
    if (naming === true)
      throw new Invalid(
        `${at}.${option}`,
        "is true, so the code that enumerates would compute it, but with single: true no code enumerates",
        'write a JSON Pointer, such as "/customer", or leave it out',
      );
  return true;
}

/** Refuses options without an effect; throws `Invalid`. */
export function checkMeaning(handler: HandlerDefinition, at: string): void {
  if (handler.command === undefined) {
    for (const option of ["topic", "receiptTopic"] as const)
      if (handler[option] !== undefined)
        throw new Invalid(`${at}.${option}`, "means nothing without a command", "leave it out");
  } else {
    for (const option of ["batch", "version", "schema", "optional", "state", "resume"] as const)
      if (handler[option] !== undefined)
        throw new Invalid(`${at}.${option}`, "means nothing for a command", "leave it out");
    for (const option of ["topic", "receiptTopic"] as const)
      checkReserved(handler[option] ?? "", `${at}.${option}`);
  }
  for (const option of ["key", "identity"] as const)
    for (const [i, task] of (handler.tasks ?? []).entries()) {
      const naming = handler[option];
      const value = typeof naming === "string" ? pointedAt(task, naming) : "";
      const name = nameOf(value);
      if (name === null)
        throw new Invalid(`${at}.tasks[${i}]`, noName(value, option, `"${naming}"`), "name it there");
      const why = option === "key" && typeof naming === "string" ? whyNoKey(name) : null;
      if (why !== null) throw new Invalid(`${at}.tasks[${i}]`, why);
    }
  // With enumerating code, these options apply to the enumeration.
  if (handler.workflow === undefined || handler.enumerate !== undefined) return;
  for (const option of ["heartbeat", "priority"] as const)
    if (handler[option] !== undefined)
      throw new Invalid(
        `${at}.${option}`,
        "means nothing where tasks are executions of their own",
        "give it to the handlers of the child",
      );
}

function checkReserved(topic: string, at: string): void {
  const refusal = reservedTopic(topic);
  if (refusal !== null) throw new Invalid(at, refusal.message, refusal.hint);
}

function next(data: unknown, at: string): NonNullable<PhaseDefinition["next"]> {
  if (typeof data === "string") return data;
  const fields = object(data, `${at}.next`, ["use", "among"]);
  const among = fields["among"];
  if (!Array.isArray(among) || among.length === 0)
    throw new Invalid(
      `${at}.next.among`,
      "a decision names the phases it can choose",
      'give among: ["a", "b"]',
    );
  return {
    use: parseUse(fields["use"], `${at}.next.use`),
    among: among.map((name, i) => parseName(name, `${at}.next.among[${i}]`)),
  };
}
