/** The tools of the MCP server: one for each workflow, and those that list, start, watch, signal, update and cancel executions. */
import type { ExecutionView } from "../kernel/view.ts";
import type { ApiPort } from "../sdk/operations-over.ts";
import { isObject } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { RPC_CODE, RpcError } from "./json-rpc.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A tool as `tools/list` shows it. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly annotations: object;
  readonly execution?: { readonly taskSupport: "optional" };
}

/** The result of a tool. */
export interface ToolResult {
  readonly content: readonly { readonly type: "text"; readonly text: string }[];
  readonly structuredContent?: Fields;
  readonly isError?: true;
}

/** The prefix of the tools that are not workflows. A workflow with the name of such a tool is not listed. */
const PREFIX = "rondo_";
/** How long a call waits for the end of an execution before it answers that the execution still runs. */
const WAIT_S = 45;
/** The field of a tool's arguments that has the input of a workflow whose input is not an object. */
const WRAPPED = "input";

const id = { type: "string", description: "the id of the execution" };
const seconds = { type: "integer", minimum: 1, maximum: WAIT_S };
const READS = { readOnlyHint: true };
const CHANGES = { readOnlyHint: false, destructiveHint: false };

interface Operation extends Omit<Tool, "name" | "title"> {
  readonly title: string;
  readonly run: (api: ApiPort, given: Fields) => Promise<ToolResult>;
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  list: {
    title: "List executions",
    description: "Lists executions, the newest first. Every filter can be left out.",
    annotations: READS,
    inputSchema: schema({
      workflow: { type: "string" },
      status: {
        type: "string",
        description:
          "one or more of running, paused, cancelling, cleaning, done, failed, cancelled, separated by commas",
      },
      search: { type: "string", description: "search words: of the id, the workflow, a tag or the error" },
      limit: { type: "integer", minimum: 1, maximum: 100 },
      cursor: { type: "string", description: "the `next` value of the previous page" },
    }),
    async run(api, { workflow, status, search: q, limit = 20, cursor }) {
      const query = { workflow, status, q, limit, cursor } as Record<string, string>;
      return shown(await api.json<Fields>("/v1/executions", { query }));
    },
  },
  start: {
    title: "Start an execution",
    description:
      "Starts an execution of a workflow and answers at once. With an id, a second start with the same input finds the same execution.",
    annotations: CHANGES,
    inputSchema: schema(
      {
        workflow: { type: "string" },
        input: { description: "the input of the workflow" },
        id: { type: "string" },
      },
      ["workflow"],
    ),
    async run(api, given) {
      const body = {
        workflow: given["workflow"],
        input: given["input"] ?? null,
        ...defined({ id: given["id"] }),
      };
      return shown(briefly(await api.json<ExecutionView>("/v1/executions", { method: "POST", body })));
    },
  },
  get: {
    title: "Look at an execution",
    description:
      "Shows the status, the phases, the published values, the output or the error of an execution, and what it waits for.",
    annotations: READS,
    inputSchema: schema({ id }, ["id"]),
    async run(api, given) {
      const view = await api.json<ExecutionView>(pathOf(given));
      const { why, signals } = await api.json<{ why: string; signals: readonly string[] }>(
        `${pathOf(given)}/why`,
      );
      return shown({ ...briefly(view), phases: view.phases, why, awaits: signals });
    },
  },
  wait: {
    title: "Wait for an execution",
    description: `Waits until an execution has ended, for up to ${WAIT_S} seconds, and shows its result.`,
    annotations: READS,
    inputSchema: schema({ id, seconds }, ["id"]),
    async run(api, given) {
      try {
        return shown(await api.json<Fields>(`${pathOf(given)}/result`, { query: waitOf(given) }));
      } catch (thrown) {
        if ((thrown as { code?: unknown }).code !== "timeout") throw thrown;
        return resultOf(await api.json<ExecutionView>(pathOf(given)));
      }
    },
  },
  signal: {
    title: "Signal an execution",
    description:
      "Sends a signal to an execution that waits for it, such as an approval, with any JSON as data.",
    annotations: CHANGES,
    inputSchema: schema({ id, name: { type: "string", description: "the name of the signal" }, data: {} }, [
      "id",
      "name",
    ]),
    async run(api, given) {
      const body = { name: given["name"], data: given["data"] ?? null };
      return shown(await api.json<Fields>(`${pathOf(given)}/signals`, { method: "POST", body }));
    },
  },
  update: {
    title: "Update an execution",
    description: `Asks the code of a running execution something, with any JSON as data, and gives its answer. It waits for up to ${WAIT_S} seconds. The update is durable before the wait: call again with the same updateId to wait on.`,
    annotations: CHANGES,
    inputSchema: schema(
      {
        id,
        name: { type: "string", description: "the name of the update" },
        data: {},
        updateId: {
          type: "string",
          description: "an id of your choice for this update: a repeat with the same id gets the same answer",
        },
        seconds,
      },
      ["id", "name"],
    ),
    async run(api, given) {
      const path = `${pathOf(given)}/updates/${nameOf(given, "name", "the name of the update")}`;
      const body = { data: given["data"] ?? null, ...defined({ id: given["updateId"] }) };
      const { error, ...answered } = await api.json<Fields>(path, {
        method: "POST",
        body,
        query: waitOf(given),
      });
      return error === undefined ? shown(answered) : { ...shown({ ...answered, error }), isError: true };
    },
  },
  cancel: {
    title: "Cancel an execution",
    description: "Cancels an execution: its attempts stop, and it cleans up.",
    annotations: { readOnlyHint: false, destructiveHint: true },
    inputSchema: schema({ id, reason: { type: "string" } }, ["id"]),
    async run(api, given) {
      const body = defined({ reason: given["reason"] });
      return shown(
        briefly(await api.json<ExecutionView>(`${pathOf(given)}/cancel`, { method: "POST", body })),
      );
    },
  },
};

