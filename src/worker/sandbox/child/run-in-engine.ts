/**
 * Does one run of a script in its own QuickJS engine, a fresh WASM instance. Only the state goes from run to run, as JSON text.
 * The engine limits memory, stack and time; the worker kills a sandbox process that gets past these limits.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import engineVariant from "@jitl/quickjs-ng-wasmfile-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from "quickjs-emscripten-core";
import type { ChildLimits } from "./messages.ts";
import { PRELUDE } from "./prelude.ts";

export interface EngineRun {
  readonly name: string;
  readonly expression: string;
  readonly timeoutMs: number;
  /** The state as JSON text; `context` is JSON text, too. */
  readonly state: string;
  readonly context: string;
  readonly limits: ChildLimits;
  /** Called when the engine is ready. From then on, the time of the run is counted. */
  readonly started: () => void;
  readonly log: (level: string, text: string, length: number) => void;
}

export type EngineEnd =
  | {
      readonly kind: "finished";
      readonly state: string;
      readonly durationMs: number;
      readonly memoryBytes: number;
    }
  | {
      readonly kind: "failed";
      readonly name: string;
      readonly message: string;
      readonly line: number | null;
      readonly fatal: boolean;
    }
  | { readonly kind: "killed"; readonly limit: "time" | "memory" }
  /** The run is stuck: its promise is pending, and the engine has no job left that could settle it. */
  | { readonly kind: "stuck" };

const PAGE_BYTES = 65_536;
/** The least memory that the engine needs. A lower limit is raised to this value. */
const LEAST_BYTES = 16 * 1_048_576;
const STACK_BYTES = 256 * 1_024;
const JOBS_AT_ONCE = 1_000;
/** The deepest nesting of a state. The worker checks the depth too (std/json.ts), but this check comes before the JSON text is made. */
const DEPTH_MAX = 100;

// The package's types describe its CommonJS form. Node loads the ES module, whose default export is the variant.
const variant = engineVariant as unknown as QuickJSSyncVariant;

/** The part of the global `WebAssembly` that this file uses. TypeScript declares it only in its browser types. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<object>;
  Memory: new (pages: { initial: number; maximum: number }) => EngineMemory;
};

interface EngineMemory {
  grow(pages: number): number;
}

let compiled: object | null = null;

/** Reads and compiles the QuickJS engine once per process. */
export async function prepareEngine(): Promise<void> {
  const file = fileURLToPath(import.meta.resolve("@jitl/quickjs-ng-wasmfile-release-sync/wasm"));
  compiled ??= await WebAssembly.compile(readFileSync(file));
}

/** Does one run of a script. Throws only if the engine itself broke; the process must not be used after that. */
export async function runInEngine(run: EngineRun): Promise<EngineEnd> {
  const { memory, isExhausted } = newMemory(run.limits.memoryBytes);
  const engine = await newQuickJSWASMModuleFromVariant(
    newVariant(variant, { wasmModule: compiled as object, wasmMemory: memory }),
  );
  run.started();
  const startedAt = performance.now();
  let interrupted = false;
  const runtime = engine.newRuntime({
    memoryLimitBytes: run.limits.memoryBytes,
    maxStackSizeBytes: STACK_BYTES,
    interruptHandler: () => {
      interrupted ||= performance.now() - startedAt > run.timeoutMs;
      return interrupted;
    },
  });
  try {
    const end = evaluate(run, runtime, { isInterrupted: () => interrupted, isExhausted });
    if (interrupted) return { kind: "killed", limit: "time" };
    if (typeof end !== "string") return end;
    const durationMs = Math.round((performance.now() - startedAt) * 1_000) / 1_000;
    return { kind: "finished", state: end, durationMs, memoryBytes: heapBytes(runtime) };
  } catch (thrown) {
    if (interrupted) return { kind: "killed", limit: "time" };
    if (isExhausted()) return { kind: "killed", limit: "memory" };
    // Recursion inside the engine can overflow the stack of this process before it reaches the engine's own limit.
    if (thrown instanceof RangeError) return failed("RangeError", "Maximum call stack size exceeded");
    throw thrown;
  }
}

