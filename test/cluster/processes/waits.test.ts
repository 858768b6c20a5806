/** Two nodes over PostgreSQL: each waits for executions of the other, and a result outlives the node that was asked for it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../../../src/client.ts";
import { openServer } from "../../../src/compose/compose-server.ts";
import { workflow } from "../../../src/index.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.make();
}, 180_000);
afterAll(async () => {
  await server.remove();
});

const square = workflow<number>({ name: "square" })
  .phase("square", { process: async ({ input }) => input ** 2 })
  .returns(({ phases }) => phases.square.count);
const gate = workflow<number>({ name: "gate" })
  .waitFor("go")
  .returns(({ input }) => input);

test("starts with a wait and results are answered by either node, and by the other when one closes", async () => {
  const nodes = [];
  for (let i = 0; i < 2; i++) nodes.push(await openServer({ store: server.url, port: 0 }));
  const [first, second] = nodes as [(typeof nodes)[number], (typeof nodes)[number]];
  let isOpen = true;
  try {
    second.rondo.serve(square, gate);
    const clients = nodes.map(({ url }) => connect({ url }));
    const runs = clients.flatMap((client, c) =>
      Array.from({ length: 20 }, (_, n) => client.run(square, n, { id: `square-${c}-${n}` })),
    );
    expect(new Set(await Promise.all(runs))).toEqual(new Set([1]));
    for (const { url } of nodes)
      for (const id of ["square-0-0", "square-1-1"])
        expect(await (await fetch(`${url}/v1/executions/${id}/result?wait=30s`)).json()).toEqual({
          status: "done",
          output: 1,
        });
    const ids = Array.from({ length: 8 }, (_, n) => `gate-${n}`);
    const patient = connect({ urls: nodes.map(({ url }) => url) });
    const results = ids.map((id, n) => patient.run(gate, n, { id }));
    const there = connect({ url: second.url });
    for (const id of ids)
      while (
        (await there
          .execution(id)
          .status()
          .catch(() => null)) !== "running"
      );
    await first.close({ graceMs: 0 });
    isOpen = false;
    for (const id of ids) await there.execution(id).signal("go");
    expect(await Promise.all(results)).toEqual(ids.map((_, n) => n));
  } finally {
    if (isOpen) await first.close({ graceMs: 0 });
    await second.close({ graceMs: 0 });
  }
}, 120_000);
