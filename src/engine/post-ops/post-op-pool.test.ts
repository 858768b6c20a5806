// Places for post-operations: limited in all and by execution, and no target can take the last one.
import { expect, test } from "vitest";
import { PostOpPool } from "./post-op-pool.ts";

/** Takes places for one execution after another, all for one target; returns how many were free. */
function takeAll(pool: PostOpPool, target: string, from = 0): number {
  for (let i = from; ; i++)
    if (!pool.acquire(`${target}/${i}`, { execution: `e${i}`, target })) return i - from;
}

test("a target has as many as are free besides, so however many hang there is one for another", () => {
  const pool = new PostOpPool(16, 8);
  expect(["a", "b", "c", "d"].map((target) => takeAll(pool, target))).toEqual([8, 4, 2, 1]);
  expect(pool.acquire("one more", { execution: "e99", target: "e" })).toBe(true);
  expect(pool.acquire("too many", { execution: "e99", target: "f" })).toBe(false);
});

test("an execution has so many at most, and is told of when they end", () => {
  const pool = new PostOpPool(100, 2);
  for (const id of ["1", "2"]) {
    expect(pool.isFullFor("e1")).toBe(false);
    pool.acquire(id, { execution: "e1", target: id });
  }
  expect(pool.isFullFor("e1")).toBe(true);
  expect(pool.has("e1")).toBe(true);
  pool.release("1");
  expect(pool.isFullFor("e1")).toBe(false);
  pool.release("2");
  pool.release("2");
  expect([pool.has("e1"), pool.isUnderWay("2")]).toEqual([false, false]);
});

test("whoever waits is next by its target's turn, the oldest first, once", () => {
  const pool = new PostOpPool(4, 4);
  const taken = [...Array(takeAll(pool, "a")).keys()].map((i) => `a/${i}`);
  expect(pool.acquire("b/0", { execution: "b0", target: "b" })).toBe(true);
  expect(pool.next()).toBeUndefined();
  for (const execution of ["x", "y", "x"]) expect(pool.acquire("?", { execution, target: "a" })).toBe(false);
  expect(pool.acquire("?", { execution: "z", target: "b" })).toBe(false);
  expect(pool.has("x")).toBe(true);
  pool.release("b/0");
  for (const id of taken) pool.release(id);
  expect([pool.next(), pool.next(), pool.next(), pool.next(), pool.next()]).toEqual([
    "e2",
    "z",
    "x",
    "y",
    undefined,
  ]);
  expect(pool.has("x")).toBe(false);
});
