/**
 * Sends requests to one of several addresses. Each address is tried in turn until one answers. An address that refuses the
 * connection or answers that it is not ready is skipped. An address that breaks the connection is skipped only if the request
 * can be repeated without harm. The next request begins with the address that answered last.
 */
import { activeTrace } from "../std/open-telemetry.ts";
import { RondoError, reject } from "../std/rejection.ts";
import { notRondo, problemOf, unreachable } from "./problem.ts";
import type { Fetch, HttpResponse } from "./transport.ts";

export interface RequesterOptions {
  /** The addresses of the servers, without trailing slashes. There is at least one. */
  readonly urls: readonly string[];
  readonly token: string | null;
  readonly fetch: Fetch;
}

export interface RequestOptions {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** The request body, sent as JSON. */
  readonly body?: unknown;
  /** The request body, if it is JSON text already. */
  readonly text?: string;
  /** The idempotency key of a POST. The server applies requests with the same key only once, so the POST can be repeated. */
  readonly idempotencyKey?: string;
  /** Whether a POST can be repeated safely because its body contains an id. */
  readonly isRepeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** HTTP statuses after which the request is sent to the next address. */
const PASS_ON: readonly number[] = [421, 502, 503];
/** Path segments that URL parsers remove: "." and "..". */
const DOTS = /\/\.{1,2}(?=\/|$)/;
/** The HTTP status of a proxy that got no answer. The server may have handled the request. */
const NO_ANSWER = 502;
/** System error codes that mean that no connection to the server was made. */
const REFUSED = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

export class Requester {
  readonly #options: RequesterOptions;
  /** The index of the address that answered last. */
  #current = 0;

  constructor(options: RequesterOptions) {
    this.#options = options;
  }

  get urls(): readonly string[] {
    return this.#options.urls;
  }

  /** Returns the JSON value of a response. Throws the server's refusal as a `RondoError`. */
  async json<T>(path: string, options: RequestOptions = {}): Promise<T> {
    const text = await (await this.send(path, options)).text();
    try {
      return (text === "" ? null : JSON.parse(text)) as T;
    } catch (cause) {
      throw notRondo(this.urls, cause);
    }
  }

  /** Sends a request; returns a response with a success status, and throws otherwise. */
  async send(path: string, options: RequestOptions = {}): Promise<HttpResponse> {
    const { urls } = this.#options;
    const body = bodyOf(options);
    if (DOTS.test(path))
      throw new RondoError(
        reject(
          "not_found",
          `${path}: "." and ".." cannot be names, because they would change the path of the request`,
        ),
      );
    // A single address is tried twice, because the server may have closed the kept-alive connection before the request.
    const triesMax = Math.max(2, urls.length);
    const mayRepeat =
      options.method !== "POST" || options.idempotencyKey !== undefined || options.isRepeatable === true;
    let failure: RondoError | null = null;
    let thrown: unknown = null;
    // Other requests may change `#current` during this loop. This request tries all addresses all the same.
    const first = this.#current;
    for (let tried = 0; tried < triesMax; tried++) {
      const index = (first + tried) % urls.length;
      let response: HttpResponse;
      try {
        response = await this.#try(`${urls[index]}${path}`, body, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        // If the server may have received the request, that error is thrown rather than the error of a refused connection.
        if (thrown === null || wasRefused(thrown)) thrown = error;
        if (!mayRepeat && !wasRefused(error)) break;
        continue;
      }
      if (response.status < 300) {
        this.#current = index;
        return response;
      }
      failure = new RondoError(problemOf(response.status, await response.text()));
      // After `store_unavailable` the server may have stored the request, or may still store it.
      const mayBeDone = response.status === NO_ANSWER || failure.code === "store_unavailable";
      const goesOn = PASS_ON.includes(response.status) && (mayRepeat || !mayBeDone);
      if (!goesOn) throw failure;
      if (urls.length === 1) break;
    }
    throw failure ?? unreachable(urls, thrown);
  }

  /** Makes the next request begin with the address after the current one. */
  passOver(): void {
    this.#current = (this.#current + 1) % this.#options.urls.length;
  }

  #try(url: string, sent: string | undefined, options: RequestOptions): Promise<HttpResponse> {
    const { token, fetch } = this.#options;
    const { method = "GET", query, idempotencyKey, headers, signal } = options;
    // The header makes the caller's span the parent of the execution's spans at the server.
    const trace = activeTrace();
    return fetch(`${url}${queryText(query)}`, {
      method,
      headers: {
        accept: "application/json",
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(sent === undefined ? {} : { "content-type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        ...(trace === null ? {} : { traceparent: trace }),
        ...headers,
      },
      ...(sent === undefined ? {} : { body: sent }),
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

/** Returns the body of a request as text. Throws if it cannot be JSON, so that this error is not reported as an unreachable server. */
function bodyOf({ text, body }: RequestOptions): string | undefined {
  if (text !== undefined || body === undefined) return text;
  try {
    return JSON.stringify(body);
  } catch (cause) {
    const why = `the request cannot be written as JSON: ${(cause as Error).message}`;
    throw new RondoError(reject("not_storable", why, { hint: "send plain JSON data" }), { cause });
  }
}

/** Whether no connection was made, so that the server received nothing. `fetch` has the reason in the `cause` of its error. */
export function wasRefused(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return REFUSED.has(code ?? "") || REFUSED.has(cause?.code ?? "");
}

function queryText(query: RequestOptions["query"]): string {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
