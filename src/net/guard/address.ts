/**
 * IP addresses as numbers, and ranges of them. An IPv4 address in IPv6 form (`::ffff:127.0.0.1`) counts as the IPv4 address,
 * because a connection to it leads there.
 */
import { isIPv4, isIPv6 } from "node:net";

export interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** All addresses with the same first `bits`. */
export interface AddressRange {
  readonly first: Address;
  readonly bits: number;
}

const MAPPED_PREFIX = 0xffffn;

/** Parses an address in its plain spelling; null: invalid. A zone (`%eth0`) is ignored. */
export function parseAddress(text: string): Address | null {
  const plain = text.replace(/%.*$/, "");
  if (isIPv4(plain)) return { family: 4, value: ofParts(plain.split(".").map(Number), 8n) };
  if (!isIPv6(plain)) return null;
  const value = ofParts(wordsOf(plain), 16n);
  return value >> 32n === MAPPED_PREFIX ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value };
}

/** Parses `address/bits` or a single address; null: invalid. */
export function parseRange(text: string): AddressRange | null {
  const [, base = "", length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const first = parseAddress(base);
  if (first === null) return null;
  const widest = first.family === 4 ? 32 : 128;
  const bits = length === undefined ? widest : Number(length);
  return bits <= widest ? { first, bits } : null;
}

export function isIn({ first, bits }: AddressRange, { family, value }: Address): boolean {
  if (family !== first.family) return false;
  const rest = BigInt((family === 4 ? 32 : 128) - bits);
  return value >> rest === first.value >> rest;
}

export function showAddress({ family, value }: Address): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join(".");
  const words = Array.from({ length: 8 }, (_, i) => (value >> BigInt(112 - 16 * i)) & 0xffffn);
  const text = words.map((word) => word.toString(16)).join(":");
  // The shortest spelling, by the standard rules.
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

function ofParts(parts: readonly number[], width: bigint): bigint {
  return parts.reduce((value, part) => (value << width) | BigInt(part), 0n);
}

/** The eight 16-bit words of a valid IPv6 address. */
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
