import { describe, expect, test } from "vitest";
import { Limits, rateName } from "./limits.ts";

const declared = (max: number) => ({ max, declaredAt: 0, silenceMs: 0 });

test("the limit of a key is forgotten when nobody holds or wants it", () => {
  const limits = new Limits();
  limits.declareKey("p/u#a", declared(1));
  limits.acquire("p/u#a");
  expect(limits.hasRoom("p/u#a", 0)).toBe(false);
  limits.release("p/u#a");
  expect(limits.find("p/u#a")).toBeNull();
});

test("the limit of a handler stays", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(1));
  limits.acquire("p/u");
  limits.release("p/u");
  expect(limits.find("p/u")).toMatchObject({ max: 1, held: 0 });
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
    limits.acquire("p/u");
    const { called, wait } = waitingAt(limits, "p/u");
    wait("c", 3);
    wait("a", 1);
    wait("b", 2);
    wait("a", 1);
    expect(limits.callWaiters(0)).toBe(0);
    limits.release("p/u");
    limits.callWaiters(0);
    expect(called).toEqual(["a"]);
    // The first waiter did not take the permit, so the next one is called.
    limits.callWaiters(0);
    limits.callWaiters(0);
    expect(called).toEqual(["a", "b", "c"]);
  });

  test("have turns: who was served is behind those who have got less", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    const { called, wait } = waitingAt(limits, "p/u");
    const a = { id: "a", age: 1, priority: 0 };
    limits.acquire("p/u", a);
    wait("b", 2);
    wait("a", 1);
    wait("c", 3);
    limits.release("p/u");
    expect(limits.mayAcquire("p/u", a, 0)).toBe(false);
    for (let i = 0; i < 3; i++) limits.callWaiters(0);
    expect(called).toEqual(["b", "c", "a"]);
  });

  test("keep their place if they were called and could not go", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    const { called, wait } = waitingAt(limits, "p/u");
    wait("a", 1);
    limits.callWaiters(0);
    limits.acquire("p/u", { id: "x", age: 9, priority: 0 });
    wait("x", 0);
    wait("b", 2);
    wait("a", 1);
    limits.release("p/u");
    limits.callWaiters(0);
    expect(called).toEqual(["a", "a"]);
  });

  test("go by priority first", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(2));
    const { called, wait } = waitingAt(limits, "p/u");
    wait("low", 1, -1);
    wait("high", 3, 5);
    wait("middle", 2);
    expect(limits.mayAcquire("p/u", { id: "newer", age: 4, priority: 4 }, 0)).toBe(false);
    expect(limits.mayAcquire("p/u", { id: "highest", age: 5, priority: 6 }, 0)).toBe(true);
    limits.callWaiters(0);
    limits.callWaiters(0);
    expect(called).toEqual(["high", "middle"]);
  });

  test("are called for a limit that grows, and not for one that shrinks", () => {
    const limits = new Limits();
    limits.declare("p/u", declared(1));
    limits.acquire("p/u");
    const { called, wait } = waitingAt(limits, "p/u");
    for (const id of ["a", "b", "c"]) wait(id, 1);
    limits.declare("p/u", declared(3));
    limits.callWaiters(0);
    expect(called).toEqual(["a"]);
    limits.declare("p/u", declared(0));
    limits.release("p/u");
    expect(limits.callWaiters(0)).toBe(0);
  });
});

test("a block passes at its time, and then those who waited are called", () => {
  const limits = new Limits();
  limits.declare("p/u", declared(5));
  limits.block("p/u", 100);
  const { called, wait } = waitingAt(limits, "p/u");
  wait("a", 1);
  limits.unblock(99);
  expect([limits.hasRoom("p/u", 99), limits.nextUnblockAt(), limits.callWaiters(99)]).toEqual([
    false,
    100,
    0,
  ]);
  limits.unblock(100);
  expect([limits.hasRoom("p/u", 100), limits.nextUnblockAt()]).toEqual([true, Number.POSITIVE_INFINITY]);
  limits.callWaiters(100);
  expect(called).toEqual(["a"]);
});

test("a rate that a former owner may have used up allows nothing for its time", () => {
  const limits = new Limits();
  const who = { id: "a", age: 1, priority: 0 };
  limits.declareRate(rateName("p/u"), {
    rate: { limit: 3, per: 100 },
    ...{ declaredAt: 0, usedUpAt: 1_000, now: 1_050 },
  });
  limits.unblock(1_099);
  expect([limits.hasRoom(rateName("p/u"), 1_099), limits.allowedAt(rateName("p/u"))]).toEqual([false, 1_100]);
  limits.unblock(1_100);
  for (let i = 0; i < 3; i++) limits.start(rateName("p/u"), who, 1_100);
  expect([limits.hasRoom(rateName("p/u"), 1_100), limits.allowedAt(rateName("p/u"))]).toEqual([false, 1_200]);
});
