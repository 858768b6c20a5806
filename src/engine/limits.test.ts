import { expect, test } from "vitest";
import { Limits } from "./limits.ts";

const declared = (max: number) => ({ max, declaredAt: 0, silenceMs: 0 });

test("the limit of a key is forgotten when nobody holds or wants it", () => {
  const limits = new Limits();
  limits.declareKey("p/u#a", declared(1));
  limits.take("p/u#a");
  expect(limits.hasRoom("p/u#a", 0)).toBe(false);
  limits.give("p/u#a");
  expect(limits.look("p/u#a")).toBeNull();
});

test("the limit of a handler stays", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(1));
  limits.take("p/u");
  limits.give("p/u");
  expect(limits.look("p/u")).toMatchObject({ max: 1, held: 0 });
});

test("those who wait are told in the order of their age, each once", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(1));
  limits.take("p/u");
  const told: string[] = [];
  for (const [id, age] of [
    ["c", 3],
    ["a", 1],
    ["b", 2],
    ["a", 1],
  ] as const)
    limits.wait("p/u", { id, age }, () => told.push(id));
  limits.give("p/u");
  limits.take("p/u");
  limits.give("p/u");
  expect(told).toEqual(["a", "b", "c"]);
});

test("a block passes at its time, and wakes those who waited", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(5));
  limits.block("p/u", 100);
  let told = 0;
  limits.wait("p/u", { id: "a", age: 1 }, () => told++);
  limits.unblock(99);
  expect([limits.hasRoom("p/u", 99), limits.nextUnblockAt(), told]).toEqual([false, 100, 0]);
  limits.unblock(100);
  expect([limits.hasRoom("p/u", 100), limits.nextUnblockAt(), told]).toEqual([
    true,
    Number.POSITIVE_INFINITY,
    1,
  ]);
});
