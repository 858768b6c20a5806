/**
 * A server of the Model Context Protocol over the HTTP API: it has the rights of its caller. It keeps no state, so every message can
 * be answered by any node. It serves two eras of the protocol:
 * - Versions up to 2025-11-25 begin with `initialize`. A call with `task` is answered at once with a task.
 * - Version 2026-07-28 has no handshake: each request names its version and the client's capabilities. A client with the extension for
 *   tasks gets a task if an execution does not end soon.
 * A task is an execution, and its id is that of the execution. One that waits for a signal needs input.
 */
import type { ExecutionView } from "../kernel/view.ts";
import type { ApiPort } from "../sdk/operations-over.ts";
import { isObject } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { sha256 } from "../std/hash.ts";
import { RondoError } from "../std/rejection.ts";
import {
  answerOf,
  errorOf,
  RPC_CODE,
  type RpcAnswer,
  RpcError,
  type RpcMessage,
  readMessage,
} from "./json-rpc.ts";
import { listTools, operationOf, resultOf, segmentOf, startWorkflow, type ToolResult } from "./tools.ts";

const MODERN = "2026-07-28";
const LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;
const META = "io.modelcontextprotocol/";
const TASKS = `${META}tasks`;
const POLL_MS = 1_000;
/** A longer key of an input request is hashed, so that it fits into the id of a signal. */
const KEY_CHARS_MAX = 60;
/** How long a call of a client that knows tasks waits for the end of an execution before it becomes a task. */
const SOON_S = 5;
/** How long `tasks/result` waits. The client asks again. */
const RESULT_WAIT = "45s";
const INSTRUCTIONS =
  "Each workflow of this Rondo server is a tool. Executions are durable: they survive restarts and broken connections. rondo_list, rondo_get and rondo_wait watch them, rondo_signal answers one that waits (its `awaits` names the signals), rondo_update asks a running one something and gives the answer of its code, rondo_cancel ends one.";

export interface McpOptions {
  readonly api: ApiPort;
  /** The version of Rondo. */
  readonly version: string;
}

type Era = "legacy" | "modern";

interface Asked extends RpcMessage {
  readonly era: Era;
  /** Whether the client can handle tasks. */
  readonly takesTasks: boolean;
}

/** Answers a message; null for a notification or a response, which have no answer. */
export async function answerMcp(value: unknown, options: McpOptions): Promise<RpcAnswer | null> {
  let message: RpcMessage | null = null;
  try {
    message = readMessage(value);
    if (message === null || message.id === null) return null;
    const asked = readEra(message);
    const result = await answer(asked, options);
    return answerOf(message.id, asked.era === "modern" ? modernResult(result, options) : result);
  } catch (thrown) {
    return errorOf(message?.id ?? null, rpcErrorOf(thrown));
  }
}

function readEra(message: RpcMessage): Asked {
  const meta = message.params["_meta"];
  const version = isObject(meta) ? meta[`${META}protocolVersion`] : undefined;
  if (version === undefined && message.method !== "server/discover")
    return { ...message, era: "legacy", takesTasks: message.params["task"] !== undefined };
  if (version !== undefined && version !== MODERN)
    throw new RpcError(RPC_CODE.unsupportedVersion, "Unsupported protocol version", {
      supported: [MODERN, ...LEGACY],
      requested: version,
    });
  const capabilities = isObject(meta) ? meta[`${META}clientCapabilities`] : undefined;
  const extensions = isObject(capabilities) ? capabilities["extensions"] : undefined;
  return { ...message, era: "modern", takesTasks: isObject(extensions) && extensions[TASKS] !== undefined };
}

function modernResult(result: object, { version }: McpOptions): object {
  return { resultType: "complete", ...result, _meta: { [`${META}serverInfo`]: infoOf(version) } };
}

function infoOf(version: string): object {
  return { name: "rondo", title: "Rondo", version };
}

