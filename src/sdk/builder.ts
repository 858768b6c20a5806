/**
 * The builder behind `workflow()`. Each call of its chain returns a new workflow with one more part. It checks the arguments,
 * collects the definition as data, and keeps the code of handlers by wire name. The types that users see are in workflow.ts.
 */
import { CLEANUPS, type Definition, LAST } from "../kernel/definition/definition.ts";
import { defined } from "../std/defined.ts";
import type { Duration } from "../std/duration.ts";
import type {
  AnswerContext,
  BaseContext,
  EnumerateContext,
  HandlerCode,
  HostedWorkflow,
  Middleware,
} from "../worker/handler-code.ts";
import {
  checkAnswer,
  checkDuration,
  checkFields,
  checkHandlerName,
  checkMiddleware,
  checkName,
  checkTimeout,
  checkUnique,
  invalid,
  storedCopy,
} from "./check.ts";
import {
  ANSWER_OPTIONS,
  type AnyEnumeration,
  type CompiledHandler,
  compatibleWith,
  compileBuiltIn,
  compileHandler,
  type HandlerData,
  handlerData,
  type Surroundings,
  withDefaults,
} from "./compile-handler.ts";
import { type TriggerData, triggersOf } from "./event.ts";
import { type AnswerOptions, type AnySpec, specOf } from "./handler.ts";
import { COMMAND, childOf, SCRIPT } from "./mode.ts";
import { type AnyPhaseOptions, decideOf, type PhaseData, readHandlers, readPhase } from "./phase.ts";
import { isStandardSchema, jsonSchemaOf, refusalBy, type StandardSchema } from "./standard-schema.ts";
import { parserOf } from "./validate-input.ts";
import type { WorkflowOptions } from "./workflow.ts";

/** A workflow's definition as data, in the shape of a definition file. The definition as a whole has not been checked yet. */
export interface WorkflowData extends Omit<Definition, "phases" | "cleanupTimeout" | "returns" | "on"> {
  readonly on?: readonly TriggerData[];
  readonly phases: readonly PhaseData[];
  readonly returns?: ({ readonly use: string } & AnswerOptions) | typeof LAST;
  readonly cleanupTimeout?: Duration;
}

/** The name of the only phase of a workflow that runs a handler for the items of a `map`. `readMap` reads its results. */
const MAP_PHASE = "items";

type Answer = (context: never) => unknown;

/**
 * Handler code, and the handler object it was compiled from. One object may serve several phases, but two objects must not have
 * the same wire name.
 */
interface Hosted {
  readonly code: HandlerCode;
  readonly source: unknown;
}

interface Parts {
  readonly hosted: readonly Hosted[];
  readonly children: readonly HostedWorkflow[];
  /** The retry and timeout options of all handlers that set none. They are written into each handler of the definition. */
  readonly defaults: AnswerOptions;
  readonly middleware: readonly Middleware[];
}

/** A workflow without user-visible types. */
export class WorkflowBuilder implements HostedWorkflow {
  readonly name: string;
  readonly inputSchema: StandardSchema | undefined;
  /** The definition of the workflow. If no code computes the output and the last phase has one task, that task's result is the output. */
  readonly definition: WorkflowData;
  readonly #data: WorkflowData;
  readonly handlers: readonly HandlerCode[];
  readonly children: readonly HostedWorkflow[];
  readonly #hosted: readonly Hosted[];
  readonly #defaults: AnswerOptions;
  readonly #middleware: readonly Middleware[];
  readonly #parseInput: HandlerCode["parseInput"];

  constructor(
    data: WorkflowData,
    inputSchema: StandardSchema | undefined,
    { hosted, children, defaults, middleware }: Parts,
  ) {
    this.name = data.name;
    this.children = children;
    this.inputSchema = inputSchema;
    this.#data = data;
    this.definition = withOutput(data);
    const phases = Object.fromEntries(data.phases.map(({ name, handlers }) => [name, Object.keys(handlers)]));
    const shared = { phases, ...(middleware.length === 0 ? {} : { middleware }) };
    this.handlers = hosted.map(({ code }) => ({ ...code, ...shared }));
    this.#middleware = middleware;
    this.#hosted = hosted;
    this.#defaults = defaults;
    this.#parseInput = inputSchema === undefined ? undefined : parserOf(inputSchema, "input");
  }