function schema(properties: object, required: readonly string[] = []): object {
  return { type: "object", properties, required, additionalProperties: false };
}

function pathOf(given: Fields): string {
  return `/v1/executions/${nameOf(given, "id", "the id of the execution")}`;
}

/** Returns a field of the arguments, encoded as one segment of a URL path. */
function nameOf(given: Fields, field: string, what: string): string {
  const name = given[field];
  if (typeof name !== "string") throw new RpcError(RPC_CODE.invalidParams, `${field}: ${what} is missing`);
  return segmentOf(field, name);
}

/** The query of a request that waits as long as the arguments ask for. */
function waitOf({ seconds: asked }: Fields): { readonly wait: string } {
  const waitS = typeof asked === "number" ? asked : WAIT_S;
  return { wait: `${Math.min(WAIT_S, Math.max(1, Math.floor(waitS)))}s` };
}

/** Encodes a name as one segment of a URL path. A name that would lead to another path is refused. */
export function segmentOf(what: string, name: string): string {
  if (name === "" || name === "." || name === "..")
    throw new RpcError(RPC_CODE.invalidParams, `${what}: ${JSON.stringify(name)} is not a name`);
  return encodeURIComponent(name);
}

interface Named {
  readonly name: string;
}

/** A page of tools: first those of Rondo, then the workflows in the order of their names. */
export async function listTools(
  api: ApiPort,
  cursor: string | undefined,
): Promise<{ readonly tools: readonly Tool[]; readonly nextCursor?: string }> {
  const query = { limit: 50, ...(cursor === undefined ? {} : { cursor }) };
  const { data, next } = await api.json<{ data: readonly Named[]; next: string | null }>("/v1/workflows", {
    query,
  });
  const names = data.map(({ name }) => name).filter((name) => operationOf(name) === null);
  const workflows = await Promise.all(names.map((name) => workflowTool(api, name)));
  const own = Object.entries(OPERATIONS).map(([name, { run: _, ...tool }]) => ({
    name: `${PREFIX}${name}`,
    ...tool,
  }));
  return {
    tools: [...(cursor === undefined ? own : []), ...workflows],
    ...(next === null ? {} : { nextCursor: next }),
  };
}

async function workflowTool(api: ApiPort, name: string): Promise<Tool> {
  const input = await inputSchemaOf(api, name);
  return {
    name,
    title: name,
    description: `Runs the workflow "${name}" and gives its output. It is durable: it goes on if this connection breaks. A call that takes longer answers with the id of the execution.`,
    inputSchema: isObjectSchema(input) ? input : schema({ [WRAPPED]: input ?? {} }),
    annotations: CHANGES,
    execution: { taskSupport: "optional" },
  };
}

async function inputSchemaOf(api: ApiPort, name: string): Promise<unknown> {
  const path = `/v1/workflows/${segmentOf("name", name)}`;
  return (await api.json<{ definition: { input?: unknown } }>(path)).definition.input;
}

function isObjectSchema(value: unknown): value is object {
  return isObject(value) && value["type"] === "object";
}

/** The operation of a tool; null if the tool is a workflow. */
export function operationOf(name: string): Operation | null {
  const own = name.slice(PREFIX.length);
  return name.startsWith(PREFIX) && Object.hasOwn(OPERATIONS, own) ? (OPERATIONS[own] ?? null) : null;
}

/** Starts an execution of a workflow by the arguments of its tool, and waits for its end for up to `waitS`. */
export async function startWorkflow(
  api: ApiPort,
  name: string,
  given: Fields,
  waitS: number = WAIT_S,
): Promise<ExecutionView> {
  const input = isObjectSchema(await inputSchemaOf(api, name)) ? given : (given[WRAPPED] ?? null);
  const query = waitS === 0 ? {} : { query: { wait: `${waitS}s` } };
  return api.json("/v1/executions", { method: "POST", body: { workflow: name, input }, ...query });
}

/** The result of a tool for an execution, as it is now. */
export function resultOf(view: ExecutionView): ToolResult {
  switch (view.status) {
    case "done":
      return shown(isObject(view.output) ? view.output : { output: view.output ?? null });
    case "failed":
    case "cancelled":
    case "damaged":
      return { ...shown(briefly(view)), isError: true };
    default:
      return shown({
        ...briefly(view),
        note: `the execution still runs; get its result with ${PREFIX}wait or ${PREFIX}get, by its id`,
      });
  }
}

export function shown(value: object): ToolResult {
  return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value as Fields };
}

/** The parts of an execution that a model needs. */
function briefly({
  id: execution,
  workflow,
  status,
  phase,
  output,
  error,
  published,
  createdAt,
  finishedAt,
}: ExecutionView): Fields {
  return {
    id: execution,
    workflow,
    status,
    phase,
    ...(status === "done" ? { output: output ?? null } : {}),
    ...(error === null || error === undefined ? {} : { error }),
    ...defined({ published }),
    createdAt,
    finishedAt,
  };
}
