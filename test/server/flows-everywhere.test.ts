// Everything that the code of a flow can do, with the code in the process of the engine and in an HTTP worker, on a store in
// memory and on PostgreSQL.
import { ChildFailed, Fatal, flow, handlerFor, StepFailed, workflow } from "rondo";
import { connect } from "rondo/client";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { openServer } from "../../src/compose/compose-server.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

const kid = flow("kid", async ({ step }, { n }: { n: number }) => {
  if (n < 0) throw new Fatal("negative");
  return step("square", () => n * n);
});

const steps = flow("steps", async ({ step, map, now, random, uuid, sleep }, { count }: { count: number }) => {
  let tries = 0;
  const third = await step("third", { retry: { attempts: 3, min: 1 }, timeout: "10s" }, () => {
    if (++tries < 3) throw new Error("again");
    return tries;
  });
  const failed = await step("never", { retry: { attempts: 2, min: 1 } }, () => {
    throw new Error("never");
  }).catch((thrown: unknown) => thrown instanceof StepFailed);
  const side = await Promise.all(["a", "b", "c"].map((name) => step(name, () => name.toUpperCase())));
  const mapped = await map("squares", [1, 2, 3, 4], (n) => n * n, { concurrency: 2 });
  const before = { at: now("begin"), random: random(), uuid: uuid("id") };
  const stored = await step("read", () => before);
  await sleep("nap", 1);
  let sum = 0;
  for (let n = 0; n < count; n++) sum += await step(`n${n}`, () => n);
  return { third, failed, side, mapped, isSame: JSON.stringify(stored) === JSON.stringify(before), sum };
});

const family = flow(
  "family",
  async ({ run, start }) => {
    const nine = await run(kid, { n: 3 });
    const refused = await run(kid, { n: -1 }, { name: "bad" }).catch(
      (thrown: unknown) => thrown instanceof ChildFailed,
    );
    const { id } = await start(kid, { n: 5 }, { name: "own" });
    return { nine, refused, isOwn: id.includes("~") };
  },
  { children: [kid] },
);

const mailroom = flow("mailroom", async ({ waitFor, signals }) => {
  const first = await waitFor(["yes", "no"], { schema: z.number() });
  const mine = await waitFor("reply", { match: { to: "me" } });
  const items: number[] = [];
  for await (const item of signals("item", { schema: z.number() })) if (items.push(item) === 3) break;
  return { first, mine, items };
});

const entity = flow(
  "entity",
  async ({ waitFor, continueAs }, { total, seen }) => {
    const { name, value } = await waitFor(["add", "stop"], { schema: z.number() });
    if (name === "stop") return { total, seen };
    return continueAs({ total: total + value, seen: seen + 1 });
  },
  { input: z.object({ total: z.number(), seen: z.number().default(0) }) },
);

/** Three layers of tasks: the first finds the others, and each of the others waits for all of the layer before it. */
const graph = workflow<{ width: number }>({ name: "graph" })
  .phase("build", {
    enumerate: ({ input }) => [{ layer: 0, n: 0, width: input.width }],
    identity: ({ layer, n }) => `${layer}/${n}`,
    after: ({ layer, width }) =>
      layer === 0 ? [] : Array.from({ length: layer === 1 ? 1 : width }, (_, n) => `${layer - 1}/${n}`),
    adds: true,
    async process({ task: { layer, width }, add }) {
      if (layer === 0)
        for (const next of [2, 1]) for (let n = 0; n < width; n++) add({ layer: next, n, width });
      return layer;
    },
  })
  .returns(async ({ phases }) => phases.build.toArray({ max: 1_000 }));

const double = handlerFor<number>()({ name: "double", process: async ({ task }) => task * 2 });
const doubles = flow(
  "doubles",
  async ({ map }, { count }: { count: number }) => {
    const items = Array.from({ length: count }, (_, n) => n);
    return (await map("all", items, double)).toArray({ max: count });
  },
  { children: [double] },
);

const ALL = [kid, steps, family, mailroom, entity, graph, doubles];
const databases: TestDatabase[] = [];
afterAll(async () => {
  for (const database of databases) await database.remove();
});

const STORES = {
  memory: async () => ({ store: "memory:" }),
  postgres: async () => {
    const database = await TestDatabase.make();
    databases.push(database);
    return { store: await database.newDatabase() };
  },
};

describe.each(["memory", "postgres"] as const)("on %s", (kind) => {
  describe.each(["the process of the engine", "an HTTP worker"])("with code in %s", (place) => {
    test("a flow does everything that code can do", async () => {
      const server = await openServer({ ...(await STORES[kind]()), port: 0 });
      onTestFinished(() => server.close({ graceMs: 0 }));
      const client = connect({ url: server.url });
      if (place === "an HTTP worker") {
        const worker = await client.serve(ALL);
        onTestFinished(() => worker.close());
      } else server.rondo.serve(...ALL);

      expect(await client.run(steps, { count: 1_010 })).toEqual({
        third: 3,
        failed: true,
        side: ["A", "B", "C"],
        mapped: [1, 4, 9, 16],
        isSame: true,
        sum: (1_009 * 1_010) / 2,
      });
      expect(await client.run(family, null)).toEqual({ nine: 9, refused: true, isOwn: true });

      const layers = await client.run(graph, { width: 20 });
      expect(layers).toEqual([0, ...Array<number>(20).fill(1), ...Array<number>(20).fill(2)]);
      const twice = await client.run(doubles, { count: 50 });
      expect(twice).toEqual(Array.from({ length: 50 }, (_, n) => n * 2));

      const mail = await client.start(mailroom, null, { id: "m" });
      for (const n of [1, 2, 3]) await mail.signal("item", n);
      await mail.signal("no", 7);
      await mail.signal("reply", { to: "you" });
      await mail.signal("reply", { to: "me", text: "hi" });
      expect(await mail.result()).toEqual({
        first: { name: "no", value: 7 },
        mine: { to: "me", text: "hi" },
        items: [1, 2, 3],
      });

      const account = await client.start(entity, { total: 0 }, { id: "acc" });
      const result = account.result();
      for (let n = 1; n <= 10; n++) {
        await account.signal("add", n, { id: `s${n}` });
        // A repeat is not applied again, whichever execution had the signal.
        await account.signal("add", n, { id: `s${n}` });
      }
      const { started } = await client.signalWithStart(
        entity,
        { total: 0 },
        { name: "stop", data: 0 },
        { id: "acc" },
      );
      expect(started).toBe(false);
      expect(await result).toEqual({ total: 55, seen: 10 });
      expect(await account.describe()).toMatchObject({ id: "acc~11", status: "done", continues: "acc~10" });
      expect(await client.execution("acc~1").describe()).toMatchObject({ id: "acc", continuedAs: "acc~2" });
      const kinds: string[] = [];
      for await (const event of client.execution("acc~1").events()) kinds.push(event.kind);
      expect(kinds.slice(-3)).toEqual([
        "workflow.handler.finished",
        "workflow.phase.finished",
        "workflow.finished",
      ]);
      expect(await client.execution("acc~2").why()).toContain("continued as acc~3");
    });
  });
});
