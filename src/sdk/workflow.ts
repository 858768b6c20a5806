/**
 * A workflow in code: an immutable chain in which every phase sees the typed results of earlier phases. The chain also has the
 * workflow's data and code, ready for a worker.
 */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type { HostedWorkflow, Middleware } from "../worker/handler-code.ts";
import { WorkflowBuilder } from "./builder.ts";
import type { CommandSpec } from "./command.ts";
import type { Context, ContextExtensions } from "./context.ts";
import type { Trigger } from "./event.ts";
import type {
  AnswerOptions,
  AnyHandler,
  Compensation,
  EnumerationSpec,
  Handler,
  HandlerSpec,
  NoItems,
  TaskOf,
} from "./handler.ts";
import type { PhaseOptions } from "./phase.ts";
import type { HandlerReader, MapReader, PhaseReader, WaitReader } from "./reader.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./standard-schema.ts";
import type { Stored } from "./stored.ts";

/**
 * Begins a workflow whose input is described by a schema. Each call of the chain gives a new workflow.
 *
 * @throws RondoError with the code `invalid_definition` if the name or the schema is wrong
 * @example
 * export const nightly = workflow({ name: "nightly", input: z.object({ bucket: z.string() }) })
 *   .phase("copy", { enumerate: ({ input }) => listFiles(input.bucket), process: ({ task }) => copy(task) })
 *   .returns(({ phases }) => ({ copied: phases.copy.count }));
 */
export function workflow<Schema extends StandardSchema, const Cleanup extends string = never>(
  options: WorkflowOptions<Cleanup, NoInfer<SchemaInput<Schema>>> & { readonly input: Schema },
): Workflow<SchemaInput<Schema>, SchemaOutput<Schema>, NoPhases, null, never, Cleanup>;
/**
 * Begins a workflow whose input is described by a type only, or is any JSON.
 *
 * @throws RondoError with the code `invalid_definition` if the name is wrong
 * @example const ping = workflow<{ host: string }>({ name: "ping" }).phase("ping", { process: ({ input }) => ping(input.host) });
 */
export function workflow<Input = Json>(
  options: WorkflowOptions<never, NoInfer<Input>>,
): Workflow<Input, Stored<Input>, NoPhases, null>;
/**
 * Begins a workflow that names phases of its clean-up, and whose input is described by a type only. Its output has a type only
 * with `.returns`, or if the input has a schema.
 *
 * @throws RondoError with the code `invalid_definition` if a name is wrong
 * @example const order = workflow<{ id: string }>({ name: "order", onCancel: "release" });
 */
export function workflow<Input = Json>(
  options: WorkflowOptions<string, NoInfer<Input>>,
): Workflow<Input, Stored<Input>, NoPhases, unknown, OutputGiven>;
export function workflow(options: WorkflowOptions & { readonly input?: StandardSchema }): unknown {
  return WorkflowBuilder.begin(options);
}

