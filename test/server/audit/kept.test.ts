// An execution that has ended and cannot be read any more is kept, whatever the retention, until it is dropped or mended.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { openInProcess } from "../../../src/compose/compose.ts";
import type { Store } from "../../../src/store/store.ts";
import { useStores } from "../../fixtures/store/stores-on-disk-fixture.ts";

const kinds = useStores();
const flow = workflow({ name: "short" })
  .phase("do", { process: () => 1 })
  .returns(() => "over");

const heads = (store: Store) => store.listHeads({}, { before: null, max: 9 });
const ended = (store: Store) => store.listEnded({ finishedBefore: Number.MAX_SAFE_INTEGER, max: 9 });

test.each(kinds.names)("%s: what ended and is damaged stays; mended, it is over again", async (name) => {
  const kind = kinds.make(name);
  const life = async (
    live: (rondo: Awaited<ReturnType<typeof openInProcess>>, store: Store) => Promise<void>,
  ) => {
    const store = kind.open();
    const rondo = await openInProcess({ store, onFault: () => {} });
    rondo.serve(flow);
    await live(rondo, store);
    await rondo.close();
  };
  const garble = (from: string, to: string) =>
    kind.run(
      (of) =>
        `UPDATE ${of}journal SET body = replace(body, '${from}', '${to}') WHERE e = (SELECT e FROM ${of}executions WHERE id = 'e1')`,
    );
  await life(async (rondo) => {
    for (const id of ["e1", "e2"]) expect(await rondo.run(flow, {}, { id })).toBe("over");
  });
  await garble("phase.started", "phase.stasted");
  await life(async (rondo, store) => {
    expect(await rondo.execution("e1").describe()).toMatchObject({ status: "damaged", finishedAt: null });
    await expect.poll(() => store.countHeads({})).toEqual({ damaged: 1, done: 1 });
    expect(await ended(store)).toEqual(["e2"]);
    await store.purge(["e1", "e2"]);
    expect((await heads(store)).map(({ id, finishedAt }) => [id, finishedAt])).toEqual([["e1", null]]);
  });
  await garble("phase.stasted", "phase.started");
  await life(async (rondo, store) => {
    expect(await rondo.execution("e1").describe()).toMatchObject({ status: "done", output: "over" });
    await expect.poll(() => ended(store)).toEqual(["e1"]);
    expect(await heads(store)).toMatchObject([{ id: "e1", status: "done", finishedAt: expect.any(Number) }]);
  });
});

test.each(kinds.names)(
  "%s: a row that says that a living execution was purged takes nothing of it",
  async (name) => {
    const kind = kinds.make(name);
    const life = async (
      live: (rondo: Awaited<ReturnType<typeof openInProcess>>, store: Store) => Promise<void>,
    ) => {
      const store = kind.open();
      const rondo = await openInProcess({ store });
      rondo.serve(flow);
      await live(rondo, store);
      await rondo.close();
    };
    await life(async (rondo) => {
      for (const id of ["e1", "e2"]) await rondo.run(flow, {}, { id });
    });
    await kind.run((of) => `INSERT INTO ${of}purged SELECT e FROM ${of}executions WHERE id = 'e1'`);
    await life(async (rondo, store) => {
      await store.purge(["e2"]);
      expect((await heads(store)).map(({ id }) => id)).toEqual(["e1"]);
      expect(await rondo.execution("e1").result()).toBe("over");
      expect((await store.readJournal({ execution: "e1", from: 1 })).length).toBeGreaterThan(0);
    });
  },
);
