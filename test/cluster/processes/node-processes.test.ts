/** Several nodes under one command, and under one `openRondo`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRondo, RondoError, workflow } from "../../../src/index.ts";
import { cli, folder, startCli } from "../../fixtures/cli/cli-process-fixture.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.make();
}, 180_000);
afterAll(async () => {
  await server.remove();
});

const squares = workflow<{ n: number }>({ name: "squares" }).phase("square", {
  process: ({ input }) => input.n ** 2,
});

test("`start --nodes` serves at two addresses, starts a killed node again, and ends all on SIGTERM", async () => {
  const supervisor = startCli(["start", "--nodes", "2", "--port", "0", "--json", "--store", server.url], {
    cwd: folder(),
  });
  const { urls, pids } = JSON.parse(await supervisor.line(/^\{/)) as { urls: string[]; pids: number[] };
  expect(new Set(urls).size).toBe(2);
  for (const url of urls) expect((await fetch(`${url}/healthz`)).status).toBe(200);
  process.kill(pids[1] as number, "SIGKILL");
  await supervisor.line(/node-2 died \(SIGKILL\); it is started again/);
  const again = /http\S+/.exec(await supervisor.line(/node-2 serves again at http/))?.[0];
  expect((await fetch(`${again}/healthz`)).status).toBe(200);
  supervisor.kill("SIGTERM");
  expect(await supervisor.ended).toMatchObject({ code: 0, signal: null });
  for (const url of [urls[0], again]) await expect(fetch(`${url}/healthz`)).rejects.toThrow("fetch failed");
}, 120_000);

test("nodes end when the process that started them is killed", async () => {
  const supervisor = startCli(["start", "--nodes", "2", "--port", "0", "--json", "--store", server.url], {
    cwd: folder(),
  });
  const { pids } = JSON.parse(await supervisor.line(/^\{/)) as { pids: number[] };
  supervisor.kill("SIGKILL");
  await until("the nodes have ended", () => pids.every((pid) => !isAlive(pid)));
}, 120_000);

test("a node that cannot start ends the others, with its exit code", async () => {
  const { code, stderr } = await cli(["start", "--nodes", "2", "--port", "65535", "--store", server.url], {
    cwd: folder(),
  });
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("node-2") as string });
}, 120_000);

test("`openRondo({ nodes })` runs executions on nodes of other processes, and closes them", async () => {
  await expect(openRondo({ store: "memory:", nodes: 2 })).rejects.toThrow(RondoError);
  const rondo = await openRondo({ store: server.url, nodes: 2 });
  rondo.serve(squares);
  const outputs = await Promise.all(Array.from({ length: 20 }, (_, n) => rondo.run(squares, { n })));
  expect(outputs).toHaveLength(20);
  await rondo.close();
}, 120_000);

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
