/**
 * IP addresses as numbers, and ranges of them. An IPv4 address that is written as an IPv6 one (`::ffff:127.0.0.1`) is
 * the IPv4 address: that is where a connection to it leads.
 */
import { isIPv4, isIPv6 } from "node:net";

export interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** All addresses whose first `bits` are the same. */
export interface AddressRange {
  readonly first: Address;
  readonly bits: number;
}

const MAPPED_PREFIX = 0xffffn;

/** The address that a text is, in its plain spelling; null: it is none. A zone (`%eth0`) does not matter. */
export function parseAddress(text: string): Address | null {
  const plain = text.replace(/%.*$/, "");
  if (isIPv4(plain)) return { family: 4, value: ofParts(plain.split(".").map(Number), 8n) };
  if (!isIPv6(plain)) return null;
  const value = ofParts(wordsOf(plain), 16n);
  return value >> 32n === MAPPED_PREFIX ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value };
}

/** The range that `address/bits` is, or an address alone; null: it is none. */
export function parseRange(text: string): AddressRange | null {
  const [, base = "", length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const first = parseAddress(base);
  if (first === null) return null;
  const widest = first.family === 4 ? 32 : 128;
  const bits = length === undefined ? widest : Number(length);
  return bits <= widest ? { first, bits } : null;
}

/** Whether an address is in a range. */
export function isIn({ first, bits }: AddressRange, { family, value }: Address): boolean {
  if (family !== first.family) return false;
  const rest = BigInt((family === 4 ? 32 : 128) - bits);
  return value >> rest === first.value >> rest;
}

/** The plain spelling of an address. */
export function showAddress({ family, value }: Address): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join(".");
  const words = Array.from({ length: 8 }, (_, i) => (value >> BigInt(112 - 16 * i)) & 0xffffn);
  const text = words.map((word) => word.toString(16)).join(":");
  // The shortest spelling, by the same rules as everybody's.
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

function ofParts(parts: readonly number[], width: bigint): bigint {
  return parts.reduce((value, part) => (value << width) | BigInt(part), 0n);
}

/** The eight words of an IPv6 address that is known to be one. */
function wordsOf(text: string): number[] {
  const [head = "", tail] = text.split("::");
  const before = wordsIn(head);
  if (tail === undefined) return before;
  const after = wordsIn(tail);
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function wordsIn(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((part) => {
    if (!part.includes(".")) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split(".").map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}