  /** Begins a workflow, which has no phases yet. */
  static begin(options: WorkflowOptions & { readonly input?: StandardSchema }): WorkflowBuilder {
    checkFields(options, "workflow", [
      "name",
      "version",
      "input",
      "unread",
      "signals",
      "children",
      ...CLEANUPS,
      "cleanupTimeout",
      "defaults",
      "use",
      "on",
    ]);
    const { name, version, input, unread, cleanupTimeout, defaults = {}, children = [], use = [] } = options;
    checkMiddleware(use);
    checkName(name, "name");
    if (version !== undefined) compatibleWith(version, "version");
    const named = defined(Object.fromEntries(CLEANUPS.map((field) => [field, options[field]])));
    for (const [field, phase] of Object.entries(named)) checkName(phase, field);
    if (cleanupTimeout !== undefined) checkTimeout(cleanupTimeout, "cleanupTimeout");
    checkFields(defaults, "defaults", ANSWER_OPTIONS);
    checkAnswer({ use: name, ...defaults }, "defaults");
    if (input !== undefined && !isStandardSchema(input))
      throw invalid(
        "input",
        "is not a Standard Schema",
        "give a schema of zod 4, valibot, arktype or the like",
      );
    const schema = input === undefined ? undefined : jsonSchemaOf(input);
    const given = unread === undefined ? undefined : (storedCopy(unread, "unread") as typeof unread);
    const signals = options.signals?.map((one) => (typeof one === "string" ? one : one.name));
    const ends = {
      ...named,
      ...defined({ unread: given, signals, cleanupTimeout, on: triggersOf(options.on) }),
    };
    return new WorkflowBuilder(
      { rondo: 1, name, ...defined({ version, input: schema }), phases: [], ...ends },
      input,
      { hosted: [], children: hostedChildren(children), defaults, middleware: use },
    );
  }

