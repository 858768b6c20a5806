/**
 * The options of `connect`. They are checked when `connect` is called, so that a mistake is not reported as an unreachable
 * server.
 */
import { anyFunction, type Called, checkOptions } from "../protocol/check-options.ts";
import { type Decode, object, optional, secret, where } from "../std/decode.ts";
import { RondoError, reject } from "../std/rejection.ts";
import type { Fetch } from "./transport.ts";

/** Options of `connect`. Either `url` or `urls` is needed. */
export interface ConnectOptions {
  /**
   * The address of a server, such as `http://127.0.0.1:7777`.
   *
   * @default none
   */
  readonly url?: string;
  /**
   * The addresses of several servers of one cluster; they are tried in turn.
   *
   * @default none
   */
  readonly urls?: readonly string[];
  /**
   * The token, as `rondo token create` shows it.
   *
   * @default none
   */
  readonly token?: string;
  /**
   * The function that sends requests, instead of the client's own.
   *
   * @default Node's HTTP module; elsewhere the global `fetch`
   */
  readonly fetch?: Fetch;
  /**
   * How long calls that wait or follow (such as `result()`, `events()`, `watch()`) try to reconnect before they throw, in milliseconds.
   *
   * @default 60_000
   */
  readonly reconnectMs?: number;
}

const EXAMPLE = 'connect({ url: "http://127.0.0.1:7777" })';

const CONNECT = {
  name: "connect",
  example: EXAMPLE,
  options: object(
    {
      url: optional(
        where(
          "one address",
          (value) => typeof value === "string",
          `${EXAMPLE}; give several addresses as urls: ["http://...", "http://..."]`,
        ),
      ),
      urls: optional(
        where(
          "a list of addresses",
          (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
          'connect({ urls: ["http://127.0.0.1:7777", "http://127.0.0.1:7778"] })',
        ),
      ),
      token: optional(
        secret(
          "a text without spaces and control characters",
          (value) => typeof value === "string" && /^[\x21-\x7e]+$/.test(value),
          "as `rondo token create` has shown it",
        ),
      ),
      fetch: anyFunction,
      reconnectMs: optional(
        where(
          "a whole number from 0",
          (value) => Number.isSafeInteger(value) && (value as number) >= 0,
          "in milliseconds, such as 60000",
        ),
      ),
    } satisfies Readonly<Record<keyof ConnectOptions, Decode<unknown>>>,
    { what: "connect" },
  ),
} satisfies Called;

/** Returns the server addresses without trailing slashes. Throws a `RondoError` if an option is wrong. */
export function addressesOf(options: ConnectOptions): string[] {
  const refused = checkOptions(options, CONNECT);
  if (refused !== null) throw new RondoError(refused);
  const { url, urls = [], fetch } = options;
  const all = [...(url === undefined ? [] : [url]), ...urls];
  if (all.length === 0)
    throw new RondoError(
      reject("invalid_input", "connect needs the address of a server", { path: "url", hint: EXAMPLE }),
    );
  // If the caller gives its own `fetch`, addresses need not be http or https.
  const wrong = fetch === undefined ? all.find((address) => !isHttp(address)) : undefined;
  if (wrong !== undefined)
    throw new RondoError(
      reject("invalid_input", `"${wrong.slice(0, 100)}" is not an http or https address of a server`, {
        path: "url",
        hint: EXAMPLE,
      }),
    );
  return all.map((address) => address.replace(/\/+$/, ""));
}

/** Whether an address is http or https. In a browser it may be relative to the page. */
function isHttp(address: string): boolean {
  const page = (globalThis as { readonly location?: { readonly href: string } }).location?.href;
  return URL.canParse(address, page) && /^https?:$/.test(new URL(address, page).protocol);
}