/** Makes the engine's memory, which cannot grow above the limit. QuickJS's own memory limit would count only a part of it. */
function newMemory(bytesMax: number): { memory: EngineMemory; isExhausted: () => boolean } {
  const memory = new WebAssembly.Memory({
    initial: LEAST_BYTES / PAGE_BYTES,
    maximum: Math.ceil(Math.max(LEAST_BYTES, bytesMax) / PAGE_BYTES),
  });
  const grow = memory.grow.bind(memory);
  let exhausted = false;
  // QuickJS first asks for more memory than it needs, and after a refusal for less. So only the refusal of its last request
  // means that memory is exhausted.
  memory.grow = (pages) => {
    exhausted = true;
    const before = grow(pages);
    exhausted = false;
    return before;
  };
  return { memory, isExhausted: () => exhausted };
}

/** Evaluates the script of a run. Returns the next state as JSON text, or how else the run ended. */
function evaluate(
  run: EngineRun,
  runtime: QuickJSRuntime,
  { isInterrupted, isExhausted }: { isInterrupted: () => boolean; isExhausted: () => boolean },
): string | EngineEnd {
  const vm = runtime.newContext();
  const emit = vm.newFunction("emit", (level, text, length) => {
    run.log(vm.getString(level), vm.getString(text), vm.getNumber(length));
  });
  const prelude = vm.unwrapResult(vm.evalCode(PRELUDE, "<rondo>"));
  const cutAt = vm.newNumber(run.limits.logLineBytes);
  const depthMax = vm.newNumber(DEPTH_MAX);
  const own = vm.unwrapResult(vm.callFunction(prelude, vm.undefined, emit, cutAt, depthMax));
  const [drive, settle, describe] = ["drive", "settle", "describe"].map((key) => vm.getProp(own, key)) as [
    QuickJSHandle,
    QuickJSHandle,
    QuickJSHandle,
  ];
  const threw = (error: QuickJSHandle, fatal = false): EngineEnd => {
    const shown = vm.callFunction(describe, vm.undefined, error, vm.newNumber(run.limits.errorChars));
    // If the engine has no memory left for an error object, it throws null.
    if (isExhausted() && (shown.error !== undefined || vm.eq(error, vm.null)))
      return { kind: "killed", limit: "memory" };
    if (shown.error) return failed("Error", "the script threw something that cannot be shown");
    return asEnd(JSON.parse(vm.getString(shown.value)) as Described, run, fatal);
  };

  const source = sourceOf(vm, run);
  if (typeof source !== "string") return threw(source, true);
  const made = vm.evalCode(source, fileOf(run.name));
  if (made.error) return threw(made.error);
  if (vm.typeof(made.value) !== "function")
    return { ...failed("TypeError", "the expression does not evaluate to a function"), fatal: true };

  const texts = [run.state, run.context].map((text) => vm.newString(text));
  const promise = vm.unwrapResult(vm.callFunction(drive, vm.undefined, made.value, ...texts));
  for (let more = true; more; ) {
    const jobs = runtime.executePendingJobs(JOBS_AT_ONCE);
    if (jobs.error) return threw(jobs.error);
    more = jobs.value > 0 && !isInterrupted();
    const state = vm.getPromiseState(promise);
    if (state.type === "pending") continue;
    if (state.type === "rejected") return threw(state.error);
    return asText(vm, vm.callFunction(settle, vm.undefined, state.value), { run, threw });
  }
  // If memory is exhausted, the engine can lose the job that would have settled the promise.
  return isExhausted() ? { kind: "killed", limit: "memory" } : { kind: "stuck" };
}

/**
 * Returns the source to evaluate. It is put in parentheses if it then parses, because a function declaration is an expression only there.
 */
function sourceOf(vm: QuickJSContext, { name, expression }: EngineRun): string | QuickJSHandle {
  const bracketed = `(${expression}\n)`;
  if (vm.evalCode(bracketed, fileOf(name), { compileOnly: true }).error === undefined) return bracketed;
  return vm.evalCode(expression, fileOf(name), { compileOnly: true }).error ?? expression;
}

