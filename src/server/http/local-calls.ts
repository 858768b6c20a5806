/**
 * Requests of the API from its own process, without a connection. The route table checks and answers them as it does over HTTP,
 * with the rights of an admin. Routes that stream, or that read the connection, cannot be called in this way.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { assert } from "../../std/assert.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection, RondoError, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import type { Answer, Ask, Route } from "../route.ts";
import type { AuditLog } from "../services/audit-log.ts";
import { checkPart } from "./request-check.ts";

/** A request from this process. */
export interface LocalRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  readonly idempotencyKey?: string;
}

export interface LocalCallParts {
  readonly routes: readonly Route[];
  readonly audit: Pick<AuditLog, "note">;
  /** Returns why a caller may not use a route with this id in its path; null if it may. */
  readonly refuse: (caller: Caller, route: Route, execution: string | undefined) => Rejection | null;
  /** Throws if the server is closing. */
  readonly throwIfClosing: () => void;
}

/** The caller of requests from this process. */
const LOCAL: Caller = { name: "program", role: "admin", project: null, token: null, countedBy: null };

export class LocalCalls {
  readonly #parts: LocalCallParts;

  constructor(parts: LocalCallParts) {
    this.#parts = parts;
  }

  /** Answers a request of the program itself. A refusal is thrown as a `RondoError`. */
  json<T>(path: string, request: LocalRequest = {}): Promise<T> {
    return this.#answer(LOCAL, path, request);
  }

  /** Sends requests with the rights of this caller. */
  as(caller: Caller): { json<T>(path: string, request?: LocalRequest): Promise<T> } {
    return { json: (path, request = {}) => this.#answer(caller, path, request) };
  }

  async #answer<T>(caller: Caller, path: string, request: LocalRequest): Promise<T> {
    this.#parts.throwIfClosing();
    const found = this.#find(path, request.method ?? "GET");
    assert(found !== null, `a route must match ${request.method ?? "GET"} ${path}`);
    const { route, params } = found;
    const refused = this.#parts.refuse(caller, route, params["id"]);
    if (refused !== null) throw new RondoError(refused);
    const ask = unwrapped(askOf(route, params, { ...request, caller }));
    let answer: Answer = await route.handle(ask);
    while (answer.kind === "waits") answer = await answer.answer();
    if (isRejection(answer)) throw new RondoError(answer);
    if (route.audit !== undefined) {
      const { name: who, role } = caller;
      await this.#parts.audit.note({ who, role, action: route.audit, ...ask.named });
    }
    assert(
      answer.kind === "json" || answer.kind === "bytes",
      "a request of this process must not be answered by a stream",
    );
    // The answer is copied as a connection would do, so that a program cannot change the server's objects.
    const text = answer.kind === "json" ? JSON.stringify(answer.body) : String(answer.body);
    return JSON.parse(text) as T;
  }

  #find(path: string, method: string): { route: Route; params: Record<string, string> } | null {
    const given = path.split("/");
    for (const route of this.#parts.routes) {
      if (route.method !== method.toLowerCase()) continue;
      const params = match(route.path.split("/"), given);
      if (params !== null) return { route, params };
    }
    return null;
  }
}

/** Returns the parameters of a path that matches a pattern; null if the path does not match. */
function match(pattern: readonly string[], given: readonly string[]): Record<string, string> | null {
  if (pattern.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [i, part] of pattern.entries()) {
    if (part.startsWith("{")) params[part.slice(1, -1)] = decodeURIComponent(given[i] as string);
    else if (part !== given[i]) return null;
  }
  return params;
}

type LocalAsk = Ask & { named: { target: string; project: string | null } };

function askOf(
  route: Route,
  given: Record<string, string>,
  request: LocalRequest & { readonly caller: Caller },
): LocalAsk | Rejection {
  const params = route.params === undefined ? null : checkPart(route.params, given, "path");
  if (isRejection(params)) return { ...params, code: "not_found" };
  const query = route.query === undefined ? null : checkPart(route.query, texts(request.query), "query");
  if (isRejection(query)) return query;
  const body = bodyOf(route, request.body);
  if (isRejection(body)) return body;
  const [target] = Object.values(given);
  const ask: LocalAsk = {
    params: params?.value,
    query: query?.value,
    body: body.value,
    caller: request.caller,
    bearer: null,
    idempotencyKey: request.idempotencyKey ?? null,
    trace: null,
    header: () => undefined,
    get incoming(): IncomingMessage {
      throw new Error("a request of this process has no connection");
    },
    get outgoing(): ServerResponse {
      throw new Error("a request of this process has no connection");
    },
    whenOver: () => () => {},
    signal: new AbortController().signal,
    target: (name, project) => {
      ask.named = { target: name, project: project ?? request.caller.project };
    },
    named: { target: target ?? "", project: request.caller.project },
  };
  return ask;
}

function bodyOf(route: Route, given: unknown): { readonly value: unknown } | Rejection {
  if (route.body === undefined) return { value: undefined };
  if (given === undefined && route.isBodyOptional !== true)
    return reject("invalid_input", "the request needs a body");
  return checkPart(route.body, given === undefined ? {} : copied(given), "body");
}

/** A copy of the body as JSON, as the server would read it. */
function copied(given: unknown): Json {
  return JSON.parse(JSON.stringify(given)) as Json;
}

function texts(query: LocalRequest["query"]): Record<string, string> {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

function unwrapped(ask: LocalAsk | Rejection): LocalAsk {
  if (isRejection(ask)) throw new RondoError(ask);
  return ask;
}
