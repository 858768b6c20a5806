import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson, contentHash } from "./canonical-json.ts";
import { checksum, sha256 } from "./hash.ts";
import type { Json } from "./json.ts";

test("the canonical form sorts keys and nothing else", () => {
  expect(canonicalJson({ b: [3, 1, { d: 1, c: null }], a: "\u20ac" })).toBe(
    '{"a":"\u20ac","b":[3,1,{"c":null,"d":1}]}',
  );
});

test("the canonical form is that of RFC 8785", () => {
  const numbers = [Number("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001, -0];
  const string = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f";
  const literals = [null, true, false];
  expect(canonicalJson({ numbers, string, literals })).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,0],' +
      '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  );
  const keys = { "\u20ac": 1, "\r": 2, "\ufb33": 3, 1: 4, "\u{1f600}": 5, "\u0080": 6, "\u00f6": 7, "": {} };
  expect(canonicalJson(keys)).toBe(
    '{"":{},"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\u{1f600}":5,"\ufb33":3}',
  );
  expect(canonicalJson([])).toBe("[]");
  expect(canonicalJson({ a: undefined as never, b: [] })).toBe('{"b":[]}');
});

test("the canonical form is the one that a library for it writes", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(canonicalJson(value as Json)).toBe(canonicalize(value));
    }),
  );
});

test("a value that JSON cannot express has no canonical form", () => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, "\ud800", ["\udfff"], { "\ud800": 1 }])
    expect(() => canonicalJson(value)).toThrow("no canonical form");
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
