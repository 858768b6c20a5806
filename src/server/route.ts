/**
 * One entry of the route table. From it come the checks of a request (access, parameters, query, body), its limits, its
 * place in the OpenAPI document, in the metrics and in the audit log. A handler gets what has been checked (`Ask`) and
 * gives an answer as a value, or a rejection, which becomes an RFC 9457 problem.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "@hono/zod-openapi";
import type { Rejection, RejectionCode } from "../std/rejection.ts";
import type { Caller, Role } from "./auth/caller.ts";

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

export interface RouteSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  /** The operation's name in the OpenAPI document; unique. */
  readonly id: string;
  readonly method: Method;
  /** With parameters in braces: `/v1/executions/{id}`. */
  readonly path: string;
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
  readonly answers: Readonly<Record<number, AnswerSpec>>;
  readonly refusals?: readonly RejectionCode[];
  /** What it is called in the audit log; left out for reads, and for what workers do. */
  readonly audit?: string;
}

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
export type Answer =
  | {
      readonly kind: "json";
      readonly status: number;
      readonly body: unknown;
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

/** A route with its handler, as the table holds it. */
export interface Route extends RouteSpec<z.ZodType, z.ZodType, z.ZodType> {
  readonly handle: (ask: Ask) => Answer | Promise<Answer>;
}

/** Puts a handler to its route; the handler's types come from the schemas. */
export function route<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
>(
  spec: RouteSpec<P, Q, B>,
  handle: (ask: Ask<z.output<P>, z.output<Q>, z.output<B>>) => Answer | Promise<Answer>,
): Route {
  return { ...spec, handle: handle as Route["handle"] };
}

/** An answer in JSON. */
export function json(
  body: unknown,
  options: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer {
  const { status = 200, headers } = options;
  return { kind: "json", status, body, ...(headers === undefined ? {} : { headers }) };
}

/** The answer of a handler that writes to `outgoing` itself. */
export const STREAMED: Answer = { kind: "streamed" };
