import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonErrorAt, lineAndColumn } from "./json-position.ts";

test.each([
  ["", 0],
  ["{", 1],
  ["{a:1}", 1],
  ['{"a":}', 5],
  ['{"a":1,}', 7],
  ['{"a" 1}', 5],
  ["[1,2", 4],
  ["[1 2]", 3],
  ['"abc', 4],
  ['"a\nb"', 2],
  ['"\\x"', 1],
  ["01", 1],
  ["tru", 0],
  ["{} x", 3],
  ["'a'", 0],
])("%j stops being JSON at %i", (text, at) => {
  expect(() => JSON.parse(text) as unknown).toThrow(SyntaxError);
  expect(jsonErrorAt(text)).toBe(at);
});

test("what is JSON is read to its end", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.constantFrom("", " ", "\n\t"), (json, space) => {
      const text = `${space}${json}${space}`;
      expect(jsonErrorAt(text)).toBe(text.length);
    }),
  );
});

test("of any other text, nothing that follows the place can mend it", () => {
  const scraps = fc.constantFrom("{", "}", "[", "]", ":", ",", '"a"', '"', "1", "-", "true", " ", "\\", "x");
  fc.assert(
    fc.property(fc.array(scraps, { maxLength: 8 }), (parts) => {
      const text = parts.join("");
      const at = jsonErrorAt(text);
      fc.pre(at < text.length);
      expect(jsonErrorAt(`${text.slice(0, at + 1)}]`)).toBe(at);
    }),
  );
});

test("an index is a line and a column, both from 1", () => {
  expect(lineAndColumn("ab\ncd", 4)).toEqual({ line: 2, column: 2 });
  expect(lineAndColumn("", 0)).toEqual({ line: 1, column: 1 });
});
