/** A workflow that is one function: sugar over a workflow of one phase with one task, whose result is the output. */
import type { Json } from "../std/json.ts";
import { WorkflowBuilder } from "./builder.ts";
import { checkFields, invalid } from "./check.ts";
import type { TaskContext } from "./context.ts";
import type { Compensation, HandlerOptions } from "./handler.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./standard-schema.ts";
import type { Stored } from "./stored.ts";
import type { TypedWorkflow, WorkflowOptions } from "./workflow.ts";

/**
 * The context of the function of a flow: steps, sleeps, waits, logs, and the keys of its task. `Given` is the type of the input
 * that callers pass to a start.
 */
export interface FlowContext<Input, Given = Input>
  extends Omit<TaskContext<Input, Input, NoPhases>, "task" | "phases" | "number" | "continueAs"> {
  /**
   * Ends this execution as done and starts its successor (`ID~2`, `ID~3`) with the given input, once. The successor takes over
   * unread signals, tags, project and deadline, and from then on the id means the successor. The promise never settles.
   */
  readonly continueAs: (input: Given) => Promise<never>;
}

type NoPhases = Record<never, never>;

/** The context of `compensate` of a flow. A step in it has the idempotency key of the step of the same name in the flow. */
export type FlowCompensateContext<Input> = Omit<FlowContext<Input>, "continueAs">;

/** Options of a flow. `Given` is the type of the input that callers pass to a start, `Input` the type that the function gets. */
export interface FlowOptions<Schema extends StandardSchema = StandardSchema, Given = unknown, Input = Given>
  extends Pick<HandlerOptions, "retry" | "timeout" | "heartbeat" | "concurrency" | "rate" | "priority">,
    Pick<WorkflowOptions<string, Given>, "cleanupTimeout" | "children" | "use" | "signals" | "on">,
    Pick<Compensation<never, never, never, never>, "compensation"> {
  /**
   * Undoes what the function has done when the execution is cancelled, passes its deadline or fails; a `catch` does not run after a
   * cancel. Any step may have run or not: a step in `compensate` has the idempotency key of the step of the same name in the flow.
   *
   * @default nothing is undone
   * @example
   * compensate: async ({ step }) => {
   *   await step("charge", ({ idempotencyKey }) => bank.void(idempotencyKey));
   *   await step("reserve", ({ idempotencyKey }) => shop.release(idempotencyKey));
   * }
   */
  readonly compensate?: (context: FlowCompensateContext<Input>, input: Input) => unknown;
  /**
   * Checks the input, and gives it its type.
   *
   * @default any JSON, or the type of the function's second parameter
   */
  readonly input?: Schema;
  /**
   * The version of the flow, such as `"1.2.0"`. Executions go on with code of this or a later compatible version, and wait while
   * no worker serves one.
   *
   * @default none: executions go on with the newest code
   */
  readonly version?: string;
}

/** A flow: a workflow whose output is what its function returns. */
export interface Flow<Input, Output> extends TypedWorkflow<Input, Output> {}

/** The name of the only phase of a flow, and of its handler. */
const PHASE = "run";

const OPTIONS = [
  "retry",
  "timeout",
  "heartbeat",
  "concurrency",
  "rate",
  "priority",
  "compensation",
] as const satisfies readonly (keyof FlowOptions)[];

/**
 * Makes a workflow of one function, whose input is described by a schema. The function runs again after a failure, a crash, a
 * sleep and a wait; its journaled steps do not.
 *
 * @throws RondoError with the code `invalid_definition` if the name, the function or an option is wrong
 * @example
 * export const order = flow("order", async ({ step, waitFor }, { sku }) => {
 *   const slot = await step("reserve", { retry: { attempts: 5 } }, () => reserve(sku));
 *   await waitFor("paid", { timeout: "2d" });
 *   return step("ship", () => ship(slot));
 * }, { input: z.object({ sku: z.string() }) });
 */
export function flow<Schema extends StandardSchema, Output>(
  name: string,
  run: (
    context: FlowContext<SchemaOutput<Schema>, SchemaInput<Schema>>,
    input: SchemaOutput<Schema>,
  ) => Output | Promise<Output>,
  options: FlowOptions<Schema, NoInfer<SchemaInput<Schema>>, NoInfer<SchemaOutput<Schema>>> & {
    readonly input: Schema;
  },
): Flow<SchemaInput<Schema>, Stored<Output>>;
/**
 * Makes a workflow of one function that events start. Their data is the input.
 *
 * @throws RondoError with the code `invalid_definition` if the name, the function or an option is wrong
 * @example flow("ship", async ({ step }, input: { order: string }) => step("ship", () => ship(input.order)), { on: on(orderPaid) });
 */
export function flow<Input, Output>(
  name: string,
  run: (context: FlowContext<Stored<Input>, Input>, input: Input) => Output | Promise<Output>,
  options: Omit<FlowOptions<StandardSchema, NoInfer<Input>>, "input"> &
    Pick<Required<FlowOptions<StandardSchema, NoInfer<Input>>>, "on">,
): Flow<Input, Stored<Output>>;
/**
 * Makes a workflow of one function, whose input is described by a type only.
 *
 * @throws RondoError with the code `invalid_definition` if the name, the function or an option is wrong
 * @example
 * export const greet = flow("greet", async ({ sleep }, input: { name: string }) => {
 *   await sleep("a while", "1m");
 *   return `hello ${input.name}`;
 * });
 */
export function flow<Input = Json, Output = unknown>(
  name: string,
  run: (context: FlowContext<Stored<Input>, Input>, input: Input) => Output | Promise<Output>,
  options?: Omit<FlowOptions<StandardSchema, NoInfer<Input>>, "input">,
): Flow<Input, Stored<Output>>;
export function flow(
  name: string,
  run: (context: never, input: never) => unknown,
  options: FlowOptions<StandardSchema, unknown, never> = {},
): unknown {
  if (typeof run !== "function")
    throw invalid(`flow "${name}"`, "has no function", "give flow(name, async (ctx, input) => ...)");
  const { input, version, cleanupTimeout, children, use, signals, on, compensate, ...others } = options;
  checkFields(others, `flow "${name}"`, OPTIONS);
  const begin = {
    name,
    ...(input === undefined ? {} : { input }),
    ...(version === undefined ? {} : { version }),
    ...(cleanupTimeout === undefined ? {} : { cleanupTimeout }),
    ...(children === undefined ? {} : { children }),
    ...(use === undefined ? {} : { use }),
    ...(signals === undefined ? {} : { signals }),
    ...(on === undefined ? {} : { on }),
  };
  return WorkflowBuilder.begin(begin).phase(PHASE, {
    ...others,
    process: (context: FlowContext<never>) => run(context as never, context.input),
    ...(compensate === undefined
      ? {}
      : { compensate: (context: FlowContext<never>) => compensate(context, context.input) }),
  });
}
