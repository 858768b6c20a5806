/**
 * Checks the name by which a request reached the server, against DNS rebinding: a page of another site can make a browser send
 * requests to this server under a name that resolves to this machine. So the Host header must be a loopback name, the
 * advertised address, a configured name, or the IP address of the connection (a page can choose names, not addresses). If a
 * browser names the requesting site (Origin), that site must be the same host, or a configured one (CORS).
 */
import { isIP } from "node:net";
import { type Rejection, reject } from "../std/rejection.ts";

const LOOPBACK_V4 = /^127(?:\.\d{1,3}){3}$/;
const WILDCARDS = ["0.0.0.0", "::", "[::]", ""];

/** Whether only this machine has this address or name. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, "").toLowerCase();
  return (
    bare === "localhost" ||
    bare === "::1" ||
    LOOPBACK_V4.test(bare) ||
    LOOPBACK_V4.test(bare.replace(/^::ffff:/, ""))
  );
}

export interface HostNames {
  readonly host: string;
  readonly advertise: string | null;
  /** Names that reach this server, with or without a port. */
  readonly hosts: readonly string[];
}

export interface AskedHost {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
}

/** Whether a browser sent the request for a page of another origin than the server's own. */
export function isForeign({ host, origin }: AskedHost): boolean {
  return origin !== undefined && originHost(origin) !== host?.toLowerCase();
}

/** Checks Host and Origin of requests that came over TCP. */
export class HostCheck {
  readonly #names = new Set<string>();

  constructor({ host, advertise, hosts }: HostNames) {
    if (!WILDCARDS.includes(host))
      this.#names.add(nameOf(host.includes(":") && !host.startsWith("[") ? `[${host}]` : host));
    if (advertise !== null && URL.canParse(advertise)) this.#names.add(nameOf(new URL(advertise).host));
    for (const name of hosts) this.#names.add(nameOf(name));
  }

  /**
   * Why a request is refused because of its Host or Origin header; null if it is allowed. `allows` says whether another origin
   * is allowed.
   */
  check(
    asked: AskedHost,
    localAddress?: string,
    allows: (origin: string) => boolean = () => false,
  ): Rejection | null {
    const { host, origin } = asked;
    if (host === undefined) return reject("forbidden", "a request needs a Host header");
    const name = nameOf(host);
    if (!isLoopback(name) && !this.#names.has(name) && !isAddress(name, localAddress))
      return reject("forbidden", `this server does not answer to the name "${host.slice(0, 100)}"`, {
        hint: 'add it to "hosts" in the server\'s configuration, or set RONDO_ADVERTISE there',
      });
    if (origin === undefined || !isForeign(asked) || allows(origin)) return null;
    return reject("forbidden", `a page of ${origin.slice(0, 100)} may not send requests to this server`, {
      hint: 'requests of browsers come from the server\'s own pages only; other origins are listed in "cors" (RONDO_CORS), for paths below /v1/',
    });
  }
}

/** Whether a name is the IP address of this end of the connection. */
function isAddress(name: string, localAddress: string | undefined): boolean {
  const bare = name.replace(/^\[|\]$/g, "");
  const local = localAddress?.toLowerCase().replace(/^::ffff:(?=\d+\.)/, "");
  return isIP(bare) !== 0 && bare === local;
}

/** The name in a Host header: lower case, without port and final dot. */
function nameOf(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
}

function originHost(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host.toLowerCase() : null;
}
