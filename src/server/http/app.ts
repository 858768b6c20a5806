/** Builds an HTTP application from the route table: authentication, rate limit, checks, handler, audit log, answer. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { assert } from "../../std/assert.ts";
import type { Clock } from "../../std/clock.ts";
import {
  activeTrace,
  contextOf,
  hasTracer,
  inSpan as inActiveSpan,
  SPAN_KIND,
  SPAN_STATUS,
  startSpan,
} from "../../std/open-telemetry.ts";
import { isRejection, type Rejection, RondoError } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { Longer, within } from "../../std/within.ts";
import { StoreFault } from "../../store/store.ts";
import { type Access, anybody, bearerOf, peerOf, type Via } from "../auth/access.ts";
import type { Caller } from "../auth/caller.ts";
import type { RateLimit } from "../auth/rate-limit.ts";
import type { Metrics } from "../metrics.ts";
import type { ApiLimits } from "../parts.ts";
import type { Answer, Ask, Route } from "../route.ts";
import { WAIT_MAX_MS } from "../schemas/execution.ts";
import type { AuditLog } from "../services/audit-log.ts";
import type { IdempotencyKeys, KeyUse } from "../services/idempotency-keys.ts";
import { describeRoute } from "./openapi.ts";
import { type Refusal, toRejection } from "./problem.ts";
import { dropBody } from "./read-body.ts";
import { type CheckedRequest, checkRequest } from "./request-check.ts";
import { cutIfUnread, type Sendable, sendAnswer, sendProblem } from "./send-answer.ts";

/**
 * The parts of a request that Hono handlers need besides the request: Node's request and response, and the kind of connection.
 */
export interface Bindings {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly via: Via;
}

export type App = OpenAPIHono<{ Bindings: Bindings }>;

type AppContext = Context<{ Bindings: Bindings }>;

/** Requests whose handlers want to know when they are over (long polls, streams), each with the id of its caller's token. */
export class WaitingRequests {
  readonly #requests = new TransientMap<
    number,
    { readonly end: () => void; readonly token: string | null }
  >();
  #added = 0;

  /** Adds a request with the token of its caller. `end` ends it. Returns the number by which it is removed. */
  add(end: () => void, token: string | null): number {
    const n = ++this.#added;
    this.#requests.set(n, { end, token });
    return n;
  }

  remove(n: number): void {
    this.#requests.delete(n);
  }

  /** Ends the requests of a token, or all requests. */
  end(of?: string): void {
    for (const { end, token } of this.#requests.values()) if (of === undefined || token === of) end();
  }
}

export interface AppParts {
  readonly routes: readonly Route[];
  readonly access: Access;
  readonly rateLimit: RateLimit;
  readonly audit: AuditLog;
  readonly keys: IdempotencyKeys;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly limits: ApiLimits;
  readonly onFault: (fault: Error) => void;
  /** Why the store accepts no writes; null if it accepts them. */
  readonly storeFault: () => Error | null;
  /** Requests that wait. The server ends them when it closes or when their token is revoked. */
  readonly waiting: WaitingRequests;
}

/** The cost of a request with a wrong token: it uses up the rate limit of this many requests. */
const WRONG_TOKEN_COST = 40;
/** How long a request waits for a store that accepts no writes. */
const STORE_WAIT_MS = 5_000;
/** The hint after a refusal if the request may have been applied anyway. */
const REPEAT =
  "check whether the request was applied, or repeat it with the same id or Idempotency-Key: it is not applied twice";
/** Codes of refusals after which the request may have been applied anyway. */
const UNKNOWN_OUTCOME: readonly Refusal["code"][] = ["timeout", "store_unavailable", "internal"];

export function buildApp(parts: AppParts): App {
  const app: App = new OpenAPIHono();
  for (const route of parts.routes) {
    app.openAPIRegistry.registerPath(describeRoute(route));
    app.on(route.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ":$1"), (c) =>
      serve(c, parts, { path: route.path, run: () => answer(c, parts, route) }),
    );
  }
  app.notFound((c) => serve(c, parts, { path: "(none)", run: () => nowhere(c, parts) }));
  return app;
}

