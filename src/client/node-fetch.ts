/**
 * Sends the client's requests in Node over its HTTP module, because a request over the global `fetch` costs several times the CPU time.
 * The module is looked up at run time, so that this file also loads in browsers. A redirected request is left to `fetch`.
 */
import type * as Http from "node:http";
import type * as Https from "node:https";
import type { Fetch, HttpRequest, HttpResponse } from "./transport.ts";

/** The fields of Node's `process` that this file uses. Other platforms do not have it. */
interface Runtime {
  readonly versions?: { readonly node?: string; readonly bun?: string };
  getBuiltinModule?(name: string): unknown;
}

interface Target {
  readonly module: typeof Http | typeof Https;
  readonly agent: Http.Agent;
  readonly host: string;
  readonly port: string;
}

/** The length of `https://`. The host of an address begins at this index or before it. */
const SCHEME_CHARS = 8;

/** Makes the function that sends requests if the caller gives none: over Node's HTTP module, otherwise over the global `fetch`. */
export function defaultFetch(): Fetch {
  const global: Fetch = (url, request) => globalThis.fetch(url, request);
  const runtime = (globalThis as { readonly process?: Runtime }).process;
  if (runtime?.versions?.node === undefined || runtime.versions.bun !== undefined) return global;
  const http = runtime.getBuiltinModule?.("node:http") as typeof Http | undefined;
  const https = runtime.getBuiltinModule?.("node:https") as typeof Https | undefined;
  if (http === undefined || https === undefined) return global;
  const targets = new Map<string, Target>();
  const targetOf = (origin: string): Target => {
    const known = targets.get(origin);
    if (known !== undefined) return known;
    const { protocol, hostname, port } = new URL(origin);
    const module = protocol === "https:" ? https : http;
    const host = hostname.replace(/^\[(.*)\]$/, "$1");
    const target = { module, agent: new module.Agent({ keepAlive: true }), host, port };
    targets.set(origin, target);
    return target;
  };
  return async (url, request) => {
    const pathAt = url.indexOf("/", SCHEME_CHARS);
    const answer = await send(targetOf(url.slice(0, pathAt)), url.slice(pathAt), request);
    const { statusCode: status = 0, headers } = answer;
    if (status < 300 || status === 304 || status >= 400 || headers.location === undefined)
      return responseOf(answer);
    answer.resume();
    return global(url, request);
  };
}

function send(target: Target, path: string, request: HttpRequest): Promise<Http.IncomingMessage> {
  const { module, agent, host, port } = target;
  const { method, body, signal } = request;
  const headers: Record<string, string | number> = { ...request.headers };
  const bytes = body === undefined ? undefined : new TextEncoder().encode(body);
  if (bytes !== undefined) headers["content-length"] = bytes.byteLength;
  return new Promise((resolve, fail) => {
    const call = module.request({ agent, host, port, method, path, headers });
    const abort = (): void => {
      call.destroy(signal?.reason as Error);
    };
    call.on("response", resolve);
    call.on("error", fail);
    if (signal !== undefined) {
      signal.addEventListener("abort", abort);
      call.on("close", () => signal.removeEventListener("abort", abort));
      if (signal.aborted) abort();
    }
    call.end(bytes);
  });
}

function responseOf(answer: Http.IncomingMessage): HttpResponse {
  return {
    status: answer.statusCode ?? 0,
    headers: {
      get: (name) => {
        const value = answer.headers[name.toLowerCase()];
        return Array.isArray(value) ? value.join(", ") : (value ?? null);
      },
    },
    body: {
      getReader: () => {
        const parts = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
        return {
          async read() {
            const { done = false, value } = await parts.next();
            return done ? { done } : { done, value };
          },
          async cancel() {
            answer.destroy();
          },
        };
      },
    },
    text: () => textOf(answer),
  };
}

function textOf(answer: Http.IncomingMessage): Promise<string> {
  return new Promise((resolve, fail) => {
    let text = "";
    answer.setEncoding("utf8");
    answer.on("data", (part: string) => {
      text += part;
    });
    answer.on("end", () => resolve(text));
    answer.on("error", fail);
  });
}