/** The name of a workflow, its options, and the phases that run when it ends. Those phases are outside of the default order. */
export interface WorkflowOptions<Cleanup extends string = string, Input = unknown> {
  /** The name of the workflow. */
  readonly name: string;
  /**
   * The version of the workflow, such as `"1.2.0"`. Executions go on with code of this or a later compatible version, and wait
   * while no worker serves such code. This applies to `next`, `returns`, and handlers without a version of their own.
   *
   * @default none: executions go on with the newest code
   */
  readonly version?: string;
  /**
   * The workflows that the code of this workflow runs or starts, and the handlers that it gives to `map`. They are served and
   * registered together with this workflow. Workflows of `.child(...)` are included without being listed.
   *
   * @default []
   */
  readonly children?: readonly (AnyWorkflow | AnyHandler)[];
  /**
   * The events that start executions of the workflow. Their data is the input.
   *
   * @default none
   */
  readonly on?: Trigger<Input> | readonly Trigger<Input>[];
  /**
   * Maps names of signals to phases. If a signal of such a name is kept and no wait has taken it when the execution would end,
   * the execution goes on with that phase instead. So no signal of that name is left over when the execution is done.
   *
   * @default {}
   */
  readonly unread?: Readonly<Record<string, string>>;
  /**
   * All signals that code of the workflow waits for, in addition to those that phases wait for. A signal with any other name is
   * refused, so that a misspelt name is noticed. Without this list, every signal is kept, because code may wait for it.
   *
   * @default any signal
   */
  readonly signals?: readonly (string | { readonly kind: "signal"; readonly name: string })[];
  /**
   * The phase that runs when the execution is cancelled or its deadline has passed, after the compensations of finished tasks.
   *
   * @default none
   */
  readonly onCancel?: Cleanup;
  /**
   * The phase that runs when the execution fails, after the compensations of finished tasks.
   *
   * @default none
   */
  readonly onFailure?: Cleanup;
  /**
   * The phase that runs last, however the execution ends; also after it is done.
   *
   * @default none
   */
  readonly finally?: Cleanup;
  /**
   * The longest time of the clean-up: of compensations, `onCancel`, `onFailure` and `finally` together.
   *
   * @default "1h"
   */
  readonly cleanupTimeout?: Duration;
  /**
   * The default `retry` and `timeout` of all code of the workflow: handlers, compensations, `next` and `returns`. A `retry` of
   * a handler overrides it field by field.
   *
   * @default 3 attempts, 4 crashes, no time limit
   */
  readonly defaults?: AnswerOptions;
  /**
   * Middleware around all code of the workflow, in every worker: enumerations, tasks, compensations, `next`, `returns` and
   * steps. The first in the list is the outermost. Middleware of `rondo.use` is around all of it.
   *
   * @default []
   */
  readonly use?: readonly Middleware<Partial<ContextExtensions>>[];
}

type NoPhases = Record<never, never>;

/** A workflow as data, in the form of a definition file. */
export interface WorkflowDefinition {
  /** The name of the workflow. */
  readonly name: string;
  /** The phases, in their order. */
  readonly phases: readonly {
    readonly name: string;
    readonly handlers: { readonly [name: string]: object };
  }[];
  /** The other fields of a definition. */
  readonly [field: string]: unknown;
}

/** The part of a workflow that a start needs: the types of its input and output. */
export interface TypedWorkflow<Input, Output> extends HostedWorkflow {
  /** Checks the input at start and parses it for handlers. */
  readonly inputSchema?: StandardSchema | undefined;
  /** This member exists only in the type, never at run time. */
  readonly "~types"?: { readonly input: Input; readonly output: Output };
}

/** Any workflow. */
export type AnyWorkflow = TypedWorkflow<unknown, unknown>;

/** The type of a workflow's input. */
export type WorkflowInput<W extends AnyWorkflow> = NonNullable<W["~types"]>["input"];

/** The type of a workflow's output. */
export type WorkflowOutput<W extends AnyWorkflow> = NonNullable<W["~types"]>["output"];

/** Options of a phase that waits for a signal. */
export interface WaitSpec<Schema extends StandardSchema, Optional extends boolean> {
  /**
   * The name of the signal.
   *
   * @default the name of the phase
   */
  readonly signal?: string;
  /**
   * Checks the payload, and gives it its type.
   *
   * @default any JSON
   */
  readonly schema?: Schema;
  /**
   * The longest time to wait.
   *
   * @default no limit
   */
  readonly timeout?: Duration;
  /**
   * Whether the phase goes on with null when the time is over, instead of failing.
   *
   * @default false
   */
  readonly optional?: Optional;
}

