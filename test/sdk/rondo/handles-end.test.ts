import { expect, test } from "vitest";
import { z } from "zod";
import { openRondo, workflow } from "../../../src/index.ts";

const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
};

test("events from beyond the end of an execution that is over are none", async () => {
  await using rondo = await openRondo({ store: "memory:" });
  const quick = workflow({ name: "quick" }).phase("a", { process: () => 1 });
  rondo.serve(quick);
  const execution = await rondo.start(quick, null);
  await execution.result();
  const { revision } = await execution.describe();
  expect(await all(execution.events({ from: revision + 1 }))).toEqual([]);
  expect((await all(execution.events({ from: revision }))).map(({ kind }) => kind)).toEqual([
    "workflow.finished",
  ]);
  await expect(all(rondo.execution("nobody").events({ from: 2 }))).rejects.toMatchObject({
    code: "not_found",
  });
});

test("disposing a handle ends what listens through it", async () => {
  await using rondo = await openRondo({ store: "memory:" });
  const waiting = workflow({ name: "waiting" }).waitFor("go");
  rondo.serve(waiting);
  const execution = await rondo.start(waiting, null);
  const events = all(execution.events());
  const result = execution.result().catch((error: unknown) => error);
  await execution.describe();
  await execution[Symbol.asyncDispose]();
  expect((await events).length).toBeGreaterThan(0);
  expect(await result).toMatchObject({ code: "not_ready" });
});

test("a signal that does not fit the schema of its wait is refused, and one that does is taken", async () => {
  await using rondo = await openRondo({ store: "memory:" });
  const asking = workflow({ name: "asking" })
    .waitFor("approval", { schema: z.object({ ok: z.boolean() }) })
    .returns(({ phases }) => phases.approval.value.ok);
  rondo.serve(asking);
  const execution = await rondo.start(asking, null);
  await expect(execution.signal("approval", { ok: "yes" })).rejects.toMatchObject({ code: "invalid_input" });
  await execution.signal("approval", { ok: true });
  expect(await execution.result()).toBe(true);
});

test("with a concurrency of 1, executions get their turn in the order of their age", async () => {
  await using rondo = await openRondo({ store: "memory:" });
  const order: number[] = [];
  const one = workflow<{ n: number }>({ name: "one" }).phase("a", {
    process: async ({ input }) => {
      await Promise.resolve();
      order.push(input.n);
    },
    concurrency: 1,
  });
  rondo.serve(one);
  await Promise.all(Array.from({ length: 40 }, (_, n) => rondo.run(one, { n })));
  expect(order).toEqual(Array.from({ length: 40 }, (_, n) => n));
});
