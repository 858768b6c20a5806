// Pages in memory are bounded, whichever are read because they are needed.
import { expect, test } from "vitest";
import { type Page, PageCache } from "./page-cache.ts";

const page = (from: number): Page => ({ from, tasks: ["x".repeat(900)], keys: null });
const there = (cache: PageCache) =>
  Array.from({ length: 100 }, (_, seq) => seq).filter((seq) => cache.get("e", seq) !== undefined);

test("a full cache takes no page that may be needed some time", () => {
  const cache = new PageCache(5_000);
  for (let seq = 0; seq < 100; seq++) cache.put("e", seq, page(seq));
  expect(there(cache)).toEqual([0, 1, 2, 3, 4]);
});

test("a page that is needed now takes the place of those that have been there longest", () => {
  const cache = new PageCache(5_000);
  for (let seq = 0; seq < 100; seq++) cache.put("e", seq, page(seq), true);
  expect(there(cache)).toEqual([95, 96, 97, 98, 99]);
});

test("one that is larger than the cache is there until the next", () => {
  const cache = new PageCache(500);
  cache.put("e", 1, page(0), true);
  expect(there(cache)).toEqual([1]);
  cache.put("e", 2, page(1), true);
  expect(there(cache)).toEqual([2]);
  cache.drop("e", 2);
  cache.put("e", 3, { from: 0, tasks: ["x"], keys: null });
  expect(there(cache)).toEqual([3]);
});
