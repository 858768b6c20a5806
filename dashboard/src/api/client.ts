/**
 * Sends requests to the node's API. A refusal becomes a `Problem`, which says what went wrong and what to do. A user without
 * access gets the sign-in page.
 */
import { addressOf, type Choices, decoded } from "../core/address.ts";
import { Cell } from "../core/cell.ts";
import { lossSignal, noteAnswer, noteLoss } from "../core/connection.ts";
import { dropEarly, takeEarly } from "./early.ts";
import type { Session } from "./shapes.ts";

/** The session: not known yet, none (a token is needed), or the signed-in user. */
export const session = new Cell<Session | "unknown" | "nobody">("unknown");

/** A refusal of the API, or the lack of an answer. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  /** How long the node asks the client to wait, in milliseconds; 0 if it does not say. */
  readonly waitMs: number;
  /** The field of the request that is wrong, such as `input.file`; empty if it is none. */
  readonly path: string;

  constructor(facts: {
    status: number;
    code: string;
    detail: string;
    hint: string;
    waitMs?: number;
    path?: string;
  }) {
    super(facts.detail);
    this.status = facts.status;
    this.code = facts.code;
    this.hint = facts.hint;
    this.waitMs = facts.waitMs ?? 0;
    this.path = facts.path ?? "";
  }

  /** Whether a repeated request may succeed. A wrong request never does. */
  get mayPass(): boolean {
    return this.status < 400 || this.status >= 500 || PASSING.includes(this.status);
  }
}

/** HTTP statuses of temporary refusals: too slow, wrong node, too early, too often. */
const PASSING: readonly number[] = [408, 421, 425, 429];

/** The query and body of a request. */
export interface Sent {
  readonly body?: unknown;
  readonly query?: Choices;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Requests a path and returns the JSON answer. */
export async function get<T>(path: string, sent: Omit<Sent, "body"> = {}): Promise<T> {
  return (await (await ask("GET", path, sent)).json()) as T;
}

/**
 * Sends a request that changes data; returns the JSON answer, or null if there is none. The reason is stored in the audit log.
 */
export async function change<T>(
  method: "POST" | "DELETE",
  path: string,
  body?: unknown,
  reason?: string,
): Promise<T> {
  const headers = reason === undefined ? {} : { headers: { "rondo-reason": encodeURIComponent(reason) } };
  const response = await ask(method, path, { ...headers, ...(body === undefined ? {} : { body }) });
  return (response.status === 204 ? null : await response.json()) as T;
}

/** Sends a request and returns the response if it is a success; throws a `Problem` otherwise. */
export async function ask(method: string, path: string, sent: Sent = {}): Promise<Response> {
  const { body, query, headers, signal } = sent;
  const request: RequestInit = { method, headers: { ...headers } };
  // What only reads is given up when the connection is lost. A change may have taken effect, so its answer is waited for.
  const signals = [...(signal === undefined ? [] : [signal]), ...(method === "GET" ? [lossSignal()] : [])];
  if (signals.length > 0) request.signal = AbortSignal.any(signals);
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers = { ...headers, "content-type": "application/json" };
  }
  let response: Response;
  try {
    const address = addressOf(path, query);
    response = await ((method === "GET" ? takeEarly(address) : null) ?? fetch(address, request));
  } catch (thrown) {
    if (signal?.aborted === true) throw thrown;
    noteLoss();
    throw new Problem({
      status: 0,
      code: "unreachable",
      detail: "The server does not answer.",
      hint: "Check whether it is running: rondo doctor. This page reconnects by itself.",
    });
  }
  noteAnswer();
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) session.set("nobody");
  throw problem;
}

async function problemOf(response: Response): Promise<Problem> {
  const { status } = response;
  const waitMs = 1_000 * (Number(response.headers.get("retry-after")) || 0);
  try {
    const facts = (await response.json()) as { code: string; detail: string; hint?: string; path?: string };
    return new Problem({ hint: "", ...facts, status, waitMs });
  } catch {
    const detail = `The server answered with status ${status}.`;
    return new Problem({ status, code: "unknown", detail, hint: "Try again in a moment.", waitMs });
  }
}

/** Finds out who the user is. A token in the address (#token=...) is first exchanged for a session. */
export async function openSession(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await signIn(decoded(token) ?? token);
      return;
    } catch (thrown) {
      if (!(thrown instanceof Problem) || thrown.status !== 401) throw thrown;
      refusedLink.set(thrown);
      return;
    }
  }
  session.set(await get<Session>("/v1/session"));
}

/** Why the token of the address was refused; null if there was none, or it was accepted. */
export const refusedLink = new Cell<Problem | null>(null);

/** Exchanges a token for a session cookie, which scripts cannot read. */
export async function signIn(token: string): Promise<void> {
  dropEarly();
  const response = await ask("POST", "/v1/session", { headers: { authorization: `Bearer ${token}` } });
  session.set((await response.json()) as Session);
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await change("DELETE", "/v1/session");
  session.set("nobody");
}

/** Whether the user has the rights of a role. */
export function may(role: "viewer" | "operator" | "admin", who: Session | "unknown" | "nobody"): boolean {
  if (typeof who === "string") return false;
  const order = ["viewer", "operator", "admin"];
  return order.indexOf(who.role) >= order.indexOf(role);
}
