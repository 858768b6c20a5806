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
  decodeDefinition,
  known,
  parseName,
  parseUse,
  pointer,
} from "../kernel/definition/parse-primitive.ts";
import type { Decode, Fields } from "../std/decode.ts";
import { durationMs } from "../std/duration.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";
import type { HostedWorkflow } from "../worker/handler-code.ts";

/** Refuses what is not a name of a workflow, phase or signal. */
export const checkName = throwing(parseName);
/** Refuses what cannot be the wire name of a handler. */
export const checkUse = throwing(parseUse);
/** Refuses what is not a duration. */
export const checkDuration = throwing(durationMs());
/** Refuses what is not a duration above zero. */
export const checkTimeout = throwing(durationMs(1));
/** Refuses what is not a JSON Pointer. */
export const checkPointer = throwing(pointer);
/** Refuses what cannot be a phase of a definition. */
export const checkPhase = throwing((data) => parsePhase(data, "phase"));
/** Refuses a phase that is there already. */
export const checkUnique = throwing((phases) => uniqueNames(phases as readonly { readonly name: string }[]));
/** Refuses what cannot be the name of a handler in a phase. */
export const checkHandlerName = throwing(parseHandlerName);
/** Refuses what cannot be a handler of a definition. */
export const checkHandler = throwing((data) => checkMeaning(parseHandler(data)));

/** Refuses fields that are not known: most of them are misspelt options. */
export function checkFields(data: unknown, path: string, names: readonly string[]): Fields {
  return unwrap(decodeDefinition(known(names), data, path));
}

/** The error that a builder throws. */
export function invalid(path: string, why: string, hint?: string): RondoError {
  const more = { path, ...(hint === undefined ? {} : { hint }) };
  return new RondoError(reject("invalid_definition", `${path}: ${why}`, more));
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

/** A decoder of the kernel that throws its rejection as a `RondoError`. */
function throwing<T>(read: Decode<T>): (data: unknown, path?: string) => T {
  return (data, path) => unwrap(decodeDefinition(read, data, path));
}
