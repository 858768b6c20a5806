/**
 * Splits a handler spec into data for the definition, and code for the worker under its wire name. User functions keep their
 * spec as `this`.
 */
import { nameOf, noName, pointedAt, whyNoKey } from "../kernel/definition/task-name.ts";
import { SIGNAL_REFUSED } from "../kernel/tasks/checkpoint.ts";
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { HandlerCode, ProcessContext } from "../worker/handler-code.ts";
import { checkFields, checkHandler, checkPointer, checkUse, invalid, storedCopy } from "./check.ts";
import { Fatal } from "./errors.ts";
import type { AnySpec, EnumerationSpec } from "./handler.ts";
import type { Given, Mode } from "./mode.ts";
import { isStandardSchema, parseWithSchema } from "./standard-schema.ts";

/** A handler of a definition, as data. */
export type HandlerData = { readonly [option: string]: Json };

/** Both halves of a handler. There is no code if no user function runs. */
export interface CompiledHandler {
  readonly data: HandlerData;
  readonly code?: HandlerCode;
}

/** The place of a handler, and the parts that all code of its workflow shares. */
export interface Surroundings {
  /** For error texts: `phase "a" handler "b"`. */
  readonly at: string;
  /** The default wire name, unless the handler has its own. */
  readonly use: string;
  /** Parses the input; present if the workflow's input has a schema. */
  readonly parseInput: HandlerCode["parseInput"];
}

/** A spec of any mode, without its types. */
export type AnyEnumeration = EnumerationSpec<unknown, unknown, unknown>;

const DATA_BYTES_MAX = 1_048_576;
const OPTIONS = [
  "retry",
  "timeout",
  "heartbeat",
  "concurrency",
  "concurrencyPerKey",
  "rate",
  "priority",
  "tolerate",
] as const;
const COMMON = ["enumerate", "tasks", "key", "identity", ...OPTIONS];
const CODE = ["name", "version", "process", "batch", "processBatch"];

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
    throw invalid(at, "batch and processBatch go together", "give both, or process alone");
  const use = spec.name === undefined ? around.use : checkUse(spec.name, `${at}.name`);
  const { version, batch } = spec;
  const range = version === undefined ? undefined : compatibleWith(version, `${at}.version`);
  const { data, code } = compileEnumeration(spec, { use, version: range, batch }, { ...around, use });
  return { data, code: { ...code, ...defined({ version }), ...work(spec, around) } };
}

const VERSION = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/;

/** The range of versions that executions ask for: this version of the code, or a later compatible one. */
function compatibleWith(version: string, at: string): string {
  if (typeof version === "string" && VERSION.test(version) && version.length <= 100)
    return `^${version.split("+")[0]}`;
  throw invalid(at, "is not a version", 'write it as "1.2.0"');
}

/** Compiles a handler of another mode, where only `enumerate` can be user code. */
export function compileBuiltIn(spec: AnyEnumeration, mode: Mode, around: Surroundings): CompiledHandler {
  checkFields(spec, around.at, [...mode.fields, ...COMMON]);
  const { data, code } = compileEnumeration(spec, mode.read({ ...spec }, around.at), around);
  return code.enumerate === undefined ? { data } : { data, code };
}

/** The data of a handler: checked by the kernel, then copied without undefined fields. */
export function handlerData(given: Given, at: string): HandlerData {
  checkHandler(given, at);
  // Tasks are copied already, and their size is limited one by one.
  const { tasks, ...others } = given;
  const copy = storedCopy(others, at, DATA_BYTES_MAX) as HandlerData;
  return tasks === undefined ? copy : { ...copy, tasks: tasks as Json };
}

/** Compiles the parts that all modes have: the enumeration, keys and identities of tasks, and the options. */
function compileEnumeration(
  spec: AnyEnumeration,
  mode: Given,
  { at, use, parseInput }: Surroundings,
): Required<CompiledHandler> {
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
    key: namingData(spec.key, `${at}.key`),
    identity: namingData(spec.identity, `${at}.identity`),
    enumerate: enumerate === undefined ? undefined : { use },
    tasks: isMadeUp ? undefined : tasks,
  };
  const code = defined({
    enumerate,
    key: spec.key === undefined ? undefined : taskNaming(spec.key, "key"),
    identity: spec.identity === undefined ? undefined : taskNaming(spec.identity, "identity"),
    parseInput,
  });
  return { data: handlerData(given, at), code: { use, ...code } };
}

/** The data for a key or identity: a JSON Pointer, or true if user code computes it. */
function namingData(naming: AnyEnumeration["key"], at: string): string | true | undefined {
  if (naming === undefined) return undefined;
  return typeof naming === "function" ? true : checkPointer(naming, at);
}

/**
 * The user's enumeration. If a function computes keys or identities and there is no enumeration, one is made, because only
 * enumerating code can call it.
 */
function enumerator(spec: AnyEnumeration, written: readonly Json[] | undefined): HandlerCode["enumerate"] {
  if (spec.enumerate !== undefined) return (context) => spec.enumerate?.(context) as never;
  const isNamedByCode = typeof spec.key === "function" || typeof spec.identity === "function";
  return isNamedByCode ? ({ input }) => written ?? [input] : undefined;
}

/** The user's `process` or `processBatch`. If the task is the input, it is parsed by the schema too. */
function work(spec: AnySpec, { parseInput }: Surroundings): Omit<HandlerCode, "use"> {
  const taskIsInput = spec.enumerate === undefined && spec.tasks === undefined && parseInput !== undefined;
  if (spec.processBatch !== undefined)
    return { taskIsInput, processBatch: (context) => spec.processBatch?.(context) };
  return { taskIsInput, parsingWait, process: (context) => spec.process?.(context as never) };
}

/** A `waitFor` that parses its payload by the schema that user code passes. */
function parsingWait(wait: ProcessContext["waitFor"]): ProcessContext["waitFor"] {
  return async (name, { schema, ...options } = {}) => {
    if (schema !== undefined && !isStandardSchema(schema))
      throw new Fatal(`waitFor "${name}": schema is not a Standard Schema`);
    const payload = await wait(name, options);
    if (schema === undefined) return payload;
    const parsed = await parseWithSchema(schema, payload, `signal "${name}"`);
    if (!isRejection(parsed)) return parsed.value;
    // The journaled payload does not change in this round; the next round waits for another signal.
    throw Object.assign(new Fatal(parsed.message), { code: SIGNAL_REFUSED, path: name });
  };
}

type Naming = string | ((task: unknown) => string | number);

/** The function that computes the key or identity of a task from a JSON Pointer or with user code; `what` is for errors. */
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
