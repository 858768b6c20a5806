import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { hmacSha256 } from "./hash.ts";

test("the HMAC is that of the platform, for any key and text, one after the other", () => {
  const text = fc.string({ unit: "binary", maxLength: 300 });
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text), { maxLength: 5 }), (calls) => {
      for (const [key, message] of calls)
        expect(hmacSha256(key, message)).toBe(createHmac("sha256", key).update(message).digest("base64url"));
    }),
  );
});
