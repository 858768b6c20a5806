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
  /** The addresses of the servers, without trailing slashes; at least one. */
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
  /** A key with which the server applies the request only once, so that a POST can be repeated. */
  readonly idempotencyKey?: string;
  /** Whether a POST can be repeated because its body contains an id. */
  readonly isRepeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** HTTP statuses after which the request is sent to the next address. */
const PASS_ON: readonly number[] = [421, 502, 503];
/** Segments of a path that a URL resolves. */
const DOTS = /\/\.{1,2}(?=\/|$)/;
/** A proxy got no answer, so the server may have handled the request. */
const NO_ANSWER = 502;
/** System error codes that mean that no connection was made. */
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
        reject("not_found", `${path}: "." and ".." are not names: they would lead to another path`),
      );
    // A single address is tried twice, because the server may have closed a kept-alive connection meanwhile.
    const triesMax = Math.max(2, urls.length);
    const mayRepeat =
      options.method !== "POST" || options.idempotencyKey !== undefined || options.isRepeatable === true;
    let failure: RondoError | null = null;
    let thrown: unknown = null;
    // Other requests may change `#current` during this loop; this request still tries all addresses.
    const first = this.#current;
    for (let tried = 0; tried < triesMax; tried++) {
      const index = (first + tried) % urls.length;
      let response: HttpResponse;
      try {
        response = await this.#try(`${urls[index]}${path}`, body, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        // An error after which the server may have got the request says more than a refused connection.
        if (thrown === null || wasRefused(thrown)) thrown = error;
        if (!mayRepeat && !wasRefused(error)) break;
        continue;
      }
      if (response.status < 300) {
        this.#current = index;
        return response;
      }
      failure = new RondoError(problemOf(response.status, await response.text()));
      // After `store_unavailable` the write may have happened, or may still happen.
      const mayBeDone = response.status === NO_ANSWER || failure.code === "store_unavailable";
      const goesOn = PASS_ON.includes(response.status) && (mayRepeat || !mayBeDone);
      if (!goesOn) throw failure;
      if (urls.length === 1) break;
    }
    throw failure ?? unreachable(urls, thrown);
  }

  /** Makes the next request begin with the next address. */
  passOver(): void {
    this.#current = (this.#current + 1) % this.#options.urls.length;
  }

  #try(url: string, sent: string | undefined, options: RequestOptions): Promise<HttpResponse> {
    const { token, fetch } = this.#options;
    const { method = "GET", query, idempotencyKey, headers, signal } = options;
    // The server makes the span of the caller the parent of the execution's spans.
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

/** The body of a request as text. A value that is not JSON is refused here, before it could look like a server out of reach. */
function bodyOf({ text, body }: RequestOptions): string | undefined {
  if (text !== undefined || body === undefined) return text;
  try {
    return JSON.stringify(body);
  } catch (cause) {
    const why = `the request is not JSON: ${(cause as Error).message}`;
    throw new RondoError(reject("not_storable", why, { hint: "send plain JSON data" }), { cause });
  }
}

/**
 * Whether no connection was made, so that no byte of the request was sent. `fetch` hides the reason in the `cause` of its
 * error.
 */
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
