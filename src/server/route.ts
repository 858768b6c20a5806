/**
 * One entry of the route table. From it come the checks of a request (access, parameters, query, body), its limits, its
 * place in the OpenAPI document, in the metrics and in the audit log. A handler gets what has been checked (`Ask`) and
 * gives an answer as a value, or a rejection, which becomes an RFC 9457 problem.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "@hono/zod-openapi";
import type { Rejection, RejectionCode } from "../std/rejection.ts";
import type { Caller, Role } from "./auth/caller.ts";
import type { Sent } from "./schemas/shape.ts";

export type Method = "get" | "post" | "put" | "delete";

/** Who may ask: a role (and those above it), several, anybody who is let in at all, everybody. */
export type Access =
  /** Callers of this role, or above it. */
  | Role
  | readonly Role[]
  /** Every caller that is known, whatever the role. */
  | "known"
  /** Everybody, without a token. */
  | "everyone"
  /** Whoever brings the token of the attempt that the path's `id` names, as a bearer; what it still opens the handler knows. */
  | "attempt";

export interface RouteSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends Answers> {
  /** The operation's name in the OpenAPI document; unique. */
  readonly id: string;
  /** The method and the path, with parameters in braces: `GET /v1/executions/{id}`. */
  readonly request: `${Uppercase<Method>} /${string}`;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  /** True: about the whole server, so a caller that is bound to one project is refused. */
  readonly isGlobal?: boolean;
  readonly params?: P;
  readonly query?: Q;
  /** The JSON body. Objects are strict: what they do not name is refused. */
  readonly body?: B;
  /** True: the body may be left out; it is then `{}`. */
  readonly isBodyOptional?: boolean;
  /** Headers that the route reads, for the document. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly bodyBytesMax?: number;
  readonly bodyKeysMax?: number;
  /** How long the answer may take; null: as long as it likes (streams). */
  readonly timeMs?: number | null;
  /** What the route answers with, by status; refusals are added from `refusals`. */
  readonly answers: A;
  readonly refusals?: readonly RejectionCode[];
  /** What it is called in the audit log; left out for reads, and for what workers do. */
  readonly audit?: string;
}

export type Answers = Readonly<Record<number, AnswerSpec>>;

export interface AnswerSpec {
  readonly description: string;
  /** The JSON that comes back; none: no body, or one of `types`. */
  readonly schema?: z.ZodType;
  /** Other media types that come back. */
  readonly types?: readonly string[];
  readonly example?: unknown;
}

/** A request whose every part has been checked. */
export interface Ask<P = unknown, Q = unknown, B = unknown> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: Caller;
  /** What the request brought as `Authorization: Bearer`; for routes by an attempt's token. */
  readonly bearer: string | null;
  readonly idempotencyKey: string | null;
  /** A W3C trace context. */
  readonly trace: string | null;
  header(name: string): string | undefined;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Aborted when the client has gone or the server closes. */
  readonly signal: AbortSignal;
  /** Says what a change was made to, for the audit log; by default it is the path's parameter. */
  target(name: string, project?: string): void;
}

/** What a handler gives back. */
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
  /** The handler writes to `outgoing` itself, and ends it. */
  | { readonly kind: "streamed" }
  | Rejection;

/** A route over its services, as the application serves it. */
export interface Route extends Omit<RouteSpec<z.ZodType, z.ZodType, z.ZodType, Answers>, "request"> {
  readonly method: Method;
  readonly path: string;
  readonly handle: (ask: Ask) => Answer | Promise<Answer>;
}

/** A route of the table: its handler gets the services with each request. */
export interface RouteOver<S> extends Omit<Route, "handle"> {
  readonly handle: (ask: Ask, services: S) => Answer | Promise<Answer>;
}

/** The JSON bodies that a route may answer with: those of its schemas, and none (204). */
type BodyOf<A extends Answers> = {
  [Status in keyof A]: A[Status] extends { readonly schema: infer S extends z.ZodType } ? Sent<S> : null;
}[keyof A];

/** Declares routes over services of one type. The types of a request and of its answers come from the schemas. */
export function routesOver<S>() {
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
      method: method.toLowerCase() as Method,
      path,
      handle: handle as RouteOver<S>["handle"],
    };
  };
}

/** Routes with the services that their handlers work with. */
export function bindRoutes<S>(routes: readonly RouteOver<S>[], services: S): readonly Route[] {
  return routes.map((route) => ({ ...route, handle: (ask) => route.handle(ask, services) }));
}

/** An answer in JSON. */
export function json<const T>(
  body: T,
  options: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer<T> & { readonly kind: "json" } {
  const { status = 200, headers } = options;
  return { kind: "json", status, body, ...(headers === undefined ? {} : { headers }) };
}

/** An answer without a body. */
export const NO_CONTENT = json(null, { status: 204 });

/** An answer of bytes, or of JSON that is text already. */
export function bytes(
  body: string | Uint8Array,
  options: { readonly type?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer<never> {
  const { type = "application/json", headers } = options;
  return { kind: "bytes", status: 200, type, body, ...(headers === undefined ? {} : { headers }) };
}

/** The answer of a handler that writes to `outgoing` itself. */
export const STREAMED: Answer<never> = { kind: "streamed" };