/** Serves one request to its end. */
async function serve(
  c: AppContext,
  parts: AppParts,
  { path, run }: { path: string; run: () => Promise<number | "streamed"> },
): Promise<Response> {
  const { incoming, outgoing } = c.env;
  const from = parts.clock.now();
  const method = c.req.method.toLowerCase();
  const status = await inSpan(incoming, { method, path }, async () => {
    let sent: number | "streamed";
    try {
      sent = await run();
    } catch (thrown) {
      sent = sendProblem(outgoing, refusalOf(thrown, parts));
    }
    // A handler that streams writes to its client itself.
    if (sent === "streamed") return 200;
    cutIfUnread(outgoing, { clock: parts.clock, stallMs: parts.limits.streamStallMs });
    return sent;
  });
  dropBody(incoming);
  parts.metrics.request({ route: path, method, status, ms: parts.clock.now() - from });
  return RESPONSE_ALREADY_SENT;
}

async function answer(c: AppContext, parts: AppParts, route: Route): Promise<number | "streamed"> {
  const { incoming, outgoing } = c.env;
  const admitted = admit(c, parts, route);
  const caller = admitted instanceof Promise ? await inTime(route, parts, () => admitted) : admitted;
  if ("code" in caller) return sendProblem(outgoing, caller);
  const request = { incoming, params: c.req.param(), query: c.req.queries() };
  const checked = await checkRequest(request, route, parts.limits);
  if (isRejection(checked)) return sendProblem(outgoing, checked);
  const asked = new Asked({ bindings: c.env, caller, checked, waiting: parts.waiting });
  // The time limit covers the whole request, because the store is also read before and after the handler runs.
  const given = await inTime(route, parts, async () => {
    const handled = await handle(c, asked, { parts, route });
    const isNoted = route.audit !== undefined && !("code" in handled) && handled.kind !== "streamed";
    if (isNoted) await note(route, asked, parts);
    return handled;
  });
  if ("code" in given) return sendProblem(outgoing, given);
  if (given.kind === "streamed") return "streamed";
  const last = await lastAnswer(given, parts);
  if ("code" in last) return sendProblem(outgoing, last);
  return sendAnswer(outgoing, last, incoming.headers["if-none-match"]);
}

/**
 * Returns the final answer of a handler, which may ask to wait first. The engine is asked again after the wait, so that
 * question has a time limit too.
 */
async function lastAnswer(given: Answer, { clock, limits }: AppParts): Promise<Sendable | Refusal> {
  const longestMs = WAIT_MAX_MS + limits.answerMs;
  let last: Answer | Refusal = given;
  while ("kind" in last && last.kind === "waits")
    last = await within<Answer | Refusal>(clock, longestMs, last.answer(), () => late(longestMs));
  if ("code" in last) return last;
  assert(last.kind !== "streamed", "a handler that waits must not answer with a stream");
  return last;
}

/** Calls the handler of a route, under the Idempotency-Key of the request if it has one. */
async function handle(
  c: AppContext,
  asked: Asked,
  { parts, route }: { parts: AppParts; route: Route },
): Promise<Answer | Refusal> {
  const { caller, body, idempotencyKey: key } = asked;
  if (key === null || c.req.method !== "POST") return route.handle(asked);
  const { keys } = parts;
  const { pathname, searchParams } = new URL(c.req.url);
  // A repeated request may ask for another `wait` than the first one.
  searchParams.delete("wait");
  const query = searchParams.toString();
  const target = `POST ${pathname}${query === "" ? "" : `?${query}`}`;
  const use: KeyUse | Rejection = await keys.begin({ caller, key, target, body });
  if (isRejection(use)) return use;
  let isUsed = true;
  try {
    // After the time limit the key can be used again, even if the handler never ends.
    const given = await inTime(route, parts, async () => route.handle(asked));
    isUsed = !("code" in given) || UNKNOWN_OUTCOME.includes(given.code);
    return given;
  } catch (thrown) {
    isUsed = !(thrown instanceof RondoError);
    throw thrown;
  } finally {
    await keys.end(use, isUsed);
  }
}

/** Answers a request for an unknown path or method. A caller without access does not learn which of the two is unknown. */
async function nowhere(c: AppContext, parts: AppParts): Promise<number> {
  const { outgoing } = c.env;
  const caller = await admit(c, parts, { access: "known" });
  if ("code" in caller) return sendProblem(outgoing, caller);
  const path = c.req.path.slice(0, 200);
  const methods = parts.routes.filter((route) => fits(route.path, c.req.path)).map(({ method }) => method);
  if (methods.length === 0) {
    const bare = path.replace(/\/+$/, "");
    const isMeant = bare !== path && parts.routes.some((route) => fits(route.path, bare));
    const hint = isMeant ? { hint: `paths end without a slash: ${bare}, or ${bare}/<id>` } : {};
    return sendProblem(outgoing, { code: "not_found", message: `there is no route ${path}`, ...hint });
  }
  const allow = [...new Set(methods)].map((method) => method.toUpperCase()).join(", ");
  return sendProblem(outgoing, { code: "method_not_allowed", message: `${path} takes ${allow}` }, { allow });
}

