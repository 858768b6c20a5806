/**
 * Splits a handler spec into data for the definition, and code that a worker serves under the handler's wire name. User
 * functions are called with their spec as `this`.
 */

import { VERSION_PATTERN } from "../kernel/definition/parse-option.ts";
import {
  identitiesIn,
  nameOf,
  noName,
  pointedAt,
  waitedFor,
  whyNoKey,
} from "../kernel/definition/task-name.ts";
import { SIGNAL_REFUSED } from "../kernel/tasks/checkpoint.ts";
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { ChildWorkflow, HandlerCode, WaitFor } from "../worker/handler-code.ts";
import { checkFields, checkHandler, checkPointer, checkUse, invalid, storedCopy } from "./check.ts";
import type { FirstSignal } from "./context.ts";
import { Fatal } from "./errors.ts";
import type { AnswerOptions, AnySpec, Compensation, EnumerationSpec } from "./handler.ts";
import type { Given, Mode } from "./mode.ts";
import { isStandardSchema, parseWithSchema, type StandardSchema } from "./standard-schema.ts";
import { validateInput } from "./validate-input.ts";

/** A handler of a definition, as data. */
export type HandlerData = { readonly [option: string]: Json };

/** The data and the code of a handler. There is no code if no user function runs. */
export interface CompiledHandler {
  readonly data: HandlerData;
  readonly code?: HandlerCode;
  /** The code that compensates the handler's tasks. */
  readonly compensation?: HandlerCode;
}

/** The place of a handler in its workflow, and the settings that all code of the workflow shares. */
export interface Surroundings {
  /** The place of the handler as errors show it: `phase "a" handler "b"`. */
  readonly at: string;
  /** The wire name of the handler if its spec has no `name`. */
  readonly use: string;
  /** The retry and timeout options of the workflow, for handlers that set none. */
  readonly defaults: AnswerOptions;
  /** The version of the workflow, for handlers without a version of their own; undefined if the workflow has none. */
  readonly version: string | undefined;
  /** Parses the input; present if the workflow's input has a schema. */
  readonly parseInput: HandlerCode["parseInput"];
  /** The schema of the workflow's input; undefined if there is none. */
  readonly inputSchema: StandardSchema | undefined;
}

/** A handler spec of any mode, without its types. */
export type AnyEnumeration = EnumerationSpec<unknown, unknown, unknown> &
  Compensation<unknown, unknown, unknown, unknown>;

/** The options that handlers, `next` and `returns` all have. */
export const ANSWER_OPTIONS = ["retry", "timeout"] as const;

const DATA_BYTES_MAX = 1_048_576;
const OPTIONS = [
  ...ANSWER_OPTIONS,
  "heartbeat",
  "concurrency",
  "concurrencyPerKey",
  "rate",
  "ratePerKey",
  "priority",
  "tolerate",
] as const;
const COMMON = ["enumerate", "tasks", "key", "identity", "after", "compensate", "compensation", ...OPTIONS];
const CODE = ["name", "version", "process", "adds", "batch", "processBatch"];

/** Compiles a handler whose tasks are processed by user code. */
export function compileHandler(spec: AnySpec, around: Surroundings): CompiledHandler {
  const { at } = around;
  checkFields(spec, at, [...CODE, ...COMMON]);
  for (const work of ["process", "processBatch"] as const) {
    if (spec[work] !== undefined && typeof spec[work] !== "function")
      throw invalid(`${at}.${work}`, "must be a function");
  }
  if (spec.process === undefined && spec.processBatch === undefined)
    throw invalid(at, "has no process", "give process, or batch and processBatch");
  if (spec.process !== undefined && spec.processBatch !== undefined)
    throw invalid(at, "has both process and processBatch", "give one of them");
  if ((spec.batch === undefined) !== (spec.processBatch === undefined))
    throw invalid(at, "has only one of batch and processBatch", "give both, or process alone");
  if (spec.adds === true && spec.enumerate === undefined && spec.tasks === undefined)
    throw invalid(
      `${at}.adds`,
      "needs enumerate or tasks, which give the handler its first tasks",
      "give one of them",
    );
  const use = spec.name === undefined ? around.use : checkUse(spec.name, `${at}.name`);
  const { batch, adds } = spec;
  const version = spec.version ?? around.version;
  const range = version === undefined ? undefined : compatibleWith(version, `${at}.version`);
  const mode = { use, version: range, batch, adds };
  const { data, code, ...compiled } = compileEnumeration(spec, mode, { ...around, use });
  const versioned = defined({ version });
  return {
    data,
    code: { ...code, ...versioned, ...work(spec, around) },
    ...defined({ compensation: compiled.compensation && { ...compiled.compensation, ...versioned } }),
  };
}

/** Returns the range of code versions that executions accept: this version, or a later compatible one. */
export function compatibleWith(version: string, at: string): string {
  if (typeof version === "string" && VERSION_PATTERN.test(version) && version.length <= 100)
    return `^${version.split("+")[0]}`;
  throw invalid(at, "is not a version", 'write it as "1.2.0"');
}

