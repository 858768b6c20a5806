/** Nodes that host code themselves: what one of them hosts is done for all. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRondo, workflow } from "../../../src/index.ts";
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
