/**
 * The setting `allowTargets`, by which the operator allows targets: a host, an address or a range, with an optional port
 * (default: the usual ports). A listed host may have an internal address, but not an address that must be listed itself
 * (forbidden-address.ts).
 */
import { isIPv6 } from "node:net";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Address, type AddressRange, isIn, parseRange } from "./address.ts";

/** Ports that are open on every public host. */
export const USUAL_PORTS: readonly number[] = [80, 443, 8_080, 8_443];

interface Entry {
  readonly what: { readonly host: string } | { readonly range: AddressRange };
  /** The allowed port; null for the usual ports. */
  readonly port: number | null;
}

export class AllowList {
  readonly #entries: readonly Entry[];

  private constructor(entries: readonly Entry[]) {
    this.#entries = entries;
  }

  static readonly empty = new AllowList([]);

  /** Parses the list of allowed targets. A rejection names the invalid entry. */
  static parse(texts: readonly string[], what = "allowTargets"): AllowList | Rejection {
    const entries: Entry[] = [];
    for (const [i, text] of texts.entries()) {
      const entry = parseEntry(text, `${what}[${i}]`);
      if (isRejection(entry)) return entry;
      entries.push(entry);
    }
    return new AllowList(entries);
  }

  hasHost(host: string, port: number): boolean {
    return this.#entries.some(
      (entry) => fits(entry, port) && "host" in entry.what && entry.what.host === host,
    );
  }

  hasAddress(address: Address, port: number): boolean {
    return this.#entries.some(
      (entry) => fits(entry, port) && "range" in entry.what && isIn(entry.what.range, address),
    );
  }

  /** Whether any address is listed for a port that is not a usual one. */
  hasAddressesAt(port: number): boolean {
    return this.#entries.some((entry) => entry.port === port && "range" in entry.what);
  }
}

function fits(entry: Entry, port: number): boolean {
  return entry.port === null ? USUAL_PORTS.includes(port) : entry.port === port;
}

/** A host name in the form for comparisons: lower case, ASCII, without the final dot. */
export function plainHost(hostname: string): string {
  return hostname.replace(/\.+$/, "").toLowerCase();
}

function parseEntry(text: string, what: string): Entry | Rejection {
  const { base, port } = splitPort(text.trim());
  if (port !== null && (port < 1 || port > 65_535)) return wrong(text, what);
  const range = parseRange(base.replace(/^\[(.*)\](?=$|\/)/, "$1"));
  if (range !== null) return { what: { range }, port };
  if (base === "" || /[/@?#\\*%[\]\s:]/.test(base) || !URL.canParse(`http://${base}`))
    return wrong(text, what);
  const host = plainHost(new URL(`http://${base}`).hostname);
  // The host may be another spelling of an address, such as 127.1.
  const address = parseRange(host);
  if (address !== null) return { what: { range: address }, port };
  return host === "" ? wrong(text, what) : { what: { host }, port };
}

function splitPort(text: string): { base: string; port: number | null } {
  const [bare = ""] = text.split("/");
  const found = isIPv6(bare) ? null : /^(.+):(\d{1,5})$/.exec(text);
  return found === null ? { base: text, port: null } : { base: found[1] as string, port: Number(found[2]) };
}

function wrong(text: string, what: string): Rejection {
  return reject("invalid_input", `${what}: ${JSON.stringify(text)} is not a target`, {
    path: what,
    hint: 'write a host, an address or a range, with a port if it is not usual: "lxi-ui-api:6001", "10.1.2.3", "10.0.0.0/8:9000", "[fd00::1]:9000"',
  });
}
