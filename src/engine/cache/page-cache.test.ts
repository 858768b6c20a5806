// The number of pages in memory is bounded, whichever pages are read.
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
  const cache = new PageCache(70_000);
  for (let seq = 0; seq < 100; seq++) cache.put("e", seq, page(seq), true);
  expect(there(cache)).toEqual(there(cache).map((_, i, { length }) => 100 - length + i));
  expect(there(cache)).toHaveLength(71);
});

test("some of those that were needed last stay, however large they are", () => {
  const cache = new PageCache(500);
  for (let seq = 0; seq < 100; seq++) cache.put("e", seq, page(seq), true);
  expect(there(cache)).toHaveLength(64);
  expect(there(cache)[0]).toBe(36);
});

test("what is dropped makes room", () => {
  const cache = new PageCache(1_000);
  cache.put("e", 1, page(0));
  cache.put("e", 2, page(1));
  expect(there(cache)).toEqual([1]);
  cache.drop("e", 1);
  cache.put("e", 2, page(1));
  expect(there(cache)).toEqual([2]);
});
