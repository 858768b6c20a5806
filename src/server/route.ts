/**
 * One entry of the route table. It defines the checks of a request (access, parameters, query, body), its limits, its OpenAPI
 * description, its metrics and its audit entry. A handler gets a checked request (`Ask`) and returns an answer, or a rejection,
 * which becomes an RFC 9457 problem.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "@hono/zod-openapi";
import type { TokenScope } from "../sdk/operations.ts";
import type { Rejection, RejectionCode } from "../std/rejection.ts";
import type { Caller, Role } from "./auth/caller.ts";
import type { Sent } from "./schemas/shape.ts";

export type Method = "get" | "post" | "put" | "delete";

/** Which callers may use a route. */
export type Access =
  /** Callers with this role, or a higher one. */
  | Role
  | readonly Role[]
  /** Every authenticated caller. */
  | "known"
  /** Every client, without a token. */
  | "everyone"
  /** The bearer of the token of the attempt in the path. The route's handler decides what that attempt may still do. */
  | "attempt";

export interface RouteSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends Answers> {
  /** The unique operation id in the OpenAPI document. */
  readonly id: string;
  /** The method and the path, with parameters in braces: `GET /v1/executions/{id}`. */
  readonly request: `${Uppercase<Method>} /${string}`;
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  /**
   * The scope with which a token for one execution may use the route, for the execution `{id}` of the path. Missing: such tokens are
   * refused.
   */
  readonly scope?: TokenScope;
  /** Whether the route concerns the whole server. If it does, callers that are bound to a project are refused. */
  readonly isGlobal?: boolean;
  readonly params?: P;
  readonly query?: Q;
  /** The schema of the JSON body. Unknown fields are refused. */
  readonly body?: B;
  /** True if the body may be missing; a missing body counts as `{}`. */
  readonly isBodyOptional?: boolean;
  /** Headers that the route reads, described for the OpenAPI document. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly bodyBytesMax?: number;
  readonly bodyKeysMax?: number;
  /** The time limit of the answer; null for no limit, as streams need. */
  readonly timeMs?: number | null;
  /** Answers by status; refusals are added from `refusals`. */
  readonly answers: A;
  readonly refusals?: readonly RejectionCode[];
  /** The name of the action in the audit log; missing for reads and for routes of workers. */
  readonly audit?: string;
}

export type Answers = Readonly<Record<number, AnswerSpec>>;

export interface AnswerSpec {
  readonly description: string;
  /** The schema of the JSON answer; missing if the answer has no body, or a body of one of `types`. */
  readonly schema?: z.ZodType;
  /** Other media types of the answer. */
  readonly types?: readonly string[];
  readonly example?: unknown;
}

/** A checked request. */
export interface Ask<P = unknown, Q = unknown, B = unknown> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: Caller;
  /** The bearer token of the request, for routes of attempts. */
  readonly bearer: string | null;
  readonly idempotencyKey: string | null;
  /** The W3C trace context to pass on; null if there is none. */
  readonly trace: string | null;
  header(name: string): string | undefined;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /**
   * Calls a function when the request is over: it was answered, the client has disconnected, its token was revoked, or the server
   * closes. If it is over already, the function is called at once. The returned function removes it.
   */
  whenOver(call: () => void): () => void;
  /** Aborted when the request is over. `whenOver` costs less. */
  readonly signal: AbortSignal;
  /** Sets the target of a change for the audit log; by default it is the path's parameter. */
  target(name: string, project?: string): void;
}

/** The answer of a handler. */
export type Answer<T = unknown> =
  | {
      readonly kind: "json";
      readonly status: number;
      readonly body: T;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "bytes";
      readonly status: number;
      readonly type: string;
      readonly body: string | Uint8Array;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The handler writes to `outgoing` itself, and ends the response. */
  | { readonly kind: "streamed" }
  /** The request is done. Its answer waits for another event, for longer than the time limit of the route allows. */
  | { readonly kind: "waits"; readonly answer: () => Promise<Answer<T>> }
  | Rejection;

/** A route whose handler is bound to its services. */
export interface Route extends Omit<RouteSpec<z.ZodType, z.ZodType, z.ZodType, Answers>, "request"> {
  readonly method: Method;
  readonly path: string;
  /** The group of the route in the OpenAPI document. */
  readonly tag: string;
  readonly handle: (ask: Ask) => Answer | Promise<Answer>;
}

/** A route of the table. Its handler gets the services with each request. */
export interface RouteOver<S> extends Omit<Route, "handle"> {
  readonly handle: (ask: Ask, services: S) => Answer | Promise<Answer>;
}

/** The types of the JSON bodies that a route may answer, by status; an answer 204 has none. */
type BodyOf<A extends Answers> = {
  [Status in keyof A]: A[Status] extends { readonly schema: infer S extends z.ZodType } ? Sent<S> : null;
}[keyof A];

/** Declares routes over services of one type. The types of a request and of its answers come from the schemas. */
export function routesOver<S>(tag: string) {
  return <
    const A extends Answers,
    P extends z.ZodType = z.ZodUndefined,
    Q extends z.ZodType = z.ZodUndefined,
    B extends z.ZodType = z.ZodUndefined,
  >(
    spec: RouteSpec<P, Q, B, A> & {
      readonly handle: (
        ask: Ask<z.output<P>, z.output<Q>, z.output<B>>,
        services: S,
      ) => Answer<BodyOf<A>> | Promise<Answer<BodyOf<A>>>;
    },
  ): RouteOver<S> => {
    const { request, handle, ...rest } = spec;
    const [method, path] = request.split(" ") as [string, string];
    return {
      ...rest,
      tag,
      method: method.toLowerCase() as Method,
      path,
      handle: handle as RouteOver<S>["handle"],
    };
  };
}

/** Binds routes to their services. */
export function bindRoutes<S>(routes: readonly RouteOver<S>[], services: S): readonly Route[] {
  return routes.map((route) => ({ ...route, handle: (ask) => route.handle(ask, services) }));
}

export function json<const T>(
  body: T,
  options: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer<T> & { readonly kind: "json" } {
  const { status = 200, headers } = options;
  return { kind: "json", status, body, ...(headers === undefined ? {} : { headers }) };
}

export const NO_CONTENT = json(null, { status: 204 });

/** Makes an answer of bytes, or of a text that is JSON already. */
export function bytes(
  body: string | Uint8Array,
  options: { readonly type?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer<never> {
  const { type = "application/json", headers } = options;
  return { kind: "bytes", status: 200, type, body, ...(headers === undefined ? {} : { headers }) };
}

/** The answer of a handler that writes the response itself. */
export const STREAMED: Answer<never> = { kind: "streamed" };
