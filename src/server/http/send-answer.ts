/** Writes answers and refusals to the wire. */
import type { ServerResponse } from "node:http";
import type { Clock } from "../../std/clock.ts";
import { checksum } from "../../std/hash.ts";
import type { Answer } from "../route.ts";
import { PROBLEM_TYPE, problemOf, type Refusal } from "./problem.ts";

/** Headers of every answer. They forbid use by other sites, display in frames, and guesses of the media type. */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** The same headers as a flat list of names and values. Node writes a list in two thirds of the time that it takes for an object. */
const COMMON_LIST: readonly string[] = Object.entries(COMMON_HEADERS).flat();

const SLICE_BYTES = 65_536;
/** The shortest interval between spaces that keep a connection alive. */
const ALIVE_MIN_MS = 100;

export type Sendable = Exclude<Answer, { kind: "streamed" | "waits" | "rejection" }>;

/** Writes an answer; status 304 without a body if the client has the answer already. Returns the status. */
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
  const isEmpty = status === 204 || (status === 202 && answer.kind === "json" && answer.body === null);
  const body = answer.kind === "json" ? JSON.stringify(answer.body) : answer.body;
  if (outgoing.headersSent) {
    give(outgoing, body);
    return status;
  }
  const list = [...COMMON_LIST];
  if (etag !== undefined) setHeader(list, "cache-control", "no-cache");
  if (!isEmpty) {
    const length = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
    list.push("content-type", answer.kind === "json" ? "application/json" : answer.type);
    list.push("content-length", String(length));
  }
  for (const name of Object.keys(headers)) setHeader(list, name, headers[name] as string);
  outgoing.writeHead(status, list);
  if (isEmpty) outgoing.end();
  else give(outgoing, body);
  return status;
}

/** Sets a header in a flat list of names and values. */
function setHeader(list: string[], name: string, value: string): void {
  for (let i = 0; i < list.length; i += 2)
    if (list[i] === name) {
      list[i + 1] = value;
      return;
    }
  list.push(name, value);
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

/** Writes a body in slices, each after the client has read the last one, so that a client that reads nothing is noticed. */
function give(outgoing: ServerResponse, body: string | Uint8Array): void {
  if (body.length <= SLICE_BYTES) {
    outgoing.end(body);
    return;
  }
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  let from = 0;
  const go = (): void => {
    while (from < bytes.length) {
      const isTaken = outgoing.write(bytes.subarray(from, from + SLICE_BYTES));
      from += SLICE_BYTES;
      if (isTaken) continue;
      outgoing.once("drain", go);
      return;
    }
    outgoing.end();
  };
  go();
}

/**
 * Sends spaces to a client that waits for JSON, so that proxies keep the connection; the first space sends the headers. Returns
 * a function that stops the spaces.
 */
export function keepAlive(outgoing: ServerResponse, clock: Clock, everyMs: number): () => void {
  const ms = Math.max(ALIVE_MIN_MS, everyMs);
  let cancel = (): void => {};
  const show = (): void => {
    if (outgoing.destroyed) return;
    if (!outgoing.headersSent)
      outgoing.writeHead(200, {
        ...COMMON_HEADERS,
        "content-type": "application/json",
        // Proxies that know this header (nginx and others) pass on each part of the answer at once.
        "x-accel-buffering": "no",
      });
    outgoing.write(" ");
    cancel = clock.after(ms, show);
  };
  cancel = clock.after(ms, show);
  return () => cancel();
}

/**
 * Closes the connection of a client that reads nothing of its answer for this time. A client that reads slowly may continue.
 */
export function cutIfUnread(
  outgoing: ServerResponse,
  { clock, stallMs }: { readonly clock: Clock; readonly stallMs: number },
): void {
  // The socket of the request is used, because the response has no socket while earlier answers wait.
  const { socket } = outgoing.req;
  const isTaken = outgoing.socket !== null && outgoing.writableEnded && socket.writableLength === 0;
  // No timer is needed if the operating system has accepted the whole answer already, which is usual.
  if (isTaken || outgoing.destroyed || socket.destroyed) return;
  let cancel = (): void => {};
  const check = (before: number): void => {
    cancel = clock.after(stallMs, () => {
      if (socket.bytesWritten === before) socket.destroy();
      else check(socket.bytesWritten);
    });
  };
  check(socket.bytesWritten);
  outgoing.once("finish", () => cancel()).once("close", () => cancel());
}

/** Makes an entity tag from the revision and a checksum of the text: counts in the text change without a new revision. */
export function etagOf(text: string, revision: string | number): string {
  return `"${revision}-${checksum(text, 0).toString(36)}"`;
}

function matches(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch === "*" || ifNoneMatch.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
