import type { Random } from "./random.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
/** A table: for each number of ten bits, its two base32 characters. */
const PAIRS = Array.from({ length: 1_024 }, (_, bits) => `${ALPHABET[bits >>> 5]}${ALPHABET[bits & 31]}`);

/** Makes an execution's id: `ex_` and a UUIDv7 in base32, which is ordered by time and unique without coordination. */
export function newExecutionId(now: number, random: Random): string {
  const high = Math.floor(now / 0x10000);
  const low = ((now % 0x10000) * 0x10000 + (0x7000 | (random.u32() >>> 20))) >>> 0;
  const third = (0x80000000 | (random.u32() >>> 2)) >>> 0;
  return `ex_${base32(high >>> 0, low, third, random.u32())}`;
}

/** A new id of a message to an execution. */
export function newMessageId(now: number, random: Random): string {
  return newExecutionId(now, random).replace("ex_", "msg_");
}

/** Writes 128 bits as 13 pairs of characters: two leading zero bits, then the words, the most significant first. */
function base32(a: number, b: number, c: number, d: number): string {
  return (
    pair(a >>> 24) +
    pair(a >>> 14) +
    pair(a >>> 4) +
    pair((a << 6) | (b >>> 26)) +
    pair(b >>> 16) +
    pair(b >>> 6) +
    pair((b << 4) | (c >>> 28)) +
    pair(c >>> 18) +
    pair(c >>> 8) +
    pair((c << 2) | (d >>> 30)) +
    pair(d >>> 20) +
    pair(d >>> 10) +
    pair(d)
  );
}

function pair(bits: number): string {
  return PAIRS[bits & 1_023] as string;
}
