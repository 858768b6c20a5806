// A disk that is really full: every node that is asked for a start says so at /readyz, reads go on, and when there is room
// again all nodes are ready and each start is done once.
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { type Api, serve, until } from "../fixtures/server/api-fixture.ts";
import { idle } from "../fixtures/server/api-workflows.ts";
import { SmallDisk } from "../fixtures/small-disk-fixture.ts";
import { PostgresServer, TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

/** An input that no free room in a table or a file takes up, and that cannot be compressed. */
function largeText(): string {
  return randomBytes(100_000).toString("hex");
}

async function expectToldAndMended(disk: SmallDisk, nodes: readonly Api[]): Promise<void> {
  await nodes[0]?.post("/v1/workflows", idle);
  for (const node of nodes) expect((await node.get("/readyz")).status).toBe(200);
  const starts = nodes.map((node, i) => ({
    node,
    body: { workflow: "idle", id: `run-${i}`, input: { bucket: largeText() } },
  }));
  disk.fill();
  const refused = await Promise.all(starts.map(({ node, body }) => node.post("/v1/executions", body)));
  for (const { body } of refused) expect(body).toMatchObject({ status: 503, code: "store_unavailable" });
  for (const node of nodes) {
    const { status, body } = await node.get("/readyz");
    expect([status, body["detail"]]).toEqual([
      503,
      expect.stringMatching(/^the store takes no writes: .*disk is full/),
    ]);
    expect((await node.get("/healthz")).status).toBe(200);
    expect((await node.get("/v1/executions")).body["data"]).toEqual([]);
  }
  disk.empty();
  for (const node of nodes) await until(async () => (await node.get("/readyz")).status === 200);
  for (const { node, body } of starts) {
    await until(async () => [200, 201].includes((await node.post("/v1/executions", body)).status));
    expect((await node.get(`/v1/executions/${body.id}`)).body["input"]).toEqual(body.input);
  }
  for (const node of nodes)
    expect((await node.get("/v1/executions")).body["data"]).toHaveLength(starts.length);
}

describe.runIf(SmallDisk.isPossible)("a disk without room", () => {
  let server: PostgresServer | null = null;
  afterAll(() => server?.remove());

  test("is told of by a server with a file, and by none once there is room", async () => {
    const disk = SmallDisk.make("16m") as SmallDisk;
    const node = await serve({ store: `file:${join(disk.directory, "store")}` });
    await expectToldAndMended(disk, [node]);
  }, 120_000);

  test("is told of by both nodes over a database, and by none once there is room", async () => {
    server = await PostgresServer.make();
    const disk = SmallDisk.make("64m") as SmallDisk;
    const place = join(disk.directory, "tables");
    mkdirSync(place);
    server.give(place);
    const client = await TestDatabase.of(server).client();
    onTestFinished(() => client.end());
    await client.query(`CREATE TABLESPACE small LOCATION '${place}'`);
    await client.query("CREATE DATABASE small TABLESPACE small");
    const store = server.url.replace(/postgres$/, "small");
    const nodes = [await serve({ store }), await serve({ store })];
    await expectToldAndMended(disk, nodes);
  }, 240_000);
});
