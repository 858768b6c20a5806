import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { Random } from "../../std/random.ts";

/** Draws random secret bytes. */
export function drawSecret(random: Random, bytes: number): Buffer {
  const secret = Buffer.alloc(Math.ceil(bytes / 4) * 4);
  for (let i = 0; i < secret.length; i += 4) secret.writeUInt32LE(random.u32(), i);
  return secret.subarray(0, bytes);
}

/** The SHA-256 of a secret in hex, which is stored instead of the secret. */
export function hashSecret(secret: string): string {
  return hash("sha256", secret, "hex");
}

/** Compares two texts in constant time. */
export function isSameSecret(a: string, b: string): boolean {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}

/** Signs a text with the store's key; `use` separates signatures for different purposes. */
export function sign(key: string, use: string, text: string): string {
  return createHmac("sha256", key).update(`${use}\n${text}`).digest("base64url");
}
