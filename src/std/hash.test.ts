import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { HmacKey } from "./hash.ts";

const expected = (key: string, text: string): string =>
  createHmac("sha256", key).update(text).digest("base64url");

test.each([
  "",
  "k",
  "key of a store",
  "x".repeat(63),
  "x".repeat(64),
  "x".repeat(65),
  "x".repeat(300),
  "schlüssel €",
])("signatures with the key %j are those of HMAC-SHA256", (key) => {
  const signer = new HmacKey(key);
  const texts = [
    "",
    "a",
    "é",
    "€",
    "𝄞",
    "x".repeat(55),
    "x".repeat(1_024),
    "€".repeat(1_024),
    "x".repeat(1_025),
  ];
  for (let length = 0; length < 200; length++) texts.push("attempt.".repeat(30).slice(0, length));
  // A shorter text after a longer one must not see its rest in the buffer.
  for (const text of [...texts, ...texts.toReversed()]) expect(signer.sign(text)).toBe(expected(key, text));
});
