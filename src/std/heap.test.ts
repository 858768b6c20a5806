import fc from "fast-check";
import { expect, test } from "vitest";
import { Heap } from "./heap.ts";

fc.configureGlobal({ seed: 1 });

test("a heap gives the smallest first, whatever the order of pushes and pops", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.nat(50))), (commands) => {
      const heap = new Heap<number>((a, b) => a < b);
      const model: number[] = [];
      for (const pushed of commands) {
        const popped = pushed === null ? [heap.pop(), model.shift()] : [];
        expect(popped[0]).toBe(popped[1]);
        if (pushed !== null) {
          heap.push(pushed);
          model.push(pushed);
          model.sort((a, b) => a - b);
        }
        expect(heap.peek()).toBe(model[0]);
        expect(heap.size).toBe(model.length);
      }
      while (model.length > 0) expect(heap.pop()).toBe(model.shift());
      expect(heap.pop()).toBeUndefined();
    }),
  );
});

test("a cleared heap is empty", () => {
  const heap = new Heap<number>((a, b) => a < b);
  heap.push(1);
  heap.clear();
  expect([heap.size, heap.peek(), heap.pop()]).toEqual([0, undefined, undefined]);
});
