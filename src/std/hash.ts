import { hash } from "node:crypto";
import { crc32 } from "node:zlib";

export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}

/** Adds a text to a running checksum, which does not depend on how the whole text is split into calls. */
export function checksum(text: string, before: number): number {
  return crc32(text, before);
}

/** Returns the first 128 bits of the SHA-256 of a text as four 32-bit words. The last word is never 0. */
export function sha256Words(text: string): [number, number, number, number] {
  const digest = hash("sha256", text, "buffer");
  return [
    digest.readUInt32LE(0),
    digest.readUInt32LE(4),
    digest.readUInt32LE(8),
    digest.readUInt32LE(12) || 1,
  ];
}
