import type { Random } from "./random.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** `ex_` and a UUIDv7 in base32: ordered by time, unique without asking anybody. */
export function newExecutionId(now: number, random: Random): string {
  const high = Math.floor(now / 0x10000);
  const low = ((now % 0x10000) * 0x10000 + (0x7000 | (random.u32() >>> 20))) >>> 0;
  const words = [high >>> 0, low, (0x80000000 | (random.u32() >>> 2)) >>> 0, random.u32()];
  // 128 bits in 26 characters of 5: two leading zero bits, then the words from the most significant on.
  let text = "";
  let held = 0;
  let bits = 2;
  for (const word of words) {
    for (let shift = 24; shift >= 0; shift -= 8) {
      held = (held << 8) | ((word >>> shift) & 255);
      bits += 8;
      while (bits >= 5) {
        bits -= 5;
        text += ALPHABET[(held >>> bits) & 31];
      }
      held &= 31;
    }
  }
  return `ex_${text}`;
}