  phase(name: string, given: unknown, options?: AnyPhaseOptions): WorkflowBuilder {
    checkName(name, "phase name");
    const handlers = readHandlers(given, `phase "${name}"`);
    if (handlers.kind === "single")
      return this.#one(name, options, (around) => compileHandler(handlers.spec, around), handlers.spec);
    return this.#add(
      name,
      options,
      handlers.specs.map(([key, spec]) => {
        checkHandlerName(key, `phase "${name}"`);
        return [key, compileHandler(spec, this.#around(name, key, `${name}.${key}`)), spec] as const;
      }),
    );
  }

  sleep(name: string, duration: unknown, options?: AnyPhaseOptions): WorkflowBuilder {
    return this.#one(name, options, ({ at }) => {
      checkDuration(duration, `${at}.sleep`);
      return { data: { sleep: duration as string | number } };
    });
  }

  waitFor(
    name: string,
    wait: Readonly<Record<string, unknown>> = {},
    options?: AnyPhaseOptions,
  ): WorkflowBuilder {
    return this.#one(name, options, ({ at, use }) => {
      checkFields(wait, at, ["signal", "schema", "timeout", "optional"]);
      const { signal = name, schema, timeout, optional } = wait;
      if (schema !== undefined && !isStandardSchema(schema))
        throw invalid(`${at}.schema`, "is not a Standard Schema");
      const json = schema === undefined ? undefined : jsonSchemaOf(schema);
      const data = handlerData({ waitFor: signal, timeout, optional, schema: json }, at);
      if (schema === undefined) return { data };
      return {
        data,
        code: {
          use,
          signal: { name: signal as string, check: (payload) => refusalBy(schema, payload, "signal") },
        },
      };
    });
  }

  command(name: string, spec: AnyEnumeration, options?: AnyPhaseOptions): WorkflowBuilder {
    return this.#one(name, options, (around) => compileBuiltIn(spec, COMMAND, around));
  }

  script(name: string, spec: AnyEnumeration, options?: AnyPhaseOptions): WorkflowBuilder {
    return this.#one(name, options, (around) => compileBuiltIn(spec, SCRIPT, around));
  }

  child(
    name: string,
    workflow: string | { readonly name: string },
    spec: AnyEnumeration = {},
    options?: AnyPhaseOptions,
  ): WorkflowBuilder {
    const child = childOf(typeof workflow === "object" ? workflow?.name : workflow);
    const added = this.#one(name, options, (around) => compileBuiltIn(spec, child, around));
    if (!isHosted(workflow)) return added;
    const parts = {
      hosted: added.#hosted,
      children: [...this.children, workflow],
      defaults: this.#defaults,
      middleware: this.#middleware,
    };
    return new WorkflowBuilder(added.#data, this.inputSchema, parts);
  }

  returns(answer: Answer, options: AnswerOptions = {}): WorkflowBuilder {
    if (this.#data.returns !== undefined) throw invalid("returns", "is given twice", "keep one of them");
    const use = `${this.name}.returns`;
    const code = this.#answering(use, answer, "returns");
    checkFields(options, "returns", ANSWER_OPTIONS);
    const returns = { use, ...this.#range(), ...withDefaults(options, this.#defaults) };
    checkAnswer(returns, "returns");
    return this.#with({ ...this.#data, returns }, [code]);
  }

  /** Adds a phase with one handler of the same name. */
  #one(
    name: string,
    options: AnyPhaseOptions | undefined,
    compile: (around: Surroundings) => CompiledHandler,
    source: unknown = {},
  ): WorkflowBuilder {
    checkName(name, "phase name");
    return this.#add(name, options, [[name, compile(this.#around(name, name, name)), source]]);
  }

  #add(
    name: string,
    options: AnyPhaseOptions = {},
    compiled: readonly (readonly [name: string, handler: CompiledHandler, source: unknown])[],
  ): WorkflowBuilder {
    const use = `${this.name}.${name}.next`;
    const handlers = Object.fromEntries(compiled.map(([key, { data }]) => [key, data]));
    const phases = [
      ...this.#data.phases,
      {
        ...readPhase(name, options, { use, version: this.#range().version, defaults: this.#defaults }),
        handlers,
      },
    ];
    checkUnique(phases);
    const codes = compiled.flatMap(([, { code, compensation }, source]) =>
      [code, compensation].flatMap((one) => (one === undefined ? [] : [{ code: one, source }])),
    );
    const decide = decideOf(options);
    if (decide !== undefined && typeof decide !== "string")
      codes.push(this.#answering(use, decide as Answer, `phase "${name}".next`));
    return this.#with({ ...this.#data, phases }, codes);
  }

  #with(data: WorkflowData, codes: readonly Hosted[]): WorkflowBuilder {
    const parts = {
      hosted: this.#withCode(codes),
      children: this.children,
      defaults: this.#defaults,
      middleware: this.#middleware,
    };
    return new WorkflowBuilder(data, this.inputSchema, parts);
  }

  #around(phase: string, handler: string, use: string): Surroundings {
    const at = `phase "${phase}" handler "${handler}"`;
    const { version } = this.#data;
    return {
      at,
      use: `${this.name}.${use}`,
      defaults: this.#defaults,
      version,
      parseInput: this.#parseInput,
      inputSchema: this.inputSchema,
    };
  }

  /** Returns the range of code versions that executions accept for `next` and `returns`; empty if the workflow has no version. */
  #range(): { readonly version?: string } {
    const { version } = this.#data;
    return version === undefined ? {} : { version: compatibleWith(version, "version") };
  }

  #answering(use: string, answer: Answer, at: string): Hosted {
    if (typeof answer !== "function") throw invalid(at, "must be a function");
    const code = { use, answer: (context: BaseContext) => answer(context as never) };
    const { version } = this.#data;
    return { code: { ...code, ...defined({ version, parseInput: this.#parseInput }) }, source: answer };
  }

  #withCode(codes: readonly Hosted[]): readonly Hosted[] {
    const all = [...this.#hosted];
    for (const added of codes) {
      const known = all.find(({ code }) => code.use === added.code.use);
      if (known === undefined) all.push(added);
      else if (known.source !== added.source)
        throw invalid(`handler "${added.code.use}"`, "is the name of two handlers", "give each its own name");
    }
    return all;
  }
}

/** Adds `returns: "last"` if no code computes the output and a phase that can be the last one has exactly one task. */
function withOutput(data: WorkflowData): WorkflowData {
  const cleanups = CLEANUPS.map((field) => data[field]);
  const inOrder = data.phases.filter(({ name }) => !cleanups.includes(name));
  const mayEnd = (phase: PhaseData): boolean =>
    phase.final === true ||
    (phase === inOrder.at(-1) && phase.final === undefined && phase.next === undefined);
  const hasOutput = inOrder.some((phase) => mayEnd(phase) && hasResult(Object.values(phase.handlers)));
  return data.returns === undefined && hasOutput ? { ...data, returns: LAST } : data;
}

/** Whether a phase has one handler with one task, which has a result. */
function hasResult([handler, ...others]: readonly HandlerData[]): boolean {
  if (handler === undefined || others.length > 0) return false;
  const { tasks, enumerate, sleep } = handler;
  return tasks === undefined && enumerate === undefined && sleep === undefined;
}

/** Checks the workflows and handlers that the code of a workflow uses. */
function hostedChildren(children: unknown): readonly HostedWorkflow[] {
  if (!Array.isArray(children)) throw invalid("children", "must be a list of workflows");
  return children.map((child: unknown, i) => {
    const spec = specOf(child);
    if (spec !== undefined) return workflowOf(spec, `children[${i}]`);
    if (isHosted(child)) return child;
    throw invalid(
      `children[${i}]`,
      "is neither a workflow nor a handler",
      "pass an object that workflow(), flow() or handler() returned",
    );
  });
}

const workflows = new WeakMap<AnySpec, WorkflowBuilder>();

/**
 * Makes an internal workflow that runs a handler for the items of a `map`: each item is a task of its only phase. The handler's
 * code gets the item as `task` and also as `input`.
 */
function workflowOf(spec: AnySpec, at: string): WorkflowBuilder {
  const known = workflows.get(spec);
  if (known !== undefined) return known;
  const { name, ...options } = spec;
  if (name === undefined) throw invalid(at, "is a handler without a name", "give handler({ name, ... })");
  if (spec.enumerate !== undefined || spec.tasks !== undefined)
    throw invalid(
      at,
      "is a handler with tasks of its own, which map cannot use",
      "leave out enumerate and tasks: map gives the items",
    );
  const codes = (["process", "processBatch", "compensate"] as const).filter(
    (code) => spec[code] !== undefined,
  );
  const withInput = codes.map((code) => [
    code,
    (context: { readonly task?: unknown }) =>
      spec[code]?.(Object.defineProperty(context, "input", { value: context.task }) as never),
  ]);
  const made = WorkflowBuilder.begin({ name })
    .phase(MAP_PHASE, {
      ...options,
      ...Object.fromEntries(withInput),
      enumerate: ({ mapItems }: EnumerateContext) => mapItems(),
    })
    .returns(({ phases }: AnswerContext) => {
      const { total = 0, count: done = 0, failed = 0 } = phases[MAP_PHASE] ?? {};
      return { total, done, failed };
    });
  workflows.set(spec, made);
  return made;
}

/** Whether a child is given as a workflow object with its code. If only its name is given, its code runs at other workers. */
function isHosted(workflow: unknown): workflow is HostedWorkflow {
  const { definition, handlers } = (workflow ?? {}) as Partial<HostedWorkflow>;
  return typeof definition === "object" && definition !== null && Array.isArray(handlers);
}