/** Authenticates and authorises the caller. Only a caller with an unknown token may have to wait for the store. */
function admit(
  c: AppContext,
  { access, rateLimit }: AppParts,
  route: Pick<Route, "access" | "isGlobal" | "scope">,
): Caller | Refusal | Promise<Caller | Refusal> {
  const { incoming, via } = c.env;
  const admitKnown = (caller: Caller): Caller | Refusal => {
    const wait = caller.countedBy === null ? 0 : rateLimit.take(caller.countedBy);
    return wait > 0 ? tooMany(wait) : (access.allow(caller, route, c.req.param("id")) ?? caller);
  };
  const caller = identify(c, access, route);
  if (!isRejection(caller)) return admitKnown(caller);
  // The rate limit is charged before the store is read, also for callers whose token turns out to be valid.
  const wait = rateLimit.take(peerOf(incoming), WRONG_TOKEN_COST);
  if (wait > 0) return tooMany(wait);
  const again = route.access === "attempt" ? null : access.identifyAnew(incoming, via);
  if (again === null) return caller;
  return again.then((found) => (isRejection(found) ? found : admitKnown(found)));
}

function tooMany(wait: number): Refusal {
  return { code: "rate_limited", message: `too many requests: wait ${wait} s`, retryAfterS: wait };
}

function identify(c: AppContext, access: Access, route: Pick<Route, "access">): Caller | Rejection {
  const { incoming, via } = c.env;
  if (route.access === "attempt") return access.identifyAttempt(incoming, c.req.param("id") ?? "");
  const known = access.identify(incoming, via);
  return isRejection(known) && route.access === "everyone" ? anybody(incoming) : known;
}

/** Returns the result of `work`, or a refusal after the route's time limit. The work continues, and its late result is dropped. */
async function inTime<T>(route: Route, parts: AppParts, work: () => Promise<T>): Promise<T | Refusal> {
  const { clock, limits, storeFault } = parts;
  const timeMs = route.timeMs === undefined ? limits.answerMs : route.timeMs;
  if (timeMs === null) return work();
  let leftMs = timeMs;
  const nextMs = (): number => {
    const ms = Math.min(leftMs, STORE_WAIT_MS);
    leftMs -= ms;
    return ms;
  };
  return within<T | Refusal>(clock, nextMs(), work(), () => {
    const fault = storeFault();
    if (fault !== null) return notWritten(fault);
    if (leftMs > 0) return new Longer(nextMs());
    return late(timeMs);
  });
}

function late(ms: number): Refusal {
  return { code: "timeout", message: `there was no answer within ${ms} ms`, hint: REPEAT };
}

/**
 * The refusal while the store accepts no writes: the request waits in memory, and is applied if the store recovers before a
 * restart.
 */
function notWritten(fault: Error): Refusal {
  return {
    code: "store_unavailable",
    message: `the store takes no writes just now (${fault.message.slice(0, 1_000)}); the request may still be applied`,
    hint: REPEAT,
    retryAfterS: STORE_WAIT_MS / 1_000,
  };
}

async function note(route: Route, asked: Asked, { audit }: AppParts): Promise<void> {
  const { name: who, role } = asked.caller;
  const reason = reasonOf(asked);
  const entry = {
    ...{ who, role, action: route.audit ?? "", ...asked.named },
    ...(reason === null ? {} : { reason }),
  };
  // An admin's action is in the audit log before the request is answered; the actions of others are logged a moment later.
  if (route.access === "admin") await audit.note(entry);
  else audit.noteLater(entry);
}

/** The longest reason in the audit log, in characters. */
const REASON_MAX = 500;

/** The caller's reason for a change: the `reason` of the body, or the header Rondo-Reason, percent-encoded. */
function reasonOf({ body, header }: Asked): string | null {
  const given =
    typeof body === "object" && body !== null && "reason" in body ? body.reason : header("rondo-reason");
  if (typeof given !== "string" || given === "") return null;
  return decodedText(given).slice(0, REASON_MAX);
}

function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

/** Converts an exception into the refusal that the client gets. */
function refusalOf(thrown: unknown, parts: AppParts): Refusal {
  const refusal = toRejection(thrown);
  if (refusal === null || thrown instanceof StoreFault) parts.onFault(toError(thrown));
  return refusal ?? { code: "internal", message: "the server failed to answer" };
}

