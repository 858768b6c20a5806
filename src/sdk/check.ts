/**
 * What the builder refuses at once: the kernel's parsers of definitions, with their refusals thrown as the errors that
 * users see. A definition as a whole is checked by who runs it, since phases may name others that are declared later.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { uniqueNames } from "../kernel/definition/parse-definition.ts";
import {
  checkMeaning,
  parseHandler,
  parseHandlerName,
  parsePhase,
} from "../kernel/definition/parse-phase.ts";
import {
  duration,
  Invalid,
  object,
  parseName,
  parseUse,
  pointer,
  rejectInvalid,
} from "../kernel/definition/parse-primitive.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";
import type { HostedWorkflow } from "../worker/handler-code.ts";

/** Refuses what is not a name of a workflow, phase or signal. */
export const checkName = throwing(parseName);
/** Refuses what cannot be the wire name of a handler. */
export const checkUse = throwing(parseUse);
/** Refuses what is not a duration. */
export const checkDuration = throwing(duration);
/** Refuses what is not a JSON Pointer. */
export const checkPointer = throwing(pointer);
/** Refuses fields that are not known: most of them are misspelt options. */
export const checkFields = throwing(object);
/** Refuses what cannot be a phase of a definition. */
export const checkPhase = throwing(parsePhase);
/** Refuses a phase that is there already. */
export const checkUnique = throwing(uniqueNames);
/** Refuses what cannot be the name of a handler in a phase. */
export const checkHandlerName = throwing(parseHandlerName);
/** Refuses what cannot be a handler of a definition. */
export const checkHandler = throwing((data: unknown, at: string) => checkMeaning(parseHandler(data, at), at));

/** The error that a builder throws. */
export function invalid(path: string, why: string, hint?: string): RondoError {
  return new RondoError(new Invalid(path, why, hint).rejection);
}

/** Refuses what is not a workflow. */
export function checkWorkflow(workflow: unknown): void {
  const { definition, handlers } = (workflow ?? {}) as Partial<HostedWorkflow>;
  if (typeof definition === "object" && definition !== null && Array.isArray(handlers)) return;
  throw new RondoError(
    reject("invalid_input", "this is not a workflow", {
      hint: "make one with workflow({ name }).phase(...)",
    }),
  );
}

/** A copy of a value as JSON; refuses what cannot be stored, with the path to it. */
export function storedCopy(value: unknown, what: string, bytesMax: number = LIMITS.taskBytes): Json {
  return JSON.parse(unwrap(toStoredText(value, { bytesMax, what }))) as Json;
}

/** A parser of the kernel that throws its refusal as a `RondoError`. */
function throwing<Given extends readonly unknown[], Parsed>(
  parse: (...given: Given) => Parsed,
): (...given: Given) => Parsed {
  return (...given) => unwrap(rejectInvalid(() => parse(...given)));
}
