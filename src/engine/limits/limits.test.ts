import { describe, expect, test } from "vitest";
import { Limits, rateName } from "./limits.ts";

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

/** Lets one wait; gives the order in which waiters are called. */
function waitingAt(limits: Limits, name: string) {
  const called: string[] = [];
  const wait = (id: string, age: number, priority = 0) =>
    limits.wait(name, { id, age, priority }, () => called.push(id));
  return { called, wait };
}

describe("those who wait", () => {
  test("are called as there is room, the oldest newcomer first, each once", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    limits.take("p/u");
    const { called, wait } = waitingAt(limits, "p/u");
    wait("c", 3);
    wait("a", 1);
    wait("b", 2);
    wait("a", 1);
    expect(limits.call(0)).toBe(0);
    limits.give("p/u");
    limits.call(0);
    expect(called).toEqual(["a"]);
    // It could not take it: the next one is called.
    limits.call(0);
    limits.call(0);
    expect(called).toEqual(["a", "b", "c"]);
  });

  test("have turns: who was served is behind those who have got less", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    const { called, wait } = waitingAt(limits, "p/u");
    const a = { id: "a", age: 1, priority: 0 };
    limits.take("p/u", a);
    wait("b", 2);
    wait("a", 1);
    wait("c", 3);
    limits.give("p/u");
    expect(limits.mayTake("p/u", a, 0)).toBe(false);
    for (let i = 0; i < 3; i++) limits.call(0);
    expect(called).toEqual(["b", "c", "a"]);
  });

  test("keep their place if they were called and could not go", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    const { called, wait } = waitingAt(limits, "p/u");
    wait("a", 1);
    limits.call(0);
    limits.take("p/u", { id: "x", age: 9, priority: 0 });
    wait("x", 0);
    wait("b", 2);
    wait("a", 1);
    limits.give("p/u");
    limits.call(0);
    expect(called).toEqual(["a", "a"]);
  });

  test("go by priority first", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(2));
    const { called, wait } = waitingAt(limits, "p/u");
    wait("low", 1, -1);
    wait("high", 3, 5);
    wait("middle", 2);
    expect(limits.mayTake("p/u", { id: "newer", age: 4, priority: 4 }, 0)).toBe(false);
    expect(limits.mayTake("p/u", { id: "highest", age: 5, priority: 6 }, 0)).toBe(true);
    limits.call(0);
    limits.call(0);
    expect(called).toEqual(["high", "middle"]);
  });

  test("are called for a limit that grows, and not for one that shrinks", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    limits.take("p/u");
    const { called, wait } = waitingAt(limits, "p/u");
    for (const id of ["a", "b", "c"]) wait(id, 1);
    limits.declare("p/u", declared(3));
    limits.call(0);
    expect(called).toEqual(["a"]);
    limits.declare("p/u", declared(0));
    limits.give("p/u");
    expect(limits.call(0)).toBe(0);
  });
});

test("a block passes at its time, and then those who waited are called", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(5));
  limits.block("p/u", 100);
  const { called, wait } = waitingAt(limits, "p/u");
  wait("a", 1);
  limits.unblock(99);
  expect([limits.hasRoom("p/u", 99), limits.nextUnblockAt(), limits.call(99)]).toEqual([false, 100, 0]);
  limits.unblock(100);
  expect([limits.hasRoom("p/u", 100), limits.nextUnblockAt()]).toEqual([true, Number.POSITIVE_INFINITY]);
  limits.call(100);
  expect(called).toEqual(["a"]);
});

test("a rate that a former owner may have used up allows nothing for its time", () => {
  const limits = new Limits();
  const who = { id: "a", age: 1, priority: 0 };
  limits.declareRate("p/u", { limit: 3, per: 100 }, { declaredAt: 0, usedUpAt: 1_000, now: 1_050 });
  limits.unblock(1_099);
  expect([limits.hasRoom(rateName("p/u"), 1_099), limits.allowedAt("p/u")]).toEqual([false, 1_100]);
  limits.unblock(1_100);
  for (let i = 0; i < 3; i++) limits.start("p/u", who, 1_100);
  expect([limits.hasRoom(rateName("p/u"), 1_100), limits.allowedAt("p/u")]).toEqual([false, 1_200]);
});
