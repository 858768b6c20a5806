/**
 * The chain behind `workflow()`: each call gives a new workflow with one thing more. It knows nothing of the types that
 * users see (workflow.ts); it checks what it is given, collects the definition's data and keeps the code by wire name.
 */
import type { Json } from "../std/json.ts";
import type { BaseContext, HandlerCode, HostedWorkflow } from "../worker/handler-code.ts";
import { checkDuration, checkFields, checkName, checkText, invalid, storedCopy } from "./check.ts";
import {
  type CompiledHandler,
  compileBuiltIn,
  compileHandler,
  type HandlerData,
  type Surroundings,
} from "./compile-handler.ts";
import type { EnumerationSpec } from "./handler.ts";
import { type AnyPhaseOptions, type PhaseData, readHandlers, readPhaseOptions } from "./phase.ts";
import { isStandardSchema, jsonSchemaOf, type StandardSchema } from "./standard-schema.ts";
import { parserOf } from "./validate-input.ts";

/** A workflow's definition as data, in the shape of a definition file; not yet checked as a whole. */
export interface WorkflowData {
  readonly rondo: 1;
  readonly name: string;
  readonly input?: Json;
  readonly phases: readonly PhaseData[];
  readonly returns?: { readonly use: string };
}

type Spec = EnumerationSpec<unknown, unknown, unknown> & Readonly<Record<string, unknown>>;
type Answer = (context: never) => unknown;

/** Code, and the object it was made of: the same handler may serve several phases, two of one name may not. */
interface Hosted {
  readonly code: HandlerCode;
  readonly source: unknown;
}

const DATA_BYTES_MAX = 1_048_576;

/** The untyped workflow. */
export class WorkflowBuilder implements HostedWorkflow {
  readonly name: string;
  readonly inputSchema: StandardSchema | undefined;
  readonly definition: WorkflowData;
  readonly handlers: readonly HandlerCode[];
  readonly #hosted: readonly Hosted[];
  readonly #parseInput: HandlerCode["parseInput"];

  constructor(definition: WorkflowData, inputSchema: StandardSchema | undefined, hosted: readonly Hosted[]) {
    this.name = definition.name;
    this.inputSchema = inputSchema;
    this.definition = definition;
    this.handlers = hosted.map(({ code }) => code);
    this.#hosted = hosted;
    this.#parseInput = inputSchema === undefined ? undefined : parserOf(inputSchema, "input");
  }

