/**
 * Checks that the workflow builder makes at each call. They use the kernel's parsers of definitions, and throw rejections as
 * errors. The whole definition is checked later, because phases may name phases that are declared later.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { uniqueNames } from "../kernel/definition/parse-definition.ts";
import { parseAnswer } from "../kernel/definition/parse-option.ts";
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
import { versionedName } from "../kernel/definition/version-name.ts";
import type { Decode, Fields } from "../std/decode.ts";
import { durationMs } from "../std/duration.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";
import type { HostedWorkflow } from "../worker/handler-code.ts";

/** Throws unless the value is the name of a workflow, phase or signal. */
export const checkName = throwing(parseName);
/** Throws unless the value can be the wire name of a handler. */
export const checkUse = throwing(parseUse);
/** Throws unless the value is a duration. */
export const checkDuration = throwing(durationMs());
/** Throws unless the value is a duration above zero. */
export const checkTimeout = throwing(durationMs(1));
/** Throws unless the value is a JSON Pointer. */
export const checkPointer = throwing(pointer);
/** Throws unless the value can be a phase of a definition. */
export const checkPhase = throwing((data) => parsePhase(data, "phase"));
/** Throws unless the value can be the `returns` of a definition. */
export const checkAnswer = throwing(parseAnswer);
/** Throws if two phases have the same name. */
export const checkUnique = throwing((phases) => uniqueNames(phases as readonly { readonly name: string }[]));
/** Throws unless the value can be the name of a handler in a phase. */
export const checkHandlerName = throwing(parseHandlerName);
/** Throws unless the value can be a handler of a definition. */
export const checkHandler = throwing((data) => checkMeaning(parseHandler(data)));

/** Throws for unknown fields, which are mostly misspelt options. */
export function checkFields(data: unknown, path: string, names: readonly string[]): Fields {
  return unwrap(decodeDefinition(known(names), data, path));
}

/** Throws unless the value can be the id of an execution. An empty id, `.` and `..` would be the path of another route. */
export function checkId(id: unknown): void {
  if (typeof id === "string" && !/^\.{0,2}$/.test(id)) return;
  throw new RondoError(reject("invalid_input", "id: must be the id of an execution", { path: "id" }));
}

/** The error that a builder throws. */
export function invalid(path: string, why: string, hint?: string): RondoError {
  const more = { path, ...(hint === undefined ? {} : { hint }) };
  return new RondoError(reject("invalid_definition", `${path}: ${why}`, more));
}

/** Throws unless the value is a workflow. */
export function checkWorkflow(workflow: unknown): void {
  const { definition, handlers } = (workflow ?? {}) as Partial<HostedWorkflow>;
  if (typeof definition === "object" && definition !== null && Array.isArray(handlers)) return;
  throw new RondoError(
    reject("invalid_input", "this is not a workflow", {
      hint: "make one with workflow({ name }).phase(...)",
    }),
  );
}

/** Returns the reference to a workflow: its name, with its version if it has one. A string is a reference already. */
export function referenceTo(workflow: HostedWorkflow | string): string {
  if (typeof workflow === "string") return workflow;
  const { version } = (workflow?.definition ?? {}) as { readonly version?: string };
  return versionedName(workflow?.name, version);
}

/** Throws unless all values are functions, as middleware is. */
export function checkMiddleware(middleware: unknown): void {
  if (Array.isArray(middleware) && middleware.every((one) => typeof one === "function")) return;
  throw new RondoError(
    reject("invalid_input", "use: a middleware must be a function", {
      path: "use",
      hint: "async (context, next) => next()",
    }),
  );
}

/** Copies a value as JSON. Throws, with the path, if a part of it cannot be stored. */
export function storedCopy(value: unknown, what: string, bytesMax: number = LIMITS.taskBytes): Json {
  return JSON.parse(unwrap(toStoredText(value, { bytesMax, what }))) as Json;
}

/** Turns a decoder of the kernel into a function that throws its rejection as a `RondoError`. */
function throwing<T>(read: Decode<T>): (data: unknown, path?: string) => T {
  return (data, path) => unwrap(decodeDefinition(read, data, path));
}