/**
 * Compiles a handler whose tasks run without user code, such as a command or a script. Only `enumerate` and `compensate` can be
 * user code.
 */
export function compileBuiltIn(spec: AnyEnumeration, mode: Mode, around: Surroundings): CompiledHandler {
  checkFields(spec, around.at, [...mode.fields, ...COMMON]);
  const { code, ...compiled } = compileEnumeration(spec, mode.read({ ...spec }, around.at), around);
  return code.enumerate === undefined ? compiled : { ...compiled, code };
}

/** Returns the data of a handler: checked by the kernel, then copied without undefined fields. */
export function handlerData(given: Given, at: string): HandlerData {
  checkHandler(given, at);
  // The tasks have been copied before, and each task has its own size limit, so they are not counted again.
  const { tasks, ...others } = given;
  const copy = storedCopy(others, at, DATA_BYTES_MAX) as HandlerData;
  return tasks === undefined ? copy : { ...copy, tasks: tasks as Json };
}

/** Compiles the parts that all modes have: the enumeration, keys and identities of tasks, and the options. */
function compileEnumeration(
  spec: AnyEnumeration,
  mode: Given,
  { at, use, defaults, parseInput }: Surroundings,
): CompiledHandler & { readonly code: HandlerCode } {
  if (spec.enumerate !== undefined && typeof spec.enumerate !== "function")
    throw invalid(`${at}.enumerate`, "must be a function");
  if (spec.tasks !== undefined && !Array.isArray(spec.tasks))
    throw invalid(`${at}.tasks`, "must be a list of tasks");
  const tasks = spec.tasks?.map((task, i) => storedCopy(task, `${at}.tasks[${i}]`));
  const enumerate = enumerator(spec, tasks);
  const isMadeUp = enumerate !== undefined && spec.enumerate === undefined;
  const given = {
    ...mode,
    ...Object.fromEntries(OPTIONS.map((option) => [option, spec[option]])),
    ...withDefaults(spec, defaults),
    key: namingData(spec.key, `${at}.key`),
    identity: namingData(spec.identity, `${at}.identity`),
    after: namingData(spec.after, `${at}.after`),
    enumerate: enumerate === undefined ? undefined : { use },
    tasks: isMadeUp ? undefined : tasks,
    compensate: compensateData(spec, { at, use, defaults, version: mode["version"] }),
  };
  const code = defined({
    enumerate,
    key: spec.key === undefined ? undefined : taskNaming(spec.key, "key"),
    identity: spec.identity === undefined ? undefined : taskNaming(spec.identity, "identity"),
    after: spec.after === undefined ? undefined : taskWaits(spec.after),
    parseInput,
  });
  const compensation = compensating(spec, { use, parseInput });
  return { data: handlerData(given, at), code: { use, ...code }, ...defined({ compensation }) };
}

/**
 * Returns the options of a handler, with the workflow's defaults for those that it does not set. The fields of `retry` are
 * merged one by one.
 */
export function withDefaults(given: AnswerOptions, defaults: AnswerOptions): AnswerOptions {
  const isMerged = typeof given.retry === "object" && given.retry !== null;
  const retry = isMerged ? { ...defaults.retry, ...given.retry } : (given.retry ?? defaults.retry);
  return defined({ retry, timeout: given.timeout ?? defaults.timeout });
}

/** The wire name of the code that compensates the tasks of a handler. */
function compensatingUse(use: string): string {
  return `${use}.compensate`;
}

/** The `compensate` part of a definition; undefined if the handler has no compensation. */
function compensateData(
  spec: AnyEnumeration,
  {
    at,
    use,
    defaults,
    version,
  }: Pick<Surroundings, "at" | "use" | "defaults"> & { readonly version: unknown },
): Given | undefined {
  const { compensation = {} } = spec;
  if (spec.compensate === undefined && Object.keys(compensation).length > 0)
    throw invalid(
      `${at}.compensation`,
      "has options for compensate, but compensate is missing",
      "give compensate, or leave out the options",
    );
  if (spec.compensate === undefined) return undefined;
  if (typeof spec.compensate !== "function") throw invalid(`${at}.compensate`, "must be a function");
  checkFields(compensation, `${at}.compensation`, [...ANSWER_OPTIONS, "concurrency"]);
  return {
    use: checkUse(compensatingUse(use), `${at}.compensate`),
    version,
    ...compensation,
    ...withDefaults(compensation, defaults),
  };
}

/** Wraps the user's `compensate` as code for a worker. */
function compensating(
  spec: AnyEnumeration,
  { use, parseInput }: Pick<Surroundings, "use" | "parseInput">,
): HandlerCode | undefined {
  if (spec.compensate === undefined) return undefined;
  return {
    use: compensatingUse(use),
    taskIsInput: takesInput(spec, parseInput),
    parsingWait,
    checkingInput,
    process: (context) => spec.compensate?.(context as never),
    ...defined({ parseInput }),
  };
}

