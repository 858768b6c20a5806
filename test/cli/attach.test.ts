// `rondo run FILE` where another process has the engine: this one is its worker meanwhile.
import { describe, expect, test } from "vitest";
import { cli, folder, jsonLines, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

// Task 3 holds the process until Ctrl-C comes (HOLD=once), for ever (HOLD=always), or not at all.
const FLOW = `
import { workflow } from "rondo";
export const count = workflow<{ n: number }>({ name: "count" })
  .phase("one", {
    *enumerate({ input }) { for (let i = 0; i < input.n; i++) yield i; },
    async process({ task, log }) {
      log("begins");
      const hold = process.env["HOLD"];
      if (task === 3 && hold === "once") await new Promise((resolve) => process.once("SIGINT", resolve));
      if (task === 3 && hold === "always") await new Promise(() => {});
      return task;
    },
    concurrency: 1,
  })
  .returns(({ phases }) => phases.one.count);
`;
const FAMILY = `
import { workflow } from "rondo";
const one = workflow<{ n: number }>({ name: "one" })
  .phase("p", { process: ({ input }) => input.n })
  .returns(() => 1);
export const family = workflow({ name: "family" })
  .child("all", one, { enumerate: () => [{ n: 1 }, { n: 2 }, { n: 3 }] })
  .returns(({ phases }) => phases.all.count);
`;
const USES = JSON.stringify({
  rondo: 1,
  name: "uses",
  phases: [{ name: "one", handlers: { one: { use: "count.one", tasks: [7] } } }],
});

const begun = (stderr: string): number[] =>
  Array.from(stderr.matchAll(/^one\/one#(\d+) begins$/gm), ([, n]) => Number(n));

describe("a directory that is owned", () => {
  test("is worked on through its owner, which keeps the execution", async () => {
    const cwd = folder({ "flow.ts": FLOW });
    await startServer({ cwd });
    const ran = await cli(["run", "flow.ts", "-i", '{"n":5}', "--id", "a"], { cwd });
    expect(ran).toMatchObject({ code: 0, stdout: "5\n" });
    expect(ran.stderr).toContain("count: execution a started at the owner of file:.rondo\n");
    expect(begun(ran.stderr)).toEqual([0, 1, 2, 3, 4]);
    expect(ran.stderr).toMatch(/^one: done, 5 tasks/m);

    const again = await cli(["run", "flow.ts", "--id", "a", "--json"], { cwd });
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ id: "a", status: "done", output: 5 });
    expect(await cli(["run", "flow.ts", "-i", '{"n":6}', "--id", "a"], { cwd })).toMatchObject({ code: 4 });
    // Its definition stays: it can be started by name, and waits for a worker.
    expect(await cli(["run", "count", "-i", '{"n":1}', "--id", "b"], { cwd })).toMatchObject({ code: 0 });
    const { stdout } = await cli(["why", "b"], { cwd });
    expect(stdout).toContain('none serves "count.one"');
    // Whoever comes next with the code does it too.
    expect(await cli(["run", "flow.ts", "-i", '{"n":1}', "--id", "b"], { cwd })).toMatchObject({
      code: 0,
      stdout: "1\n",
    });
  });

  test("may be at another address, by --url; then no directory is touched", async () => {
    const server = await startServer({ cwd: folder() });
    const cwd = folder({ "flow.ts": FLOW });
    const ran = await cli(["run", "flow.ts", "-i", '{"n":2}', "--url", server.url], { cwd });
    expect(ran).toMatchObject({ code: 0, stdout: "2\n" });
    const listed = await cli(["ps", "--json", "--url", server.url], { cwd });
    expect(jsonLines(listed.stdout)).toHaveLength(1);
    expect(
      await cli(["run", "flow.ts", "-i", '{"n":2}', "--url", "http://127.0.0.1:1"], { cwd }),
    ).toMatchObject({
      code: 6,
      stdout: "",
    });
  });

  test("does the children of a workflow too, where it has them as objects", async () => {
    const cwd = folder({ "family.ts": FAMILY });
    await startServer({ cwd });
    expect(await cli(["run", "family.ts", "--id", "f"], { cwd })).toMatchObject({ code: 0, stdout: "3\n" });
  });

  test("runs a definition file whose code another worker has", async () => {
    const cwd = folder({ "flow.ts": FLOW, "uses.json": USES });
    await startServer({ cwd });
    const worker = startCli(["worker", "flow.ts"], { cwd });
    await worker.line(/worker \S+ serves/);
    expect(await cli(["run", "uses.json", "--id", "u"], { cwd })).toMatchObject({
      code: 0,
      stdout: "null\n",
    });
    expect((await cli(["tasks", "u", "--json"], { cwd })).stdout).toContain('"result":7');
    worker.kill("SIGTERM");
    expect(await worker.ended).toMatchObject({ code: 0 });
  });
});

describe("leaving", () => {
  test("by Ctrl-C lets what runs end, and says how to go on; going on does the rest once", async () => {
    const cwd = folder({ "flow.ts": FLOW });
    await startServer({ cwd });
    const first = startCli(["run", "flow.ts", "-i", '{"n":6}', "--id", "x"], { cwd, env: { HOLD: "once" } });
    await first.line(/one\/one#3 begins/);
    first.kill("SIGINT");
    const left = await first.ended;
    expect(left).toMatchObject({ code: 130, stdout: "" });
    expect(left.stderr).toContain("to continue the execution: rondo run flow.ts --id x\n");
    const second = await cli(["run", "flow.ts", "--id", "x"], { cwd });
    expect(second).toMatchObject({ code: 0, stdout: "6\n" });
    expect([...begun(left.stderr), ...begun(second.stderr)]).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("by the owner, killed: this process takes its place and ends what it began", async () => {
    // What the killed server had given away is in doubt for one heartbeat.
    const cwd = folder({ "flow.ts": FLOW, "rondo.config.json": '{ "heartbeat": "1s" }' });
    const server = await startServer({ cwd });
    const run = startCli(["run", "flow.ts", "-i", '{"n":6}', "--id", "y"], { cwd, env: { HOLD: "always" } });
    await run.line(/one\/one#3 begins/);
    server.process.kill("SIGKILL");
    await run.line(/the process that had file:\.rondo open has ended/);
    await run.line(/execution y goes on/);
    run.kill("SIGKILL");
    await run.ended;
    const after = await cli(["run", "flow.ts", "--id", "y"], { cwd });
    expect(after).toMatchObject({ code: 0, stdout: "6\n" });
  });

  test("by the owner, a run that ends: the next process takes its place", async () => {
    const cwd = folder({ "flow.ts": FLOW });
    const owner = startCli(["run", "flow.ts", "-i", '{"n":6}', "--id", "o"], { cwd, env: { HOLD: "once" } });
    await owner.line(/one\/one#3 begins/);
    const next = startCli(["run", "flow.ts", "-i", '{"n":2}', "--id", "n"], { cwd });
    await next.line(/execution n started at the owner of file:\.rondo/);
    // What a run has can be seen and steered by others, as at a server.
    const { stdout } = await cli(["ps", "--json"], { cwd });
    expect(jsonLines<{ id: string }>(stdout).map(({ id }) => id)).toEqual(["n", "o"]);
    owner.kill("SIGINT");
    expect(await owner.ended).toMatchObject({ code: 130, stdout: "" });
    expect(await next.ended).toMatchObject({ code: 0, stdout: "2\n" });
    expect(await cli(["ps"], { cwd })).toMatchObject({ code: 6 });
  });
});

test("a run that has just begun is found, although it opens its socket only after a moment", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  const run = startCli(["run", "flow.ts", "-i", '{"n":5}', "--id", "a"], { cwd, env: { HOLD: "always" } });
  await run.line(/execution a started in file:\.rondo$/);
  expect(await cli(["cancel", "a"], { cwd })).toMatchObject({ code: 0 });
});
