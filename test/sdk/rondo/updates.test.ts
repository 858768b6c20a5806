// Updates: signals that the code of an execution answers, once, across attempts, crashes and repeats; and declared signals.
import { defineSignal, defineUpdate, flow, RondoError, UpdateRefused } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const add = defineUpdate("add", { data: z.object({ sku: z.string() }), answer: z.number() });
const paid = defineSignal("paid", z.object({ by: z.string() }));

/** A cart: updates add to it until it is paid for. */
const cart = flow("cart", async ({ updates, waitFor, step }) => {
  const items: string[] = [];
  for await (const request of updates(add)) {
    if (request.data.sku === "gold") {
      await request.refuse("sold out");
      continue;
    }
    items.push(await step(`item ${items.length}`, () => request.data.sku));
    await request.answer(items.length);
    if (items.length === 2) break;
  }
  const { by } = await waitFor(paid);
  return { items, by };
});

describe("an update", () => {
  test("is answered once: the caller gets the answer or the refusal, a repeat gets the same", async () => {
    const rondo = await open([cart]);
    const execution = await rondo.start(cart, null);
    const tea = await execution.update(add, { sku: "tea" }, { id: "first" });
    expect(tea).toBe(1);
    const refused = await failure(execution.update(add, { sku: "gold" }));
    expect(refused).toBeInstanceOf(UpdateRefused);
    expect(refused).toBeInstanceOf(RondoError);
    const message = 'update "add" was refused: sold out';
    expect(refused).toMatchObject({ update: "add", code: "update_refused", message });
    expect(await execution.update("add", { sku: "cups" })).toBe(2);
    expect(await execution.update(add, { sku: "tea" }, { id: "first" })).toBe(1);
    await execution.signal(paid, { by: "ann" });
    expect(await execution.result()).toEqual({ items: ["tea", "cups"], by: "ann" });
    expect(await execution.update(add, { sku: "tea" }, { id: "first" })).toBe(1);
    const gone = await failure(execution.update(add, { sku: "late" }));
    expect(gone).toMatchObject({ code: "gone", message: expect.stringContaining('the update "add"') });
  });

  test("survives crashes between its parts: one answer, one effect", async () => {
    await using t = await testRondo({ workflows: [cart] });
    const execution = await t.start(cart, null);
    const first = execution.update(add, { sku: "tea" }, { id: "1" });
    await t.crash();
    await t.clock.advance("10m");
    expect(await first).toBe(1);
    await t.crash();
    await t.clock.advance("10m");
    const second = execution.update(add, { sku: "cups" }, { id: "2" });
    await t.clock.advance("10m");
    expect([await second, await execution.update(add, { sku: "tea" }, { id: "1" })]).toEqual([2, 1]);
    await execution.signal("paid", { by: "jo" });
    await t.clock.advance("10m");
    expect(await execution.result()).toEqual({ items: ["tea", "cups"], by: "jo" });
  });

  test("with data that does not fit is refused, by the caller if it knows the schema, else by the code", async () => {
    const rondo = await open([cart]);
    const execution = await rondo.start(cart, null);
    const here = await failure(execution.update(add, { sku: 7 } as never));
    expect(here).toMatchObject({ code: "invalid_input" });
    const there = await failure(execution.update("add", { sku: 7 }));
    expect(there).toMatchObject({ name: "UpdateRefused", refusal: { code: "invalid_input" } });
    expect(await execution.update(add, { sku: "tea" })).toBe(1);
  });

  test("without an answer is `gone` when the execution ends, and is listed as unread; without one in time it stays", async () => {
    const deaf = flow("deaf", async ({ waitForUpdate, waitFor }) => {
      await waitForUpdate("ask");
      await waitFor("end");
    });
    const rondo = await open([deaf]);
    const execution = await rondo.start(deaf, null);
    const late = await failure(execution.update("ask", 1, { id: "a", timeout: "20ms" }));
    expect(late).toMatchObject({ code: "timeout" });
    const waiting = [execution.update("ask", 1, { id: "a" }), execution.update("ask", 2)].map(failure);
    while ((await execution.describe()).unread?.[0]?.count !== 2)
      await new Promise((resolve) => setImmediate(resolve));
    expect(await execution.why()).toContain('2 updates "ask"');
    await execution.signal("end");
    for (const gone of await Promise.all(waiting)) expect(gone).toMatchObject({ code: "gone" });
    expect((await execution.describe()).unread).toEqual([{ signal: "ask", count: 2, update: true }]);
  });

  test("is no signal: a wait for a signal of its name does not take it, and its name cannot be sent as one", async () => {
    const both = flow("both", async ({ waitFor, waitForUpdate }) => {
      const told = await waitFor("x");
      const asked = await waitForUpdate("x", { timeout: "1d" });
      await asked.answer("yes");
      return [told, asked.data];
    });
    const rondo = await open([both]);
    const execution = await rondo.start(both, null);
    const answer = execution.update("x", "asked");
    await execution.signal("x", "told");
    expect(await answer).toBe("yes");
    expect(await execution.result()).toEqual(["told", "asked"]);
    expect(await failure(execution.signal("~update:x"))).toMatchObject({ code: "invalid_input" });
  });

  test("with a name that is too long for a wait is refused", async () => {
    const asks = flow("asks", async ({ waitForUpdate }, name: string) => {
      const request = await waitForUpdate(name);
      await request.answer(1);
    });
    await using t = await testRondo({ workflows: [asks] });
    const longest = "n".repeat(192);
    expect(await (await t.start(asks, longest)).update(longest, null)).toBe(1);
    const refused = await failure((await t.start(asks, longest)).update(`${longest}n`, null));
    expect(refused).toMatchObject({ code: "invalid_input" });
  });

  test("ends the loop of `updates` after its time limit, and cannot be answered twice", async () => {
    const twice = flow("twice", async ({ updates }) => {
      let count = 0;
      for await (const request of updates("n", { timeout: "1h" })) {
        count++;
        await request.answer(count);
        if (request.data === "again") await request.answer(count);
      }
      return count;
    });
    await using t = await testRondo({ workflows: [twice] });
    const execution = await t.start(twice, null);
    expect(await execution.update("n", "a")).toBe(1);
    expect(await execution.update("n", "b")).toBe(2);
    await t.clock.advance("2h");
    expect(await execution.result()).toBe(2);
    const other = await t.start(twice, null);
    expect(await other.update("n", "again")).toBe(1);
    await t.clock.advance("10m");
    await expect(other.result()).rejects.toThrow('the update "n" has been answered already');
  });
});

describe("a declared signal", () => {
  const looks = flow("looks", async ({ waitFor }) => {
    const by: string[] = [];
    for (let round = 1; round <= 2; round++) {
      const taken = await waitFor(`look ${round}`, { signal: paid, timeout: "1d" });
      by.push(taken.by);
    }
    return by;
  });

  test("is waited for again and again, under other names, with the type and the schema of its data", async () => {
    await using t = await testRondo({ workflows: [looks] });
    const execution = await t.start(looks, null);
    await t.settle();
    expect(await execution.awaits()).toEqual(["paid"]);
    await execution.signal(paid, { by: "ann" });
    await t.crash();
    await execution.signal("paid", { by: "bob" });
    expect(await execution.result()).toEqual(["ann", "bob"]);
  });

  test("whose data does not fit fails the attempt that waits for it under another name", async () => {
    await using t = await testRondo({ workflows: [looks] });
    const execution = await t.start(looks, null);
    await execution.signal("paid", { by: 7 });
    await t.clock.advance("10m");
    await expect(execution.result()).rejects.toThrow(/by.*expected string/su);
  });
});
