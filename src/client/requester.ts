/**
 * Requests to a server, or to any of several: each address is tried in turn until one answers for itself. An address
 * that refuses the connection, or says that it is not ready, is passed over; one that breaks it off too, if asking twice
 * does no harm. The one that answered is asked first from then on.
 */
import { RondoError } from "../std/rejection.ts";
import { notRondo, problemOf, unreachable } from "./problem.ts";
import type { Fetch, HttpResponse } from "./transport.ts";

export interface RequesterOptions {
  /** Without slashes at their ends; at least one. */
  readonly urls: readonly string[];
  readonly token: string | null;
  readonly fetch: Fetch;
}

export interface RequestOptions {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Makes repeating a POST harmless. */
  readonly idempotencyKey?: string;
  /** A POST that is harmless to repeat by what it says. */
  readonly isRepeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Statuses by which an address says that another may do better, or it itself a little later. */
const PASS_ON: readonly number[] = [421, 502, 503];
/** Something in between had no answer: nobody knows what was done. */
const NO_ANSWER = 502;
/** What the system says when not even a connection was made. */
const REFUSED = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

export class Requester {
  readonly #options: RequesterOptions;
  /** The address that answered last. */
  #current = 0;

  constructor(options: RequesterOptions) {
    this.#options = options;
  }

  get urls(): readonly string[] {
    return this.#options.urls;
  }

  /** The value of a JSON answer; throws the server's refusal as a `RondoError`. */
  async json<T>(path: string, options: RequestOptions = {}): Promise<T> {
    const text = await (await this.send(path, options)).text();
    try {
      return (text === "" ? null : JSON.parse(text)) as T;
    } catch (cause) {
      throw notRondo(this.urls, cause);
    }
  }

  /** The answer, if it is one of success. */
  async send(path: string, options: RequestOptions = {}): Promise<HttpResponse> {
    const { urls } = this.#options;
    // A single address gets a second chance: a kept connection may have been closed under the request.
    const triesMax = Math.max(2, urls.length);
    const mayRepeat =
      options.method !== "POST" || options.idempotencyKey !== undefined || options.isRepeatable === true;
    let failure: RondoError | null = null;
    let thrown: unknown = null;
    // Others change which one answered last meanwhile; this request tries all of them.
    const first = this.#current;
    for (let tried = 0; tried < triesMax; tried++) {
      const index = (first + tried) % urls.length;
      let response: HttpResponse;
      try {
        response = await this.#try(`${urls[index]}${path}`, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        thrown = error;
        if (!mayRepeat && !wasRefused(error)) break;
        continue;
      }
      if (response.status < 300) {
        this.#current = index;
        return response;
      }
      failure = new RondoError(problemOf(response.status, await response.text()));
      // A store that takes no writes just now may have taken this one before, or take it yet.
      const mayBeDone = response.status === NO_ANSWER || failure.code === "store_unavailable";
      const goesOn = PASS_ON.includes(response.status) && (mayRepeat || !mayBeDone);
      if (!goesOn) throw failure;
      if (urls.length === 1) break;
    }
    throw failure ?? unreachable(urls, thrown);
  }

  /** Has the next request begin with another address. */
  passOver(): void {
    this.#current = (this.#current + 1) % this.#options.urls.length;
  }

  #try(url: string, options: RequestOptions): Promise<HttpResponse> {
    const { token, fetch } = this.#options;
    const { method = "GET", query, body, idempotencyKey, headers, signal } = options;
    return fetch(`${url}${queryText(query)}`, {
      method,
      headers: {
        accept: "application/json",
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

/** Whether nothing was sent at all. `fetch` hides the reason behind its own error. */
function wasRefused(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return REFUSED.has(code ?? "") || REFUSED.has(cause?.code ?? "");
}

function queryText(query: RequestOptions["query"]): string {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
