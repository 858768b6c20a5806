/**
 * Cross-origin requests of browsers (CORS). Pages of the configured origins may use the paths below `/v1/`, with a bearer token.
 * Cookies of such pages never count, and the server never allows credentials, so `*` is safe too. Sessions, the dashboard and all
 * other paths stay closed to other origins.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isForeign } from "../../net/hosts.ts";

/** Which pages of other origins may use the API. */
export interface CorsSettings {
  /** Origins such as `https://app.example`, or `*` for all. */
  readonly origins: readonly string[];
}

/**
 * Matches a path below `/v1/` and captures its first segment. The router decodes paths, so a segment with other characters
 * could stand for any name, and does not match.
 */
const API = /^\/v1\/([a-z-]+)(?:\/|$)/;
/** Sessions are cookies, so they are only for the server's own pages. */
const SESSION = "session";
const METHODS = "GET, HEAD, POST, PUT, DELETE";
const REQUEST_HEADERS = [
  "accept",
  "authorization",
  "content-type",
  "idempotency-key",
  "if-none-match",
  "last-event-id",
  "rondo-reason",
  "traceparent",
  "tracestate",
].join(", ");
const EXPOSED = ["etag", "last-event-id", "location", "preference-applied", "retry-after"].join(", ");
/** How long a browser may cache the answer to a preflight request. */
const MAX_AGE_S = "600";

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor({ origins }: CorsSettings) {
    this.#origins = new Set(origins);
  }

  /** Whether pages of this origin may use a path. */
  allows(origin: string, url: string | undefined): boolean {
    const whole = `http://host${url ?? ""}`;
    // Parsing the URL removes dot segments, as the router does.
    const name = URL.canParse(whole) ? API.exec(new URL(whole).pathname)?.[1] : undefined;
    const isOpen = name !== undefined && name !== SESSION;
    return isOpen && (this.#origins.has("*") || this.#origins.has(origin));
  }

  /**
   * Adds the headers that let a page of another origin read the answer. Answers a preflight request; true if it was one. The
   * caller has checked the origin.
   */
  answer({ method, headers, url }: IncomingMessage, outgoing: ServerResponse): boolean {
    const { origin } = headers;
    if (origin === undefined || !isForeign(headers) || !this.allows(origin, url)) return false;
    outgoing.setHeader("access-control-allow-origin", origin);
    outgoing.setHeader("vary", "origin");
    outgoing.setHeader("access-control-expose-headers", EXPOSED);
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return false;
    outgoing.writeHead(204, {
      "access-control-allow-methods": METHODS,
      "access-control-allow-headers": REQUEST_HEADERS,
      "access-control-max-age": MAX_AGE_S,
    });
    outgoing.end();
    return true;
  }
}
