import fc from "fast-check";
import { expect, test } from "vitest";
import { Bug } from "../../std/assert.ts";
import {
  Column,
  decodeText,
  encodeText,
  joinNumbers,
  joinNumbersOrOnce,
  joinOrOnce,
  joinTexts,
  plainText,
  splitTexts,
} from "./text.ts";

const characters = fc.constantFrom("\0", "\x01", "\x02", "\x1f", "a", "b", "c", "ß", "\u{1F600}");
const odd = fc.array(characters, { maxLength: 8 }).map((list) => list.join(""));

test("any text comes back as it was, and what is stored holds neither NUL nor separator", () => {
  fc.assert(
    fc.property(odd, (text) => {
      const stored = encodeText(text);
      expect(decodeText(stored)).toBe(text);
      expect(["\0", "\x1f"].some((one) => stored.includes(one))).toBe(false);
      expect(stored).not.toBe("\x02");
    }),
    { numRuns: 2_000, seed: 1 },
  );
});

test("ordinary texts are stored as they are", () => {
  for (const text of ["", "{}", "ß \u{1F600}", "a\x01b", 'x"\\\n']) expect(encodeText(text)).toBe(text);
});

test("columns are joined and split; nulls are marked, and none is null", () => {
  expect(splitTexts(joinTexts(["a", "", "b"]) ?? "")).toEqual(["a", "", "b"]);
  expect(joinTexts(["a", null])).toBe("a\x1f\x02");
  expect(joinNumbers([1, null, -3])).toBe("{1,NULL,-3}");
  expect([joinTexts([]), joinNumbers([]), joinNumbers([null, null])]).toEqual([null, null, null]);
});

test("a column that is the same throughout is sent once", () => {
  expect([
    joinOrOnce(column(["a", "a"])),
    joinOrOnce(column<string>([null, null])),
    joinOrOnce(column(["a", "b"])),
  ]).toEqual(["a", "\x02", "a\x1fb"]);
  expect([joinNumbersOrOnce(column([7, 7])), joinNumbersOrOnce(column([7, 8]))]).toEqual(["{7}", "{7,8}"]);
  expect([joinOrOnce(column([])), joinNumbersOrOnce(column([]))]).toEqual([null, null]);
});

test("a name with a control character is a bug", () => {
  expect(plainText("name")).toBe("name");
  expect(() => plainText("a\x1fb")).toThrow(Bug);
});

function column<T>(values: readonly (T | null)[]): Column<T> {
  const made = new Column<T>();
  for (const value of values) made.push(value);
  return made;
}

test("a column has the values that were pushed and set, and says whether all are the same", () => {
  const value = fc.constantFrom("a", "b", null);
  fc.assert(
    fc.property(fc.array(value), fc.array(fc.tuple(fc.nat(), value)), (pushed, changes) => {
      const values = [...pushed];
      const made = column(values);
      for (const [at, changed] of changes) {
        if (values.length === 0) break;
        values[at % values.length] = changed;
        made.set(at % values.length, changed);
      }
      expect(made.values).toEqual(values);
      expect(made.length).toBe(values.length);
      if (changes.length === 0 && values.every((one) => one === values[0])) expect(made.only).toBe(values[0]);
      if (made.only !== undefined) expect(values).toEqual(values.map(() => made.only));
    }),
  );
});
