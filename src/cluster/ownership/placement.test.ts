// Where partitions belong: balanced, and moved only as far as needed.
import { expect, test } from "vitest";
import { placement } from "./placement.ts";

const PARTITIONS = 256;
const urls = (n: number): string[] => Array.from({ length: n }, (_, i) => `http://node-${i + 1}:8080`);
const counts = (places: readonly string[], nodes: readonly string[]): number[] =>
  nodes.map((url) => places.filter((place) => place === url).length);

test("one node has everything; the order in which nodes are named, and naming one twice, change nothing", () => {
  expect(new Set(placement(PARTITIONS, ["http://a"]))).toEqual(new Set(["http://a"]));
  const places = placement(PARTITIONS, urls(5));
  expect(places).toHaveLength(PARTITIONS);
  expect(placement(PARTITIONS, [...urls(5).reverse(), "http://node-3:8080"])).toEqual(places);
});

test.each([2, 3, 5, 7, 12])("%i nodes have about the same number of partitions, as if by lot", (n) => {
  const names = ["http://node-", "http://10.0.0.", "https://rondo-", "http://localhost:808"];
  const fair = PARTITIONS / n;
  let deviation = 0;
  for (const name of names.flatMap((stem) => [`${stem}1`, `${stem}2`, `${stem}3`])) {
    const nodes = Array.from({ length: n }, (_, i) => `${name}${i}`);
    for (const count of counts(placement(PARTITIONS, nodes), nodes)) {
      expect(count, name).toBeGreaterThan(fair * 0.4);
      expect(count, name).toBeLessThan(fair * 1.7);
      deviation += (count - fair) ** 2 / fair / (n - 1) / 12;
    }
  }
  expect(deviation).toBeLessThan(1.6);
});

test.each([1, 2, 3, 6])("one that joins %i others gets its share, and nothing moves but to it", (n) => {
  const before = placement(PARTITIONS, urls(n));
  const after = placement(PARTITIONS, urls(n + 1));
  const moved = after.filter((place, partition) => place !== before[partition]);
  expect(new Set(moved)).toEqual(new Set(urls(n + 1).slice(n)));
  const fair = PARTITIONS / (n + 1);
  expect(Math.abs(moved.length - fair)).toBeLessThan(3.5 * Math.sqrt(fair));
});

test("one that leaves gives its own to all others, and nothing else moves", () => {
  const before = placement(PARTITIONS, urls(5));
  const [gone = "", ...left] = urls(5);
  const after = placement(PARTITIONS, left);
  after.forEach((place, partition) => {
    if (before[partition] !== gone) expect(place).toBe(before[partition]);
  });
  const owners = after.filter((_, partition) => before[partition] === gone);
  expect(new Set(owners)).toEqual(new Set(left));
});

test("places are the same in every version", () => {
  const short = placement(16, ["http://a", "http://b", "http://c"]).map((url) => url.at(-1));
  expect(short.join("")).toMatchInlineSnapshot(`"aabababbabcbbccc"`);
});
