/**
 * IP addresses and ranges of them. An IPv4 address in IPv6 form (`::ffff:127.0.0.1`) counts as the IPv4 address, because a
 * connection to it leads there.
 */
import { BlockList, isIPv4, isIPv6 } from "node:net";

export interface Address {
  readonly family: "ipv4" | "ipv6";
  /** The shortest spelling of the address; equal addresses have equal texts. */
  readonly text: string;
}

/** A range of addresses: all that have the same first bits. */
export interface AddressRange {
  readonly family: "ipv4" | "ipv6";
  readonly block: BlockList;
}

/** Parses an address in its plain spelling; null if it is invalid. A zone (`%eth0`) is ignored. */
export function parseAddress(given: string): Address | null {
  const plain = given.replace(/%.*$/, "");
  if (isIPv4(plain)) return { family: "ipv4", text: plain };
  if (!isIPv6(plain)) return null;
  const text = new URL(`http://[${plain}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(text);
  if (mapped === null) return { family: "ipv6", text };
  const bytes = mapped.slice(1).flatMap((word) => [parseInt(word, 16) >> 8, parseInt(word, 16) & 0xff]);
  return { family: "ipv4", text: bytes.join(".") };
}

/** Parses `address/bits` or a single address; null if it is invalid. */
export function parseRange(given: string): AddressRange | null {
  const [, base = "", length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(given) ?? [];
  const first = parseAddress(base);
  if (first === null) return null;
  const bitsMax = first.family === "ipv4" ? 32 : 128;
  const bits = Number(length ?? bitsMax);
  if (bits > bitsMax) return null;
  const block = new BlockList();
  block.addSubnet(first.text, bits, first.family);
  return { family: first.family, block };
}

export function isIn(range: AddressRange, { text, family }: Address): boolean {
  // The families are compared first: an IPv6 range around ::ffff:0:0/96 would otherwise contain IPv4 addresses.
  return family === range.family && range.block.check(text, family);
}
