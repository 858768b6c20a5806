/** Nodes that host code themselves: what one of them hosts is done for all. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { flow, openRondo, workflow } from "../../../src/index.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.make();
}, 180_000);
afterAll(async () => {
  await server.remove();
});

test("code that one process hosts is reached from every node, and tasks, scripts and results come back", async () => {
  const store = server.url;
  // The first one has all partitions until the others have been there for a while, and hosts nothing.
  const other = await openRondo({ store });
  const first = workflow({ name: "first" }).phase("none", {});
  await other.run(first, {});
  const host = await openRondo({ store });
  try {
    const squares = workflow<{ upTo: number }>({ name: "squares" })
      .phase("square", {
        enumerate: ({ input }) => Array.from({ length: input.upTo }, (_, i) => i),
        process: ({ task }) => task ** 2,
      })
      .script("add", { runs: [{ name: "one", expression: "s => s + 1" }], state: 41 })
      .returns(async ({ phases }) => {
        let sum = 0;
        for await (const one of phases.square.results()) sum += one;
        return sum;
      });
    host.serve(squares);
    const handles = await Promise.all(
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? host : other).start(squares, { upTo: 20 })),
    );
    const sums = await Promise.all(handles.map((handle) => handle.result()));
    expect(new Set(sums)).toEqual(new Set([2_470]));
  } finally {
    await Promise.all([host.close(), other.close()]);
  }
}, 120_000);

test("versions are served by different nodes, and executions are moved and counted from any node", async () => {
  const store = server.url;
  const versioned = (version: string) =>
    workflow({ name: "versioned", version })
      .waitFor("go")
      .phase("ship", { process: () => `shipped by ${version}` })
      .returns(({ phases }) => phases.ship.only());
  const [one, two] = [await openRondo({ store }), await openRondo({ store })];
  try {
    const [first, second] = [versioned("1.0.0"), versioned("2.0.0")];
    two.serve(second);
    await two.start(second, null);
    one.serve(first);
    const old = await Promise.all(Array.from({ length: 8 }, () => one.start("versioned@1.0.0", null)));
    const needs = async () =>
      (await two.versions("versioned")).map(({ version, open, isNewest }) => [version, open, isNewest]);
    expect(await needs()).toEqual([
      ["2.0.0", 1, true],
      ["1.0.0", 8, false],
    ]);
    const filter = { workflow: "versioned", status: "running" } as const;
    expect(await two.bulk("move", filter, { version: "2.0.0" })).toMatchObject({ refused: [] });
    expect(await needs()).toEqual([
      ["2.0.0", 9, true],
      ["1.0.0", 0, false],
    ]);
    for (const { id } of old) await one.execution(id).signal("go");
    const outputs = await Promise.all(old.map((execution) => execution.result()));
    expect(new Set(outputs)).toEqual(new Set(["shipped by 2.0.0"]));
    for (const { id } of old) {
      expect((await two.stateAt(id, 2)).workflowVersion).toBe("1.0.0");
      expect((await one.execution(id).describe()).tags).toEqual({});
    }
  } finally {
    await Promise.all([one.close({ graceMs: 0 }), two.close({ graceMs: 0 })]);
  }
}, 120_000);

test("executions follow each other under an id, though another node owns them", async () => {
  const store = server.url;
  const owner = await openRondo({ store });
  await owner.run(workflow({ name: "owns" }).phase("none", {}), {});
  const host = await openRondo({ store });
  try {
    const count = flow("count", async ({ waitFor, continueAs }, { n }: { n: number }) => {
      await waitFor("next");
      return n === 3 ? n : continueAs({ n: n + 1 });
    });
    const digest = workflow({ name: "digest" }).waitFor("item");
    for (const served of [count, digest]) host.serve(served);
    const ids = Array.from({ length: 6 }, (_, i) => `many-${i}`);
    const outputs = await Promise.all(
      ids.map(async (id) => {
        const execution = await host.start(count, { n: 1 }, { id });
        for (const n of [1, 2, 3]) await host.execution(id).signal("next", n, { id: `next-${n}` });
        return execution.result();
      }),
    );
    expect(outputs).toEqual(ids.map(() => 3));
    for (const id of ids) expect(await owner.execution(id).describe()).toMatchObject({ id: `${id}~3` });
    for (const n of [1, 2, 3]) {
      const signal = { name: "item", data: n, id: `item-${n}` };
      const options = { id: "digest", ifExists: "startNewWhenDone" } as const;
      const { execution } = await host.signalWithStart(digest, null, signal, options);
      await execution.result();
    }
    expect(await owner.execution("digest").describe()).toMatchObject({ id: "digest~3", status: "done" });
  } finally {
    await Promise.all([host.close({ graceMs: 0 }), owner.close({ graceMs: 0 })]);
  }
}, 120_000);