/** The runs of a script in a sandbox, in order. Each run gets the state that the previous run returned. */
export interface ScriptSpec<Input, Phases, Item>
  extends EnumerationSpec<Input, Phases, Item>,
    Compensation<TaskOf<Item, Input>, Json, Input, Phases> {
  /** The runs: `expression` is JavaScript that evaluates to a function `(state, ctx) => nextState`. */
  readonly runs: readonly {
    readonly name: string;
    readonly expression: string;
    readonly timeout?: Duration;
  }[];
  /**
   * The state that the first run gets.
   *
   * @default the task
   */
  readonly state?: Json;
  /**
   * Whether a new attempt goes on after the last finished run; `false` begins with the first run again.
   *
   * @default true
   */
  readonly resume?: boolean;
}

type Handlers<Input, Phases> = { readonly [name: string]: Handler<Input, Phases, unknown> };

/** The type in place of the outputs of final phases, once `.returns` has set the output of the workflow. */
export interface OutputGiven {
  /** This member exists only in the type, never at run time. */
  readonly "~given": never;
}

/** The type of a workflow's output after one more phase is added, if no `.returns` sets it. */
type OutputAfter<Output, Ends, Name, Cleanup, Final, Result> = [Ends] extends [never]
  ? OutputOf<Output, Ends, Name, Cleanup, Final, Result>
  : [Ends] extends [OutputGiven]
    ? Output
    : OutputOf<Output, Ends, Name, Cleanup, Final, Result>;

type OutputOf<Output, Ends, Name, Cleanup, Final, Result> = [Name] extends [Cleanup]
  ? Output
  : [Final] extends ["failed"]
    ? Ends
    : Ends | Result;

/** The types of the outputs of all final phases, after one more phase is added. */
type EndsAfter<Ends, Final, Result> = true extends Final
  ? [Ends] extends [never]
    ? Result
    : [Ends] extends [OutputGiven]
      ? Ends
      : Ends | Result
  : Ends;

/** The type of the result of a phase with one handler, if that handler has one task; null otherwise. */
type Single<Item, Result> = [Item] extends [NoItems] ? Stored<Result> : null;

/**
 * A workflow under construction. It is complete at any point after its first phase. `Input` is the type of a start's input,
 * `Seen` its type in handlers, `Phases` the declared phases, `Output` the type of its output. The output is what `.returns`
 * gives, or the result of the last phase if that has one task. `Ends` has the results of final phases, `Cleanup` the names of
 * the phases of the clean-up.
 */
