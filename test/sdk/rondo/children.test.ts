// Children over a real engine: served together with their parent, limited in time, not retried in vain.
import { ExecutionFailed, Fatal, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

describe("a child that is given as an object", () => {
  const grandchild = workflow<number>({ name: "grandchild" })
    .phase("one", { process: ({ input }) => input + 1 })
    .returns(async ({ phases }) => (await all(phases.one.results()))[0]);
  const child = workflow<number>({ name: "child" })
    .child("down", grandchild)
    .returns(async ({ phases }) => (await all(phases.down.results()))[0]);
  const parent = workflow<number>({ name: "parent" })
    .child("down", child, { enumerate: ({ input }) => [input, input * 10] })
    .returns(({ phases }) => all(phases.down.results()));

  test("is served with its parent, and so are its own children", async () => {
    const rondo = await open([parent]);
    expect(new Set(await rondo.run(parent, 1))).toEqual(new Set([2, 11]));
    expect(await rondo.run("grandchild", 5)).toBe(6);
  });

  test("does not replace one of its name that is served itself", async () => {
    const other = workflow<number>({ name: "grandchild" })
      .phase("one", { process: () => 100 })
      .returns(async ({ phases }) => (await all(phases.one.results()))[0]);
    for (const order of [
      [other, parent],
      [parent, other],
    ])
      expect(await (await open(order)).run(parent, 1)).toEqual([100, 100]);
    const later = await open([other]);
    later.serve(parent);
    expect(await later.run(parent, 1)).toEqual([100, 100]);
  });
});

test("a child that fails for good is run once, however many attempts its parents have", async () => {
  let runs = 0;
  const last = workflow({ name: "last" }).phase("b", {
    process: () => {
      runs++;
      throw new Fatal("never");
    },
  });
  const middle = workflow({ name: "middle" }).child("b", last);
  const first = workflow({ name: "first" }).child("b", middle);
  const rondo = await open([first]);
  const failed = await failure(rondo.run(first, null));
  expect(failed).toBeInstanceOf(ExecutionFailed);
  expect(failed.message).toContain("never");
  expect((failed as ExecutionFailed).execution.error).not.toHaveProperty("fatal");
  expect(runs).toBe(1);
});

test("a child that takes too long is cancelled, and its task fails with a timeout", async () => {
  const slow = workflow({ name: "slow" }).waitFor("go");
  const parent = workflow({ name: "parent" }).child("b", slow, { timeout: "1m", retry: { attempts: 2 } });
  await using t = await testRondo({ workflows: [parent] });
  const execution = await t.start(parent, null);
  await t.clock.advance("10m");
  expect((await failure(execution.result())).code).toBe("timeout");
  const [first] = t.events(execution.id).filter(({ kind }) => kind === "workflow.child.started");
  expect((await t.execution(String(first?.["child"])).describe()).status).toBe("cancelled");
  expect(t.events(execution.id).filter(({ kind }) => kind === "workflow.child.started")).toHaveLength(2);
});
