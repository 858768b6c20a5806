import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Bitset } from "./bitset.ts";

fc.configureGlobal({ seed: 1 });

/** Numbers around the borders of words and chunks. */
const number = fc.oneof(fc.nat(70), fc.constantFrom(31, 32, 32_767, 32_768, 65_535, 65_536, 1_000_000));

describe("a bitset", () => {
  test("is a set", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), number)), (commands) => {
        const bits = new Bitset();
        const model = new Set<number>();
        for (const [adds, n] of commands) {
          const isChanged = adds ? bits.add(n) : bits.delete(n);
          expect(isChanged).toBe(model.has(n) !== adds);
          if (adds) model.add(n);
          else model.delete(n);
          expect(bits.size).toBe(model.size);
        }
        for (const [, n] of commands) expect(bits.has(n)).toBe(model.has(n));
      }),
    );
  });

  test("finds the next number that is missing", () => {
    fc.assert(
      fc.property(fc.array(number), fc.nat(100), fc.nat(100), (members, from, length) => {
        const bits = new Bitset();
        for (const n of members) bits.add(n);
        const end = from + length;
        let expected = -1;
        for (let n = from; n < end && expected < 0; n++) if (!bits.has(n)) expected = n;
        expect(bits.nextMissing(from, end)).toBe(expected);
      }),
    );
  });

  test("passes over long full stretches, also across chunks", () => {
    const bits = new Bitset();
    for (let n = 0; n < 70_000; n++) bits.add(n);
    expect(bits.nextMissing(5, 70_000)).toBe(-1);
    expect(bits.nextMissing(5, 70_001)).toBe(70_000);
    bits.delete(40_000);
    expect(bits.nextMissing(5, 70_000)).toBe(40_000);
  });

  test("comes back from its text", () => {
    fc.assert(
      fc.property(fc.array(number), (members) => {
        const bits = new Bitset();
        for (const n of members) bits.add(n);
        const back = Bitset.fromText(bits.toText());
        expect(back.size).toBe(bits.size);
        for (const n of members) expect(back.has(n)).toBe(true);
        expect(back.toText()).toBe(bits.toText());
      }),
    );
  });

  test("writes nothing for nothing", () => {
    const bits = new Bitset();
    bits.add(5);
    bits.delete(5);
    expect(bits.toText()).toBe("");
    expect(Bitset.fromText("").size).toBe(0);
  });
});
