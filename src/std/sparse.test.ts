import { expect, test } from "vitest";
import { SparseMap, SparseSet } from "./sparse.ts";

test("a sparse map answers as a map does, empty, filled and emptied again", () => {
  const map = new SparseMap<string, number>();
  const same = new Map<string, number>();
  const check = () => {
    expect([...map]).toEqual([...same]);
    expect([...map.keys()]).toEqual([...same.keys()]);
    expect([...map.values()]).toEqual([...same.values()]);
    expect(map.size).toBe(same.size);
    for (const key of ["a", "b"]) {
      expect(map.get(key)).toBe(same.get(key));
      expect(map.has(key)).toBe(same.has(key));
    }
  };
  check();
  expect(map.delete("a")).toBe(same.delete("a"));
  for (const [key, value] of [
    ["b", 1],
    ["a", 2],
    ["b", 3],
  ] as const) {
    map.set(key, value);
    same.set(key, value);
    check();
  }
  for (const key of ["b", "b", "a"]) {
    expect(map.delete(key)).toBe(same.delete(key));
    check();
  }
});

test("a sparse set answers as a set does, empty, filled, cleared and filled again", () => {
  const set = new SparseSet<number>();
  expect([...set, set.size, set.has(1), set.delete(1)]).toEqual([0, false, false]);
  set.add(2).add(1).add(2);
  expect([...set]).toEqual([2, 1]);
  expect([set.size, set.has(1), set.delete(1), set.delete(1), set.has(1)]).toEqual([
    2,
    true,
    true,
    false,
    false,
  ]);
  set.clear();
  expect([...set, set.size]).toEqual([0]);
  set.add(3);
  expect([...set]).toEqual([3]);
});
