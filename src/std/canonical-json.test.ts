import { expect, test } from "vitest";
import { canonicalJson, contentHash } from "./canonical-json.ts";
import { checksum, sha256 } from "./hash.ts";

test("the canonical form sorts keys and nothing else", () => {
  expect(canonicalJson({ b: [3, 1, { d: 1, c: null }], a: "\u20ac" })).toBe(
    '{"a":"\u20ac","b":[3,1,{"c":null,"d":1}]}',
  );
});

test("a content hash is the SHA-256 of the canonical form", () => {
  expect(contentHash({ b: 1, a: 2 })).toBe(sha256('{"a":2,"b":1}'));
  expect(contentHash({ a: 2, b: 1 })).toBe(contentHash({ b: 1, a: 2 }));
  expect(contentHash([1, 2])).not.toBe(contentHash([2, 1]));
});

test("a checksum does not depend on where its text was cut", () => {
  const text = "one\ntwo\n\u{1f600}\n";
  for (const cut of [0, 1, 4, 8])
    expect(checksum(text.slice(cut), checksum(text.slice(0, cut), 0))).toBe(checksum(text, 0));
});
