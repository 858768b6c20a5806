/**
 * Turns untrusted data into a canonical `Definition`, or into a rejection that says what is wrong, where, and what
 * to do. Everything the kernel takes for granted about a definition is checked here and nowhere else.
 */
import type { Json } from "../std/json.ts";
import type { Rejection } from "../std/rejection.ts";
import {
  type Definition,
  HANDLER_MODES,
  type HandlerDefinition,
  LIMITS,
  type PhaseDefinition,
} from "./definition.ts";
import { OPTION_PARSERS } from "./parse-option.ts";
import { Invalid, integer, object, parseName, parseUse } from "./parse-primitive.ts";
import { DEFAULTS } from "./plan.ts";

/** The canonical definition of `data`, or why it is refused. */
export function parseDefinition(data: unknown): Definition | Rejection {
  try {
    return definition(data);
  } catch (thrown) {
    if (thrown instanceof Invalid) return thrown.rejection;
    throw thrown;
  }
}

function definition(data: unknown): Definition {
  const fields = object(data, "definition", ["rondo", "name", "input", "phases", "returns"]);
  if (fields["rondo"] !== undefined && fields["rondo"] !== 1) {
    throw new Invalid(
      "rondo",
      `version ${JSON.stringify(fields["rondo"])} is not known`,
      "this Rondo reads version 1",
    );
  }
  const name = parseName(fields["name"], "name");
  const list = fields["phases"];
  if (!Array.isArray(list) || list.length === 0) {
    throw new Invalid("phases", "a workflow needs at least one phase", "add one with .phase(name, handler)");
  }
  if (list.length > LIMITS.phases)
    throw new Invalid("phases", `${list.length} phases; at most ${LIMITS.phases} are allowed`);
  const phases = list.map((entry, i) => phase(entry, `phases[${i}]`));
  checkGraph(phases);
  const returns = fields["returns"] === undefined ? undefined : reference(fields["returns"], "returns");
  return { rondo: 1, name, ...defined({ input: fields["input"] as Json | undefined, returns }), phases };
}

function phase(data: unknown, path: string): PhaseDefinition {
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
    parseName(key, `${at} handler name`);
    if (key === "next")
      throw new Invalid(at, 'the handler name "next" is reserved for the decision', "choose another name");
    handlers[key] = handler(value, `${at} handler "${key}"`);
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

function handler(data: unknown, at: string): HandlerDefinition {
  const fields = object(data, at, Object.keys(OPTION_PARSERS));
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
  if (parsed["concurrencyPerKey"] !== undefined && parsed["key"] === undefined)
    throw new Invalid(at, "has concurrencyPerKey but no key", "say what the key of a task is");
  for (const later of ["command", "script", "workflow"]) {
    if (parsed[later] !== undefined)
      throw new Invalid(at, `"${later}" handlers are not available in this version`);
  }
  const waits = parsed["sleep"] !== undefined || parsed["waitFor"] !== undefined;
  if (waits && (parsed["tasks"] !== undefined || parsed["enumerate"] !== undefined))
    throw new Invalid(at, "a sleep or a wait has exactly one task", "remove tasks and enumerate");
  return parsed as HandlerDefinition;
}

/** Targets exist, names are unique, and no repair phase is entered by mere order. */
function checkGraph(phases: readonly PhaseDefinition[]): void {
  const names = new Set<string>();
  for (const { name } of phases) {
    if (names.has(name))
      throw new Invalid(`phase "${name}"`, "is defined twice", "phase names are unique in a workflow");
    names.add(name);
  }
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

function reference(data: unknown, path: string): { use: string } {
  return { use: parseUse(object(data, path, ["use"])["use"], `${path}.use`) };
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
