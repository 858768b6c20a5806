/**
 * Addresses to which users' data must not be sent: all except public addresses of one machine. A host in `allowTargets` can
 * allow an internal address (loopback, private networks); any other address must be listed itself.
 */
import { type Address, type AddressRange, isIn, parseRange } from "./address.ts";

export interface Forbidden {
  readonly what: string;
  /** Whether a host that the operator lists may have this address. */
  readonly isInside: boolean;
}

/** Ranges of forbidden addresses. The first matching range counts, so narrower ranges come first. */
const RANGES: readonly (readonly [range: string, what: string, isInside?: boolean])[] = [
  ["255.255.255.255", "the broadcast address"],
  ["168.63.129.16", "a cloud's metadata service"],
  ["100.100.100.200", "a cloud's metadata service"],
  ["192.0.0.192", "a cloud's metadata service"],
  ["0.0.0.0/8", "an unspecified address"],
  ["10.0.0.0/8", "a private network", true],
  ["100.64.0.0/10", "a carrier's shared network", true],
  ["127.0.0.0/8", "loopback", true],
  ["169.254.0.0/16", "link-local, where clouds have their metadata service"],
  ["172.16.0.0/12", "a private network", true],
  ["192.0.0.0/24", "reserved for protocols"],
  ["192.0.2.0/24", "an address for documentation"],
  ["192.88.99.0/24", "a relay of 6to4"],
  ["192.168.0.0/16", "a private network", true],
  ["198.18.0.0/15", "a network for benchmarks"],
  ["198.51.100.0/24", "an address for documentation"],
  ["203.0.113.0/24", "an address for documentation"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved"],
  ["::", "an unspecified address"],
  ["::1", "loopback", true],
  ["::/96", "an IPv4-compatible address"],
  ["::ffff:0:0:0/96", "an IPv4 address translated to IPv6"],
  ["64:ff9b::/96", "an IPv4 address behind NAT64"],
  ["64:ff9b:1::/48", "an IPv4 address behind NAT64"],
  ["100::/64", "the discard network"],
  ["2001::/32", "a Teredo tunnel"],
  ["2001::/23", "reserved for protocols"],
  ["2001:db8::/32", "an address for documentation"],
  ["2002::/16", "a 6to4 tunnel"],
  ["3fff::/20", "an address for documentation"],
  ["fd00:ec2::254", "a cloud's metadata service"],
  ["fd20:ce::254", "a cloud's metadata service"],
  ["fc00::/7", "a private network", true],
  ["fe80::/10", "link-local"],
  ["fec0::/10", "site-local"],
  ["ff00::/8", "multicast"],
];

const TABLE: readonly (Forbidden & { readonly range: AddressRange })[] = RANGES.map(
  ([text, what, isInside = false]) => ({ range: parseRange(text) as AddressRange, what, isInside }),
);
const GLOBAL_UNICAST = parseRange("2000::/3") as AddressRange;
const NOT_GLOBAL: Forbidden = { what: "not a public address", isInside: false };

/** Returns why users' data must not be sent to an address; null if it may be sent. */
export function whyForbidden(address: Address): Forbidden | null {
  const found = TABLE.find(({ range }) => isIn(range, address));
  if (found !== undefined) return found;
  return address.family === "ipv6" && !isIn(GLOBAL_UNICAST, address) ? NOT_GLOBAL : null;
}
