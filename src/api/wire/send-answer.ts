/** Writes answers and refusals to the wire. */
import type { ServerResponse } from "node:http";
import { checksum } from "../../std/hash.ts";
import type { Answer } from "../route.ts";
import { PROBLEM_TYPE, problemOf, type Refusal } from "./problem.ts";

/** On every answer: nothing here is for another site, for a frame, or to be guessed at. */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

type Sendable = Exclude<Answer, { kind: "streamed" } | { kind: "rejection" }>;

/** Writes an answer; 304 if the client has it already. Gives the status that was sent. */
export function sendAnswer(
  outgoing: ServerResponse,
  answer: Sendable,
  ifNoneMatch: string | undefined,
): number {
  const { status, headers = {} } = answer;
  const { etag } = headers;
  if (etag !== undefined && ifNoneMatch !== undefined && matches(ifNoneMatch, etag)) {
    outgoing.writeHead(304, { ...COMMON_HEADERS, "cache-control": "no-cache", etag }).end();
    return 304;
  }
  const isEmpty = status === 204;
  const body = answer.kind === "json" ? JSON.stringify(answer.body) : answer.body;
  outgoing.writeHead(status, {
    ...COMMON_HEADERS,
    ...(etag === undefined ? {} : { "cache-control": "no-cache" }),
    ...(isEmpty
      ? {}
      : {
          "content-type": answer.kind === "json" ? "application/json" : answer.type,
          "content-length": typeof body === "string" ? Buffer.byteLength(body) : body.byteLength,
        }),
    ...headers,
  });
  if (isEmpty) outgoing.end();
  else outgoing.end(body);
  return status;
}

/** Writes a refusal as a problem. */
export function sendProblem(
  outgoing: ServerResponse,
  refusal: Refusal,
  headers: Readonly<Record<string, string>> = {},
): number {
  const problem = problemOf(refusal);
  const retryAfterS = refusal.retryAfterS ?? (problem.status === 503 ? 1 : undefined);
  if (outgoing.headersSent || outgoing.destroyed) {
    outgoing.destroy();
    return problem.status;
  }
  const body = JSON.stringify(problem);
  outgoing.writeHead(problem.status, {
    ...COMMON_HEADERS,
    "content-type": PROBLEM_TYPE,
    "content-length": Buffer.byteLength(body),
    ...(problem.status === 401 ? { "www-authenticate": "Bearer" } : {}),
    ...(retryAfterS === undefined ? {} : { "retry-after": String(retryAfterS) }),
    ...headers,
  });
  outgoing.end(body);
  return problem.status;
}

/** An entity tag of a text: the revision it is of, and a checksum, since counts change without a revision. */
export function etagOf(text: string, revision: string | number): string {
  return `"${revision}-${checksum(text, 0).toString(36)}"`;
}

function matches(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch === "*" || ifNoneMatch.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