/** Whether the handler has a single task that is the execution's input, parsed by the workflow's schema. */
function takesInput(spec: AnyEnumeration, parseInput: HandlerCode["parseInput"]): boolean {
  return spec.enumerate === undefined && spec.tasks === undefined && parseInput !== undefined;
}

/** Returns the definition's value of `key`, `identity` or `after`: a JSON Pointer, or true if user code computes it. */
function namingData(
  naming: AnyEnumeration["key"] | AnyEnumeration["after"],
  at: string,
): string | true | undefined {
  if (naming === undefined) return undefined;
  return typeof naming === "function" ? true : checkPointer(naming, at);
}

/**
 * Returns the function that enumerates the tasks. If the spec has no `enumerate` but computes `key`, `identity` or `after` with
 * a function, a default enumeration is made, because only an enumeration calls such functions.
 */
function enumerator(spec: AnyEnumeration, written: readonly Json[] | undefined): HandlerCode["enumerate"] {
  if (spec.enumerate !== undefined) return (context) => spec.enumerate?.(context) as never;
  const isNamedByCode = [spec.key, spec.identity, spec.after].some((naming) => typeof naming === "function");
  return isNamedByCode ? ({ input }) => written ?? [input] : undefined;
}

/**
 * Wraps the user's `process` or `processBatch` as code for a worker. If the task is the execution's input, the worker parses
 * the task with the input's schema.
 */
function work(spec: AnySpec, { parseInput, inputSchema }: Surroundings): Omit<HandlerCode, "use"> {
  const taskIsInput = takesInput(spec, parseInput);
  if (spec.processBatch !== undefined)
    return { taskIsInput, processBatch: (context) => spec.processBatch?.(context) };
  const adds = spec.adds === true ? ({ adds: true } as const) : {};
  return {
    taskIsInput,
    parsingWait,
    checkingInput,
    checkingOwnInput: (input) => validateInput({ inputSchema }, input),
    ...adds,
    // A bound function has no frame of its own in the stacks of user code. So a `process` that is replaced later has no effect.
    ...defined({ process: spec.process?.bind(spec) as HandlerCode["process"] }),
  };
}

/** Wraps `waitFor` so that it parses the signal's payload with the schema that user code passes. */
function parsingWait(wait: WaitFor): WaitFor {
  return async (given, { schema, ...options } = {}) => {
    const name = typeof given === "string" ? given : given.join("|");
    if (schema !== undefined && !isStandardSchema(schema))
      throw new Fatal(`waitFor "${name}": schema is not a Standard Schema`);
    const answer = await wait(given, options);
    if (schema === undefined) return answer;
    const isFirst =
      typeof given !== "string" || (options.signal !== undefined && typeof options.signal !== "string");
    const { name: signal, value } = isFirst ? (answer as FirstSignal<unknown>) : { name, value: answer };
    const parsed = await parseWithSchema(schema, value, `signal "${signal}"`);
    if (!isRejection(parsed)) return isFirst ? { name: signal, value: parsed.value } : parsed.value;
    // The task must not be retried: every attempt of this round would get the same journaled payload. In the next round,
    // `waitFor` waits for another signal.
    throw Object.assign(new Fatal(parsed.message), { code: SIGNAL_REFUSED, path: name });
  };
}

/** Checks the input that user code gives to a child workflow. It is checked only if the workflow is given as an object with a schema. */
function checkingInput(workflow: ChildWorkflow, input: unknown): Promise<string | Rejection> {
  const { inputSchema } = (typeof workflow === "string" ? {} : workflow) as {
    readonly inputSchema?: StandardSchema;
  };
  return validateInput({ inputSchema }, input);
}

/** Returns a function that computes which identities a task waits for, by a JSON Pointer or with user code. */
function taskWaits(after: NonNullable<AnyEnumeration["after"]>): (task: unknown) => readonly string[] {
  const isCode = typeof after === "function";
  return (task) => {
    const names = isCode ? identitiesIn(after(task), "its function") : waitedFor(task, after);
    if ("why" in names) throw new Fatal(names.why);
    return names;
  };
}

type Naming = string | ((task: unknown) => string | number);

/** Returns a function that computes the key or identity of a task, by a JSON Pointer or with user code. `what` names it in errors. */
function taskNaming(naming: Naming, what: string): (task: unknown) => string {
  const read = typeof naming === "function" ? naming : (task: unknown) => pointedAt(task, naming);
  const source = typeof naming === "function" ? "its function" : `"${naming}"`;
  return (task) => {
    const value = read(task);
    const name = nameOf(value);
    if (name === null) throw new Fatal(noName(value, what, source));
    const why = what === "key" ? whyNoKey(name) : null;
    if (why !== null) throw new Fatal(why);
    return name;
  };
}