async function answer(asked: Asked, { api, version }: McpOptions): Promise<object> {
  const { method, params, era } = asked;
  switch (method) {
    case "initialize":
      return {
        protocolVersion: LEGACY.find((one) => one === params["protocolVersion"]) ?? LEGACY[0],
        capabilities: {
          tools: {},
          tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
        },
        serverInfo: infoOf(version),
        instructions: INSTRUCTIONS,
      };
    case "server/discover":
      return {
        supportedVersions: [MODERN, ...LEGACY],
        capabilities: { tools: {}, extensions: { [TASKS]: {} } },
        serverInfo: infoOf(version),
        instructions: INSTRUCTIONS,
      };
    case "ping":
      return {};
    case "tools/list": {
      const page = await listTools(api, textOf(params, "cursor", undefined));
      return era === "modern" ? { ...page, ttlMs: 60_000, cacheScope: "private" } : page;
    }
    case "tools/call":
      return callTool(asked, api);
    case "tasks/get":
      return getTask(asked, api);
    case "tasks/cancel":
      await api.json(`${pathOf(params)}/cancel`, { method: "POST", body: {} });
      return era === "modern" ? {} : getTask(asked, api);
    case "tasks/result":
      if (era === "legacy") return taskResult(params, api);
      break;
    case "tasks/list":
      if (era === "legacy") return listTasks(params, api);
      break;
    case "tasks/update":
      if (era === "modern") return updateTask(params, api);
      break;
    default:
  }
  throw new RpcError(RPC_CODE.unknownMethod, `there is no method "${method}"`);
}

async function callTool(asked: Asked, api: ApiPort): Promise<object> {
  const { params, era, takesTasks } = asked;
  const name = textOf(params, "name");
  const given = params["arguments"] ?? {};
  if (!isObject(given)) throw new RpcError(RPC_CODE.invalidParams, "arguments: must be an object");
  const operation = operationOf(name);
  if (operation !== null) {
    if (takesTasks && era === "legacy")
      throw new RpcError(RPC_CODE.unknownMethod, `the tool "${name}" cannot be a task`);
    return orToolError(() => operation.run(api, given));
  }
  if (!takesTasks) return orToolError(async () => resultOf(await startWorkflow(api, name, given)));
  if (era === "legacy") {
    const view = await startWorkflow(api, name, given, 0);
    return { task: legacyTask(view, "working", null) };
  }
  let view: ExecutionView;
  try {
    view = await startWorkflow(api, name, given, SOON_S);
  } catch (thrown) {
    return toolError(thrown);
  }
  if (view.finishedAt !== null) return resultOf(view);
  return { resultType: "task", ...modernTask(view, "working", null) };
}

/** Errors of the API are returned as results of the tool, so that the model can read them and correct its call. */
async function orToolError(run: () => Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await run();
  } catch (thrown) {
    return toolError(thrown);
  }
}

function toolError(thrown: unknown): ToolResult {
  if (!(thrown instanceof RondoError)) throw thrown;
  const { code, message, hint, path } = thrown;
  const error = { code, message, ...defined({ hint, path }) };
  return { content: [{ type: "text", text: JSON.stringify(error) }], isError: true };
}

type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

interface Waiting {
  readonly why: string;
  readonly signals: readonly string[];
}

async function look(
  params: RpcMessage["params"],
  api: ApiPort,
): Promise<{ view: ExecutionView; status: TaskStatus; waiting: Waiting | null }> {
  const path = pathOf(params);
  const view = await api.json<ExecutionView>(path);
  if (view.status === "done") return { view, status: "completed", waiting: null };
  if (view.status === "cancelled") return { view, status: "cancelled", waiting: null };
  if (view.finishedAt !== null) return { view, status: "failed", waiting: null };
  const waiting = await api.json<Waiting>(`${path}/why`);
  return { view, status: waiting.signals.length > 0 ? "input_required" : "working", waiting };
}

async function getTask({ params, era }: Asked, api: ApiPort): Promise<object> {
  const { view, status, waiting } = await look(params, api);
  if (era === "legacy") return legacyTask(view, status, waiting);
  if (status === "input_required" && waiting !== null)
    return { ...modernTask(view, status, waiting), inputRequests: inputRequests(view, waiting) };
  // In the protocol version 2026-07-28, a task counts as failed only after an error of the protocol. A failed execution is a
  // completed task.
  if (status === "completed" || status === "failed")
    return { ...modernTask(view, "completed", null), result: { resultType: "complete", ...resultOf(view) } };
  return modernTask(view, status, waiting);
}

function legacyTask(view: ExecutionView, status: TaskStatus, waiting: Waiting | null): object {
  const { ttlMs: ttl, pollIntervalMs: pollInterval, ...task } = modernTask(view, status, waiting);
  return { ...task, ttl, pollInterval };
}

function modernTask(view: ExecutionView, status: TaskStatus, waiting: Waiting | null) {
  const ask = waiting?.signals.map((name) => `"${name}"`).join(", ") ?? "";
  const message =
    status === "input_required"
      ? `The execution waits for the signal ${ask}: send it with rondo_signal.`
      : (waiting?.why ?? view.error?.message);
  return {
    taskId: view.id,
    status,
    ...(message === undefined ? {} : { statusMessage: message }),
    createdAt: new Date(view.createdAt).toISOString(),
    lastUpdatedAt: new Date(view.finishedAt ?? view.createdAt).toISOString(),
    ttlMs: null,
    pollIntervalMs: POLL_MS,
  };
}

