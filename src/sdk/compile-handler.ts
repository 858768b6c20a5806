/**
 * Splits a handler as it is written into its two halves: data for the definition, and code for the worker under its
 * wire name. User functions keep their spec as `this`.
 */
import type { Json } from "../std/json.ts";
import type { HandlerCode, ProcessContext } from "../worker/handler-code.ts";
import { checkFields, checkWireName, invalid, OPTION_CHECKS, storedCopy } from "./check.ts";
import type { AnySpec, EnumerationSpec } from "./handler.ts";
import { isStandardSchema } from "./standard-schema.ts";
import { taskNaming } from "./task-name.ts";
import { parserOf } from "./validate-input.ts";

/** A handler of a definition, as data. */
export type HandlerData = { readonly [option: string]: Json };

/** Both halves; there is no code where nothing of the user's runs. */
export interface CompiledHandler {
  readonly data: HandlerData;
  readonly code?: HandlerCode;
}

/** Where a handler stands, and what all code of its workflow shares. */
export interface Surroundings {
  /** For error texts: `phase "a" handler "b"`. */
  readonly at: string;
  /** The wire name, unless the handler brings its own. */
  readonly use: string;
  /** Present if the workflow's input has a schema. */
  readonly parseInput: HandlerCode["parseInput"];
}

type AnyEnumeration = EnumerationSpec<unknown, unknown, unknown>;

const OPTIONS = [
  "retry",
  "timeout",
  "heartbeat",
  "concurrency",
  "concurrencyPerKey",
  "rate",
  "priority",
  "tolerate",
];
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
  if (spec.name !== undefined) checkWireName(spec.name, `${at}.name`);
  const use = spec.name ?? around.use;
  const { data, code } = compileEnumeration(spec, { ...around, use });
  return {
    data: { use, ...data },
    code: {
      ...code,
      use,
      ...(spec.version === undefined ? {} : { version: spec.version }),
      ...(around.parseInput === undefined ? {} : { parseInput: around.parseInput }),
      ...work(spec, around),
    },
  };
}

/** Compiles a handler of another mode (a command, a script, a child), where only `enumerate` can be user code. */
export function compileBuiltIn(
  spec: AnyEnumeration,
  mode: { readonly fields: readonly string[]; readonly data: HandlerData },
  around: Surroundings,
): CompiledHandler {
  checkFields(spec, around.at, [...mode.fields, ...COMMON]);
  const { data, code } = compileEnumeration(spec, around);
  const { parseInput } = around;
  if (code.enumerate === undefined) return { data: { ...mode.data, ...data } };
  return {
    data: { ...mode.data, ...data },
    code: { ...code, use: around.use, ...(parseInput === undefined ? {} : { parseInput }) },
  };
}

/** The options as data, and the code that enumerates and names tasks. */
function compileEnumeration(
  spec: AnyEnumeration,
  { at, use }: Surroundings,
): { data: HandlerData; code: Omit<HandlerCode, "use"> } {
  const data: Record<string, Json> = {};
  for (const [option, value] of Object.entries(spec)) {
    const check = OPTION_CHECKS[option];
    if (check === undefined || value === undefined) continue;
    check(value, `${at}.${option}`);
    data[option] = typeof value === "function" ? true : storedCopy(value, `${at}.${option}`);
  }
  const { key, identity, tasks } = spec;
  if (spec.enumerate !== undefined && typeof spec.enumerate !== "function")
    throw invalid(`${at}.enumerate`, "must be a function");
  if (tasks !== undefined && spec.enumerate !== undefined)
    throw invalid(at, "has both tasks and enumerate", "give one of them");
  if (data["concurrencyPerKey"] !== undefined && key === undefined)
    throw invalid(at, "has concurrencyPerKey but no key", "say what the key of a task is");
  if (tasks !== undefined && !Array.isArray(tasks)) throw invalid(`${at}.tasks`, "must be a list of tasks");
  const written = tasks?.map((task, i) => storedCopy(task, `${at}.tasks[${i}]`));
  const enumerate = enumerator(spec, written);
  if (enumerate !== undefined) data["enumerate"] = { use };
  else if (written !== undefined) data["tasks"] = written;
  return {
    data,
    code: {
      ...(enumerate === undefined ? {} : { enumerate }),
      ...(key === undefined ? {} : { key: taskNaming(key, "key") }),
      ...(identity === undefined ? {} : { identity: taskNaming(identity, "identity") }),
    },
  };
}

/** The user's enumeration, or one made up where a function names tasks: only code that enumerates can call it. */
function enumerator(spec: AnyEnumeration, written: readonly Json[] | undefined): HandlerCode["enumerate"] {
  if (spec.enumerate !== undefined) return (context) => spec.enumerate?.(context) as never;
  const isNamedByCode = typeof spec.key === "function" || typeof spec.identity === "function";
  return isNamedByCode ? ({ input }) => written ?? [input] : undefined;
}

/** The user's `process` or `processBatch`. Where the task is the input, it is the schema's output like the input itself. */
function work(spec: AnySpec, { parseInput }: Surroundings): Pick<HandlerCode, "process" | "processBatch"> {
  const isInput = spec.enumerate === undefined && spec.tasks === undefined && parseInput !== undefined;
  if (spec.processBatch !== undefined) {
    return {
      processBatch: (context) =>
        spec.processBatch?.((isInput ? over(context, { tasks: [context.input] }) : context) as never),
    };
  }
  return {
    process: (context) => {
      const task = isInput ? { task: context.input } : {};
      return spec.process?.(over(context, { ...task, waitFor: parsedWait(context) }) as never);
    },
  };
}

/** `waitFor` with its payload parsed by the schema that user code gives. */
function parsedWait(context: ProcessContext): ProcessContext["waitFor"] {
  return async (name, { schema, ...options } = {}) => {
    const payload = await context.waitFor(name, options);
    return isStandardSchema(schema) ? parserOf(schema, `signal "${name}"`)(payload) : payload;
  };
}

/**
 * The context with some members replaced. A proxy, since the worker's contexts make their members on first use and keep
 * them privately: a copy would make them all, and an heir could not reach them.
 */
function over(context: object, members: Readonly<Record<PropertyKey, unknown>>): unknown {
  return new Proxy(members, {
    get: (own, name) => (Object.hasOwn(own, name) ? own[name] : Reflect.get(context, name)),
    has: (own, name) => Object.hasOwn(own, name) || Reflect.has(context, name),
  });
}
