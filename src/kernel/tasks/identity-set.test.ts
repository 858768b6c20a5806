import { expect, test } from "vitest";
import { IdentitySet } from "./identity-set.ts";

test("an identity set knows what was added, whatever its length", () => {
  const set = new IdentitySet();
  expect(set.add("a")).toBe(true);
  expect(set.add("a")).toBe(false);
  expect(set.add("x".repeat(100_000))).toBe(true);
  expect([set.has("a"), set.has("b"), set.has("x".repeat(100_000)), set.has("")]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect(set.add("")).toBe(true);
  expect(set.size).toBe(3);
});

test("an identity set grows, and survives being written and read", () => {
  const set = new IdentitySet();
  for (let i = 0; i < 5_000; i++) expect(set.add(`id-${i}`)).toBe(true);
  for (let i = 0; i < 5_000; i += 7) expect(set.add(`id-${i}`)).toBe(false);
  const read = IdentitySet.fromText(set.toText());
  expect(read.size).toBe(5_000);
  for (let i = 0; i < 5_000; i++) expect(read.has(`id-${i}`)).toBe(true);
  for (let i = 5_000; i < 6_000; i++) expect(read.has(`id-${i}`)).toBe(false);
  expect(IdentitySet.fromText(new IdentitySet().toText()).size).toBe(0);
});