/**
 * Returns the input requests for the signals that an execution waits for. The key contains the revision, so that a later wait
 * for the same signal is a new request.
 */
function inputRequests(view: ExecutionView, { signals }: Waiting): object {
  const requestedSchema = {
    type: "object",
    properties: { data: { type: "string", description: "the data of the signal: JSON, or a text" } },
  };
  return Object.fromEntries(
    signals.map((name) => [
      `${view.revision}:${name}`,
      {
        method: "elicitation/create",
        params: {
          mode: "form",
          message: `The workflow "${view.workflow}" (${view.id}) waits for the signal "${name}".`,
          requestedSchema,
        },
      },
    ]),
  );
}

/** Sends the answers of a client as signals. A request that the client declines stays open; cancel the task to end it. */
async function updateTask(params: RpcMessage["params"], api: ApiPort): Promise<object> {
  const path = pathOf(params);
  const given = params["inputResponses"];
  if (!isObject(given)) throw new RpcError(RPC_CODE.invalidParams, "inputResponses: must be an object");
  const { signals } = await api.json<Waiting>(`${path}/why`);
  for (const [key, response] of Object.entries(given)) {
    const name = key.slice(key.indexOf(":") + 1);
    if (!isObject(response) || response["action"] !== "accept" || !signals.includes(name)) continue;
    const content = isObject(response["content"]) ? response["content"] : {};
    const data = parsed("data" in content ? content["data"] : content);
    // A repeated answer has the same id, so the signal is sent only once.
    await api.json(`${path}/signals`, {
      method: "POST",
      body: { name, data, id: `mcp-${key.length > KEY_CHARS_MAX ? sha256(key) : key}` },
    });
  }
  return {};
}

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value ?? null;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    // An answer that is not JSON is sent as a text.
    return value;
  }
}

async function taskResult(params: RpcMessage["params"], api: ApiPort): Promise<object> {
  const path = pathOf(params);
  const hasEnded = await api.json(`${path}/result`, { query: { wait: RESULT_WAIT } }).then(
    () => true,
    (thrown: unknown) => {
      if (thrown instanceof RondoError && thrown.code === "timeout") return false;
      throw thrown;
    },
  );
  if (!hasEnded)
    throw new RpcError(
      RPC_CODE.internal,
      `the task has not ended within ${RESULT_WAIT}; ask again, or poll tasks/get`,
    );
  const view = await api.json<ExecutionView>(path);
  return { ...resultOf(view), _meta: { [`${META}related-task`]: { taskId: view.id } } };
}

async function listTasks(params: RpcMessage["params"], api: ApiPort): Promise<object> {
  const cursor = textOf(params, "cursor", undefined);
  const query = { detail: "full", limit: 20, ...(cursor === undefined ? {} : { cursor }) };
  const page = await api.json<{ data: readonly ExecutionView[]; next: string | null }>("/v1/executions", {
    query,
  });
  const statusOf = ({ status, finishedAt }: ExecutionView): TaskStatus => {
    if (status === "done") return "completed";
    if (status === "cancelled") return "cancelled";
    return finishedAt === null ? "working" : "failed";
  };
  const tasks = page.data.map((view) => legacyTask(view, statusOf(view), null));
  return { tasks, ...(page.next === null ? {} : { nextCursor: page.next }) };
}

function pathOf(params: RpcMessage["params"]): string {
  return `/v1/executions/${segmentOf("taskId", textOf(params, "taskId"))}`;
}

function textOf<D = string>(params: RpcMessage["params"], name: string, ...otherwise: [D?]): string | D {
  const value = params[name];
  if (typeof value === "string") return value;
  if (value === undefined && otherwise.length > 0) return otherwise[0] as D;
  throw new RpcError(RPC_CODE.invalidParams, `${name}: must be a text`);
}

/** A refusal of the API as an error of the protocol. Anything else is a bug, and is thrown. */
function rpcErrorOf(thrown: unknown): RpcError {
  if (thrown instanceof RpcError) return thrown;
  if (thrown instanceof URIError)
    return new RpcError(
      RPC_CODE.invalidParams,
      "a name contains half of a surrogate pair, so it is not valid Unicode",
    );
  if (!(thrown instanceof RondoError)) throw thrown;
  const { code, message, hint } = thrown;
  return new RpcError(RPC_CODE.invalidParams, message, { code, ...(hint === undefined ? {} : { hint }) });
}