  /** The workflow before its first phase. */
  static begin(options: { readonly name: string; readonly input?: StandardSchema }): WorkflowBuilder {
    checkFields(options, "workflow", ["name", "input"]);
    const { name, input } = options;
    checkName(name, "name");
    if (input !== undefined && !isStandardSchema(input))
      throw invalid(
        "input",
        "is not a Standard Schema",
        "give a schema of zod 4, valibot, arktype or the like",
      );
    const schema = input === undefined ? undefined : jsonSchemaOf(input);
    const data = { rondo: 1, name, ...(schema === undefined ? {} : { input: schema }), phases: [] } as const;
    return new WorkflowBuilder(data, input, []);
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
        checkName(key, `phase "${name}" handler name`);
        if (key === "next")
          throw invalid(
            `phase "${name}"`,
            'the handler name "next" is reserved for the decision',
            "choose another name",
          );
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
    return this.#one(name, options, ({ at }) => {
      checkFields(wait, at, ["signal", "schema", "timeout", "optional"]);
      const { signal = name, schema, timeout, optional } = wait;
      checkName(signal, `${at}.waitFor`);
      if (timeout !== undefined) checkDuration(timeout, `${at}.timeout`, 1);
      if (schema !== undefined && !isStandardSchema(schema))
        throw invalid(`${at}.schema`, "is not a Standard Schema");
      const json = schema === undefined ? undefined : jsonSchemaOf(schema);
      const given = { waitFor: signal, timeout, optional, schema: json };
      return { data: copyData(given, at) };
    });
  }

  command(name: string, spec: Spec, options?: AnyPhaseOptions): WorkflowBuilder {
    return this.#one(name, options, (around) => {
      const mode = { fields: ["cmd", "topic", "receiptTopic"], data: {} };
      const compiled = compileBuiltIn(spec, mode, around);
      const at = `${around.at}.command`;
      checkText(spec["topic"], `${around.at}.topic`);
      checkFields(spec["cmd"], at, ["cmd_type", "cmd_data", "cmd_metadata"]);
      checkText((spec["cmd"] as { cmd_type?: unknown }).cmd_type, `${at}.cmd_type`);
      return { ...compiled, data: { command: storedCopy(spec["cmd"], at), ...compiled.data } };
    });
  }

  script(name: string, spec: Spec, options?: AnyPhaseOptions): WorkflowBuilder {
    return this.#one(name, options, (around) => {
      const { runs, state, resume } = spec;
      checkRuns(runs, `${around.at}.runs`);
      const data = copyData({ script: runs, state, resume }, around.at);
      return compileBuiltIn(spec, { fields: ["runs", "state", "resume"], data }, around);
    });
  }

  child(
    name: string,
    workflow: string | { readonly name: string },
    spec: EnumerationSpec<unknown, unknown, unknown> = {},
    options?: AnyPhaseOptions,
  ): WorkflowBuilder {
    return this.#one(name, options, (around) => {
      const child = typeof workflow === "string" ? workflow : workflow.name;
      checkName(child, `${around.at}.workflow`);
      return compileBuiltIn(spec, { fields: [], data: { workflow: child } }, around);
    });
  }

  returns(answer: Answer): WorkflowBuilder {
    if (this.definition.returns !== undefined) throw invalid("returns", "is given twice", "keep one of them");
    const use = `${this.name}.returns`;
    const code = this.#answering(use, answer, "returns");
    return new WorkflowBuilder(
      { ...this.definition, returns: { use } },
      this.inputSchema,
      this.#withCode([code]),
    );
  }

  /** A phase of one handler, named like the phase. */
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
    const at = `phase "${name}"`;
    checkName(name, "phase name");
    if (name === "returns") throw invalid(at, 'the phase name "returns" is reserved', "choose another name");
    if (this.definition.phases.some((phase) => phase.name === name))
      throw invalid(at, "is defined twice", "phase names are unique in a workflow");
    const use = `${this.name}.${name}.next`;
    const phase: PhaseData = {
      name,
      handlers: Object.fromEntries(compiled.map(([key, { data }]) => [key, data])),
      ...readPhaseOptions(options, at, use),
    };
    const codes = compiled.flatMap(([, { code }, source]) => (code === undefined ? [] : [{ code, source }]));
    if (typeof options.next === "function") codes.push(this.#answering(use, options.next, `${at}.next`));
    const definition = { ...this.definition, phases: [...this.definition.phases, phase] };
    return new WorkflowBuilder(definition, this.inputSchema, this.#withCode(codes));
  }

  #around(phase: string, handler: string, use: string): Surroundings {
    const at = `phase "${phase}" handler "${handler}"`;
    return { at, use: `${this.name}.${use}`, parseInput: this.#parseInput };
  }

  #answering(use: string, answer: Answer, at: string): Hosted {
    if (typeof answer !== "function") throw invalid(at, "must be a function");
    const parseInput = this.#parseInput;
    const code = { use, answer: (context: BaseContext) => answer(context as never) };
    return { code: parseInput === undefined ? code : { ...code, parseInput }, source: answer };
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

function checkRuns(runs: unknown, at: string): void {
  if (!Array.isArray(runs) || runs.length === 0) throw invalid(at, "must be a list of at least one run");
  for (const [i, run] of runs.entries()) {
    checkFields(run, `${at}[${i}]`, ["name", "expression", "timeout"]);
    const { name, expression, timeout } = run as Record<string, unknown>;
    checkName(name, `${at}[${i}].name`);
    if (typeof expression !== "string" || expression === "")
      throw invalid(`${at}[${i}].expression`, "must be JavaScript that gives a function");
    if (timeout !== undefined) checkDuration(timeout, `${at}[${i}].timeout`, 1);
  }
}

/** A handler's data with what is undefined left out. */
function copyData(data: Readonly<Record<string, unknown>>, at: string): HandlerData {
  return storedCopy(data, at, DATA_BYTES_MAX) as HandlerData;
}
