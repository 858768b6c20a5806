/** Refusals on the wire: RFC 9457 problems, with status and hint from one table. */
import { DamagedData } from "../../kernel/journal/damage.ts";
import { damagedRow } from "../../sdk/errors.ts";
import { defined } from "../../std/defined.ts";
import { type Rejection, type RejectionCode, RondoError, reject } from "../../std/rejection.ts";
import { StoreFault } from "../../store/store.ts";
import type { problemSchema } from "../schemas/problem.ts";
import type { Shape } from "../schemas/shape.ts";

/** All problem codes: the codes of rejections, and codes that only the HTTP API uses. */
export type ProblemCode =
  | RejectionCode
  | "bad_request"
  | "method_not_allowed"
  | "request_timeout"
  | "headers_too_large"
  | "internal";

/** For each problem code its HTTP status, its title, and a hint for rejections that have none. */
export const PROBLEMS: Readonly<
  Record<ProblemCode, { readonly status: number; readonly title: string; readonly hint: string }>
> = {
  bad_request: { status: 400, title: "Not an HTTP request", hint: "send HTTP/1.1" },
  invalid_json: { status: 400, title: "Not JSON", hint: "send JSON with Content-Type: application/json" },
  unauthorised: { status: 401, title: "A token is needed", hint: "send Authorization: Bearer <token>" },
  forbidden: {
    status: 403,
    title: "Not allowed",
    hint: "send the request with a token that has the needed role",
  },
  not_found: {
    status: 404,
    title: "Not found",
    hint: "look up the name in a list, or the path in /openapi.json",
  },
  method_not_allowed: { status: 405, title: "Method not allowed", hint: "see the Allow header" },
  request_timeout: {
    status: 408,
    title: "The request came too slowly",
    hint: "send the request again, without pauses",
  },
  conflict: { status: 409, title: "Conflict", hint: "use another id, or the existing execution" },
  gone: { status: 409, title: "It has ended", hint: "start another execution" },
  wrong_status: {
    status: 409,
    title: "Not possible in the present status",
    hint: "check the execution's status first",
  },
  update_refused: {
    status: 409,
    title: "The execution has refused the update",
    hint: "see the reason; send another update",
  },
  stale_attempt: { status: 409, title: "The attempt is over", hint: "stop working on it" },
  too_large: { status: 413, title: "Too large", hint: "send less, or a reference to the data" },
  not_owner: { status: 421, title: "Another node owns it", hint: "ask that node" },
  invalid_input: { status: 422, title: "Invalid input", hint: "see /openapi.json for what is expected" },
  invalid_definition: { status: 422, title: "Invalid definition", hint: "correct the definition" },
  unknown_field: {
    status: 422,
    title: "Unknown field",
    hint: "leave out the unknown field; /openapi.json lists the known ones",
  },
  not_storable: { status: 422, title: "Cannot be stored", hint: "send plain JSON data" },
  too_deep: { status: 422, title: "Nested too deeply", hint: "flatten the data" },
  rate_limited: { status: 429, title: "Too many requests", hint: "wait for Retry-After seconds" },
  headers_too_large: { status: 431, title: "Headers too large", hint: "send smaller headers" },
  internal: { status: 500, title: "A bug in the server", hint: "look at the server's log" },
  store_unavailable: { status: 503, title: "The store is not available", hint: "try again a little later" },
  not_ready: { status: 503, title: "Not ready", hint: "try again a little later" },
  timeout: {
    status: 504,
    title: "Timed out",
    hint: "the request may still be applied; check the state, then repeat the request",
  },
};

/** Returns the reason of a store fault if clients may see it. Other reasons may contain internals, and are only logged. */
function whyAway({ message }: StoreFault): string {
  return message.startsWith("the database is failing over") ? `: ${message}` : "";
}

/** The rejection of an exception; null if the exception is a bug. */
export function toRejection(thrown: unknown): Rejection | null {
  if (thrown instanceof DamagedData) return damagedRow(thrown);
  if (thrown instanceof StoreFault)
    return reject("store_unavailable", `the store could not execute the request${whyAway(thrown)}`);
  if (!(thrown instanceof RondoError)) return null;
  const { code, message, hint, path } = thrown;
  const bare = hint === undefined ? message : message.replace(` (${hint})`, "");
  return reject(code, bare, defined({ hint, path }));
}

/** A refusal of a request, with any problem code. */
export interface Refusal {
  readonly code: ProblemCode;
  readonly message: string;
  readonly hint?: string;
  readonly path?: string;
  /** After how many seconds a retry makes sense. */
  readonly retryAfterS?: number;
}

export type Problem = Shape<typeof problemSchema>;

/** The media type of problems. */
export const PROBLEM_TYPE = "application/problem+json";

export function problemOf(refusal: Refusal): Problem {
  const { status, title, hint } = PROBLEMS[refusal.code];
  return {
    type: `urn:rondo:problem:${refusal.code}`,
    title,
    status,
    detail: refusal.message,
    code: refusal.code,
    hint: refusal.hint ?? hint,
    ...(refusal.path === undefined ? {} : { path: refusal.path }),
  };
}
