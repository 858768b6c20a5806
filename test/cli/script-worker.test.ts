// `rondo worker` without files: definitions that come as data need no code of anybody, but scripts need somebody to run them.
import { availableParallelism } from "node:os";
import { expect, test } from "vitest";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

test("a worker without files does scripts of definitions that the server was given, as many at a time as there are cores", async () => {
  const cwd = folder();
  const { url } = await startServer({ cwd });
  const post = async (path: string, body: object) =>
    (await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }).then((answer) => answer.json())) as { id: string };
  const script = [{ name: "add", expression: "(state, { input }) => state + input.n" }];
  await post("/v1/workflows", {
    rondo: 1,
    name: "sum",
    phases: [{ name: "p", handlers: { h: { script, state: 1 } } }],
  });
  const { id } = await post("/v1/executions", { workflow: "sum", input: { n: 2 } });
  // A node runs no code.
  expect((await cli(["why", id], { cwd })).stdout).toContain("waits for a worker");
  const worker = startCli(["worker", "--unsafe-no-jail"], { cwd });
  await worker.line(/no files are given, so this worker runs scripts only/);
  expect((await cli(["wait", id, "--json"], { cwd })).code).toBe(0);
  const tasks = await cli(["tasks", id, "--json"], { cwd });
  expect(JSON.parse(tasks.stdout)).toMatchObject({ status: "done", result: 3 });
  const workers = (await (await fetch(`${url}/v1/workers`)).json()) as { data: { capacity: number }[] };
  expect(workers.data).toMatchObject([{ capacity: availableParallelism() }]);
  worker.kill("SIGTERM");
  expect(await worker.ended).toMatchObject({ code: 0 });
});
