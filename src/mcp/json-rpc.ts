/** JSON-RPC 2.0 as the Model Context Protocol uses it. */
import { isObject } from "../std/decode.ts";

/** A request, or a notification, which has no id. */
export interface RpcMessage {
  readonly id: string | number | null;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export interface RpcAnswer {
  readonly jsonrpc: "2.0";
  readonly id: string | number | null;
  readonly result?: object;
  readonly error?: RpcErrorBody;
}

interface RpcErrorBody {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export const RPC_CODE = {
  notJson: -32_700,
  invalidRequest: -32_600,
  unknownMethod: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  unsupportedVersion: -32_022,
} as const;

/** An error that the client gets as the JSON-RPC answer to its request. */
export class RpcError extends Error {
  override name = "RpcError";
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Reads a message; null if it is neither a request nor a notification, such as a response. Throws if it is malformed. */
export function readMessage(value: unknown): RpcMessage | null {
  if (!isObject(value) || value["jsonrpc"] !== "2.0")
    throw new RpcError(RPC_CODE.invalidRequest, "the message is not a JSON-RPC 2.0 object");
  const { id = null, method, params = {} } = value;
  if (method === undefined) return null;
  const isId = id === null || typeof id === "string" || typeof id === "number";
  if (typeof method !== "string" || !isId || !isObject(params))
    throw new RpcError(RPC_CODE.invalidRequest, "the message has no valid method, id or params");
  return { id, method, params };
}

export function answerOf(id: RpcMessage["id"], result: object): RpcAnswer {
  return { jsonrpc: "2.0", id, result };
}

export function errorOf(id: RpcMessage["id"], thrown: RpcError): RpcAnswer {
  const { code, message, data } = thrown;
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}
