import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { OpenPromises } from "./open-promises.ts";
import { TransientMap } from "./transient-map.ts";

const key = fc.integer({ min: 0, max: 12 });
const change = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("set" as const), key, value: fc.string() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("delete" as const), key }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("clear" as const) }) },
);

test("after any changes it has the same entries in the same order as a Map", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
      const map = new Map<number, string>();
      const transient = new TransientMap<number, string>();
      for (const one of changes) {
        if (one.kind === "set") transient.set(one.key, one.value);
        if (one.kind === "set") map.set(one.key, one.value);
        if (one.kind === "delete") expect(transient.delete(one.key)).toBe(map.delete(one.key));
        if (one.kind === "clear") transient.clear();
        if (one.kind === "clear") map.clear();
        expect([...transient]).toEqual([...map]);
      }
      expect([...transient.keys()]).toEqual([...map.keys()]);
      expect([...transient.values()]).toEqual([...map.values()]);
      for (let k = 0; k <= 12; k++) {
        expect(transient.get(k)).toBe(map.get(k));
        expect(transient.has(k)).toBe(map.has(k));
      }
      expect(transient.size).toBe(map.size);
    }),
  );
});

test("entries can be deleted and added while it is read", () => {
  const transient = new TransientMap<string, { readonly n: number }>();
  for (let n = -100; n < 0; n++) transient.set(`${n}`, { n });
  for (const name of transient.keys()) transient.delete(name);
  for (let n = 0; n < 3; n++) transient.set(`${n}`, { n });
  const read: number[] = [];
  for (const { n } of transient.values()) {
    read.push(n);
    transient.delete(`${n}`);
    if (n < 5) transient.set(`${n + 3}`, { n: n + 3 });
  }
  expect(read).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(transient.size).toBe(0);
});

test("somebody who reads the entries while all of many are deleted finds those that are added then", () => {
  const transient = new TransientMap<number, string>();
  for (let n = 0; n < 100; n++) transient.set(n, `${n}`);
  const read: string[] = [];
  for (const value of transient.values()) {
    read.push(value);
    if (value !== "0") continue;
    for (const n of [...transient.keys()]) transient.delete(n);
    transient.set(100, "100");
  }
  expect(read).toEqual(["0", "100"]);
});

const LIVING = 20;

/** Adds and deletes values, with collections of young objects in between. Returns the growth of the memory of old objects in bytes. */
function oldBytesAfter(map: {
  set(key: string, value: object): unknown;
  delete(key: string): unknown;
}): number {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  const oldBytes = (): number =>
    getHeapSpaceStatistics()
      .filter(({ space_name }) => space_name.startsWith("old_space"))
      .reduce((sum, { space_used_size }) => sum + space_used_size, 0);
  const value = (n: number) => ({ texts: Array.from({ length: 100 }, (_, i) => `${n}.${i}`) });
  for (let n = 0; n < LIVING; n++) map.set(`${n}`, value(n));
  // What is there now becomes old.
  gc();
  const before = oldBytes();
  for (let n = LIVING; n < 10_000; n++) {
    map.delete(`${n - LIVING}`);
    map.set(`${n}`, value(n));
    if (n % 200 === 0) gc({ type: "minor" });
  }
  return oldBytes() - before;
}

test("deleted values are collected while they are young, which is not so for a Map", () => {
  expect(oldBytesAfter(new TransientMap<string, object>())).toBeLessThan(oldBytesAfter(new Map()) / 4);
});

test("promises are open until they settle, and a rejection reaches whoever waits for all of them", async () => {
  const open = new OpenPromises();
  let settle = (): void => {};
  const late = new Promise<void>((resolve) => {
    settle = resolve;
  });
  const failing = Promise.reject(new Error("no"));
  open.add(late);
  open.add(failing);
  await expect(open.all()).rejects.toThrow("no");
  expect(open.size).toBe(1);
  const settled = Promise.all([open.all(), open.settled()]).then(() => open.size);
  const next = open.next();
  settle();
  await next;
  expect(await settled).toBe(0);
});