/** Whether a path matches a pattern of the route table. */
function fits(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split("/"), path.split("/")];
  return (
    wanted.length === given.length &&
    wanted.every((part, i) => (part.startsWith("{") ? given[i] !== "" : part === given[i]))
  );
}

/** A request in the form that route handlers get. */
export class Asked implements Ask {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly idempotencyKey: string | null;
  readonly caller: Caller;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly #waiting: WaitingRequests;
  #signal: AbortSignal | null = null;
  /** The functions to call when the request is over; null before the first one is added. */
  #onOver: Set<() => void> | null = null;
  #hasEnded = false;
  /** The target and the project of the request in the audit log. */
  named: { target: string; project: string | null };

  constructor(parts: {
    bindings: Bindings;
    caller: Caller;
    checked: CheckedRequest;
    waiting: WaitingRequests;
  }) {
    const { bindings, caller, checked } = parts;
    this.params = checked.params;
    this.query = checked.query;
    this.body = checked.body;
    this.idempotencyKey = checked.idempotencyKey;
    this.caller = caller;
    this.incoming = bindings.incoming;
    this.outgoing = bindings.outgoing;
    this.#waiting = parts.waiting;
    const [target] = Object.values((checked.params ?? {}) as Record<string, string>);
    this.named = { target: target ?? "", project: caller.project };
  }

  get bearer(): string | null {
    return bearerOf(this.incoming);
  }

  get trace(): string | null {
    return traceOf(this.incoming);
  }

  /** This is an arrow function because handlers destructure their `ask`. */
  readonly whenOver = (call: () => void): (() => void) => {
    if (this.#isOver) {
      call();
      return () => {};
    }
    const calls = (this.#onOver ??= this.#watch());
    calls.add(call);
    return () => calls.delete(call);
  };

  get signal(): AbortSignal {
    if (this.#signal === null) {
      const abort = new AbortController();
      this.whenOver(() => abort.abort(OVER));
      this.#signal = abort.signal;
    }
    return this.#signal;
  }

  /** Watches for the end of the request. Returns the set of the functions to call then. */
  #watch(): Set<() => void> {
    const calls = new Set<() => void>();
    const end = (): void => {
      this.#hasEnded = true;
      this.#waiting.remove(n);
      for (const call of calls) call();
      calls.clear();
    };
    const n = this.#waiting.add(end, this.caller.token);
    this.outgoing.once("close", end);
    return calls;
  }

  /** Whether the request is over. The client may have disconnected before anybody watched for that. */
  get #isOver(): boolean {
    return this.#hasEnded || this.outgoing.closed;
  }

  /** This is an arrow function because handlers destructure their `ask`. */
  readonly header = (name: string): string | undefined => {
    const value = this.incoming.headers[name.toLowerCase()];
    return Array.isArray(value) ? value[0] : value;
  };

  readonly target = (name: string, project?: string): void => {
    this.named = { target: name, project: project ?? this.named.project };
  };
}

/**
 * The abort reason of requests that are over. All requests share one error, because making an error with its stack costs more
 * than a small answer.
 */
const OVER = new Error("the request is over");

const TRACEPARENT = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

/** Runs a request inside an OpenTelemetry span; `run` returns the HTTP status that was sent. */
export async function inSpan(
  incoming: IncomingMessage,
  route: { readonly method: string; readonly path: string },
  run: () => Promise<number>,
): Promise<number> {
  if (!hasTracer()) return run();
  const parent = contextOf(clientTrace(incoming));
  const method = route.method.toUpperCase();
  const attributes = { "http.request.method": method, "http.route": route.path };
  const span = startSpan(`${method} ${route.path}`, { kind: SPAN_KIND.server, attributes }, parent);
  if (span.isRecording?.() !== true) return run();
  try {
    const status = await inActiveSpan(span, parent, run);
    span.setAttribute("http.response.status_code", status);
    if (status >= 500) span.setStatus({ code: SPAN_STATUS.error });
    return status;
  } finally {
    span.end();
  }
}

/** The trace context to pass on: that of the request's span if it is recorded, else the client's. */
export function traceOf(incoming: IncomingMessage): string | null {
  return activeTrace() ?? clientTrace(incoming);
}

function clientTrace({ headers }: IncomingMessage): string | null {
  const header = headers["traceparent"];
  return typeof header === "string" && TRACEPARENT.test(header) ? header : null;
}