function asText(
  vm: QuickJSContext,
  result: ReturnType<QuickJSContext["callFunction"]>,
  { run, threw }: { run: EngineRun; threw: (error: QuickJSHandle) => EngineEnd },
): string | EngineEnd {
  if (result.error) return threw(result.error);
  if (vm.typeof(result.value) !== "string")
    return { ...failed("NotStorable", "the next state is a function or a symbol"), fatal: true };
  const { stateBytesMax } = run.limits;
  // The text is read only if it can be within the limit. Each character takes at least one byte, so its length is checked first.
  const length = vm.getNumber(vm.getProp(result.value, "length"));
  if (length <= stateBytesMax) {
    const text = vm.getString(result.value);
    return text.startsWith("!") ? { ...failed("NotStorable", text.slice(1)), fatal: true } : text;
  }
  const message = `the next state has ${length} characters of JSON; at most ${stateBytesMax} bytes are kept`;
  return { ...failed("NotStorable", message), fatal: true };
}

function asEnd(error: Described, run: EngineRun, fatal: boolean): EngineEnd {
  const { name, message } = error;
  if (name === "InternalError" && message === "out of memory") return { kind: "killed", limit: "memory" };
  const line = errorLine(error, { file: fileOf(run.name), source: run.expression });
  return { kind: "failed", name, message, line, fatal };
}

function failed(name: string, message: string): EngineEnd & { kind: "failed" } {
  return { kind: "failed", name, message, line: null, fatal: false };
}

function fileOf(run: string): string {
  return `${run}.js`;
}

function heapBytes(runtime: QuickJSRuntime): number {
  const usage = runtime.computeMemoryUsage();
  const bytes: unknown = runtime.context?.getNumber(runtime.context.getProp(usage, "memory_used_size"));
  return typeof bytes === "number" ? bytes : 0;
}

interface Described {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Error messages for which QuickJS reports a wrong position. The first group of a pattern is a name in the source. */
const PLACELESS: readonly { readonly says: RegExp; readonly before: string }[] = [
  { says: /^cannot read property '([\w$]+)' of (?:undefined|null)$/, before: "(?:\\.\\s*|\\[\\s*[\"'`])" },
  { says: /^private class field '(#[\w$]+)' does not exist$/, before: "\\.\\s*" },
  { says: /^([\w$]+) is not defined$/, before: "(?<![\\w$.])" },
  { says: /^value is not iterable()$/, before: "" },
  { says: /^Cannot convert undefined or null to object()$/, before: "" },
];

/**
 * Returns the line of the user's expression in which an error arose, counted from 1; null if it is unknown. `file` is the
 * engine's name of the source. When a property or variable is read, QuickJS reports an earlier position; the line is then
 * returned only if exactly one line contains the name.
 */
function errorLine(error: Described, { file, source }: { file: string; source: string }): number | null {
  const place = new RegExp(`(?:^|[( ])${escaped(file)}:(\\d+)(?::(\\d+))?`, "m").exec(error.stack);
  if (place === null) return null;
  const [line, column] = [Number(place[1]), Number(place[2] ?? 1)];
  // Only the top frame of the stack can have a wrong position. A frame below a native function is the place of its call, which is right.
  const isTop = !error.stack.slice(0, place.index).includes("\n");
  const placeless = isTop ? PLACELESS.find(({ says }) => says.test(error.message)) : undefined;
  if (placeless === undefined) return line;
  const name = placeless.says.exec(error.message)?.[1] ?? "";
  if (name === "") return null;
  const uses = linesOf(new RegExp(`${placeless.before}${escaped(name)}(?![\\w$])`, "g"), source);
  const after = uses.filter((use) => use.line > line || (use.line === line && use.column >= column - 1));
  const lines = new Set((after.length > 0 ? after : uses).map((use) => use.line));
  return lines.size === 1 ? ([...lines][0] as number) : null;
}

/** Returns the lines and columns in which the matches of a pattern end. */
function linesOf(pattern: RegExp, source: string): { line: number; column: number }[] {
  return Array.from(source.matchAll(pattern), (match) => {
    const before = source.slice(0, match.index + match[0].length).split(/\r\n|[\r\n\u2028\u2029]/);
    return { line: before.length, column: (before.at(-1) as string).length };
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[^\w]/g, "\\$&");
}
