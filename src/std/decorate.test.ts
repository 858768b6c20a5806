import { expect, test } from "vitest";
import { decorate } from "./decorate.ts";

class Counter {
  #count = 0;
  add(by: number): number {
    this.#count += by;
    return this.#count;
  }
  twice(by: number): number {
    return this.add(by) + this.add(by);
  }
  get count(): number {
    return this.#count;
  }
}

test("replaced methods are called instead; all others run on the object itself", () => {
  const inner = new Counter();
  const decorated = decorate(inner, { add: (by) => inner.add(10 * by) });
  expect(decorated.add(1)).toBe(10);
  expect(decorated.twice(1)).toBe(11 + 12);
  expect(decorated.count).toBe(12);
  expect(decorated.twice).toBe(decorated.twice);
  expect(decorated).toBeInstanceOf(Counter);
});

test("the object is not changed, and decorators apply from the inside out", () => {
  const inner = new Counter();
  const calls: string[] = [];
  const named = (name: string, counter: Counter): Counter =>
    decorate(counter, {
      add: (by) => {
        calls.push(name);
        return counter.add(by);
      },
    });
  expect(named("outer", named("inner", inner)).add(1)).toBe(1);
  expect(calls).toEqual(["outer", "inner"]);
  expect(inner.add(1)).toBe(2);
  expect(calls).toHaveLength(2);
});