export interface Workflow<Input, Seen, Phases, Output, Ends = never, Cleanup = never>
  extends TypedWorkflow<Input, Output> {
  /** The workflow as data. */
  readonly definition: WorkflowDefinition;
  /** Adds a phase of several handlers, side by side; `{}` is a phase without handlers. */
  phase<Name extends string, Map extends Handlers<Seen, Phases>, Final extends boolean | "failed" = false>(
    name: Name,
    handlers: Map,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, MapReader<Map>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, MapReader<Map>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, null>,
    EndsAfter<Ends, Final, null>,
    Cleanup
  >;
  /** Adds a phase of one handler made by `handler()`. */
  phase<Name extends string, Result, IsSingle extends boolean, Final extends boolean | "failed" = false>(
    name: Name,
    handler: Handler<Seen, Phases & Own<Name>, Result, IsSingle>,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, HandlerReader<Stored<Result>>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<Stored<Result>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, [IsSingle] extends [true] ? Stored<Result> : null>,
    EndsAfter<Ends, Final, [IsSingle] extends [true] ? Stored<Result> : null>,
    Cleanup
  >;
  /** Adds a phase of one handler. */
  phase<Name extends string, Item = NoItems, Result = null, Final extends boolean | "failed" = false>(
    name: Name,
    spec: HandlerSpec<Seen, Phases & Own<Name>, Item, Result>,
    options?: PhaseOptions<
      Seen,
      Phases & PhaseReader<Name, HandlerReader<Stored<Result>, TaskOf<Item, Seen>>>,
      Final
    >,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<Stored<Result>, TaskOf<Item, Seen>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, Single<Item, Result>>,
    EndsAfter<Ends, Final, Single<Item, Result>>,
    Cleanup
  >;

  /** Adds a phase that only waits for this duration. */
  sleep<Name extends string, Final extends boolean | "failed" = false>(
    name: Name,
    duration: Duration,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, HandlerReader<null>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<null>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, null>,
    EndsAfter<Ends, Final, null>,
    Cleanup
  >;

  /** Adds a phase that waits for a signal; its payload is at `phases.<name>.value`. */
  waitFor<
    Name extends string,
    Schema extends StandardSchema = StandardSchema<Json>,
    Optional extends boolean = false,
    Final extends boolean | "failed" = false,
  >(
    name: Name,
    wait?: WaitSpec<Schema, Optional>,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, WaitReader<Waited<Schema, Optional>>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, WaitReader<Waited<Schema, Optional>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, Waited<Schema, Optional>>,
    EndsAfter<Ends, Final, Waited<Schema, Optional>>,
    Cleanup
  >;

  /** Adds a phase that sends a command to a topic. The result of the phase is the result in the command's receipt, after enrichment. */
  command<Name extends string, Item = NoItems, Final extends boolean | "failed" = false>(
    name: Name,
    command: CommandSpec<Seen, Phases, Item>,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, HandlerReader<Json, TaskOf<Item, Seen>>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<Json, TaskOf<Item, Seen>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, Single<Item, Json>>,
    EndsAfter<Ends, Final, Single<Item, Json>>,
    Cleanup
  >;

  /** Adds a phase that runs scripts in a sandbox. */
  script<Name extends string, Item = NoItems, Final extends boolean | "failed" = false>(
    name: Name,
    script: ScriptSpec<Seen, Phases, Item>,
    options?: PhaseOptions<Seen, Phases & PhaseReader<Name, HandlerReader<Json, TaskOf<Item, Seen>>>, Final>,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<Json, TaskOf<Item, Seen>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, Single<Item, Json>>,
    EndsAfter<Ends, Final, Single<Item, Json>>,
    Cleanup
  >;

  /** Adds a phase whose tasks are executions of another workflow. */
  child<
    Name extends string,
    Child extends AnyWorkflow = AnyWorkflow,
    Final extends boolean | "failed" = false,
  >(
    name: Name,
    workflow: Child | string,
    spec?: EnumerationSpec<Seen, Phases, WorkflowInput<Child>> &
      Compensation<WorkflowInput<Child>, WorkflowOutput<Child>, Seen, Phases>,
    options?: PhaseOptions<
      Seen,
      Phases & PhaseReader<Name, HandlerReader<WorkflowOutput<Child>, WorkflowInput<Child>>>,
      Final
    >,
  ): Workflow<
    Input,
    Seen,
    Phases & PhaseReader<Name, HandlerReader<WorkflowOutput<Child>, WorkflowInput<Child>>>,
    OutputAfter<Output, Ends, Name, Cleanup, Final, WorkflowOutput<Child> | null>,
    EndsAfter<Ends, Final, WorkflowOutput<Child> | null>,
    Cleanup
  >;

  /**
   * Sets a function that computes the output of the workflow when its last phase is done. The function runs again after a
   * failure or a crash.
   */
  returns<Result>(
    answer: (context: Context<Seen, Phases>) => Result | Promise<Result>,
    options?: AnswerOptions,
  ): Workflow<Input, Seen, Phases, Stored<Result>, OutputGiven, Cleanup>;
}

/** The reader of a phase in the phase's own code. It reads the results of earlier visits, whose type is any JSON. */
type Own<Name extends string> = PhaseReader<Name, HandlerReader<Json>>;

type Waited<Schema extends StandardSchema, Optional extends boolean> =
  | Stored<SchemaInput<Schema>>
  | (Optional extends true ? null : never);
