// What people are told when something is not as they thought: where it is, and what to type next.
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { tableLines } from "../../src/cli/output/table.ts";
import { userFrame } from "../../src/cli/run/follow-to-end.ts";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const FLOW = `
import { workflow } from "rondo";
export const fails = workflow({ name: "fails" }).phase("p", {
  tasks: [0, 1],
  process({ task, log }) {
    log("hello");
    if (task > 0) throw new Error("no " + task);
    return task;
  },
  retry: { attempts: 2, min: 1 },
}).returns(({ phases }) => phases.p.count);
export const stores = workflow({ name: "stores" }).phase("p", { process: () => (() => 1) as never });
export const quiet = workflow({ name: "quiet" }).phase("a", { process: () => 1 }).phase("b", { process: () => 2 })
  .returns(() => 3);
export const waits = workflow({ name: "waits" }).waitFor("go");`;

const SCRIPT = `{ "rondo": 1, "name": "script", "phases": [{ "name": "p", "handlers": { "p": {
  "script": [{ "name": "first", "expression": "s =>\\n  s.x.y" }], "retry": { "attempts": 1 } } } }] }`;

test("a failed task is told with its line of code, its hint, and that there was no input", async () => {
  const cwd = folder({ "flow.ts": FLOW, "script.json": SCRIPT });
  const run = (...args: string[]) => cli(["run", ...args], { cwd });
  const thrown = await run("flow.ts", "--workflow", "fails");
  expect(thrown.code).toBe(1);
  expect(thrown.stderr).toMatch(/^ {2}at flow\.ts:7:\d+$/m);
  expect(thrown.stderr).toMatch(/^ {2}the execution has no input: none was given with -i$/m);
  expect(thrown.stderr).toMatch(/^p\/p#1 \(attempt 2\) hello$/m);
  const given = await run("flow.ts", "--workflow", "stores", "-i", "1");
  expect(given.stderr).toMatch(/^ {2}return plain JSON data$/m);
  expect(given.stderr).not.toContain("none was given with -i");
  const script = await run("script.json", "--unsafe-no-jail");
  expect(script.stderr).toMatch(/^ {2}in the run "first", line \d+$/m);
});

test("frames of Rondo and of the runtime are not user code", () => {
  const stack = (file: string) => `Error: x\n    at node:internal/x:1:2\n    at f (${file}:3:4)`;
  expect(userFrame(stack("/elsewhere/a.ts"))).toBe("/elsewhere/a.ts:3:4");
  expect(userFrame(stack("file:///elsewhere/a%20b.ts"))).toBe("/elsewhere/a b.ts:3:4");
  expect(userFrame(stack(`${process.cwd()}/flows/a.ts`))).toBe("flows/a.ts:3:4");
  expect(userFrame(stack(`${process.cwd()}/src/worker/worker.ts`))).toBeNull();
  expect(userFrame("Error: x")).toBeNull();
});

test("names, ids and levels that are none are answered with those that are", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  await startServer({ cwd });
  await cli(["run", "flow.ts", "--workflow", "quiet", "--id", "q"], { cwd });
  const cases: [args: string[], code: number, ...says: string[]][] = [
    [
      ["run", "flows.tss"],
      3,
      'there is no file flows.tss, and "flows.tss" is not a valid name of a workflow',
    ],
    [["run", "qiuet"], 3, 'there is no workflow "qiuet"', "did you mean quiet?", "the server has: "],
    [["inspect", "nope"], 3, "rondo ps"],
    [["cancel", "q"], 4, "rondo inspect"],
    [["dlq", "retry", "nope"], 3, "ids of dead letters are numbers", "rondo dlq"],
    [["workers", "drain", "nope"], 3, "there is no worker nope", "rondo workers"],
    [["logs", "q", "--level", "zz"], 2, "there are: debug, info, warn, error, progress, run"],
    [["logs", "q"], 0, "no logs"],
    [["wait", "q", "--timeout", "5000"], 0],
    [["wait", "q", "--timeout", "5x"], 2, "--timeout"],
  ];
  for (const [args, code, ...says] of cases) {
    const ended = await ask(args, { cwd });
    expect({ args, code: ended.code }).toEqual({ args, code });
    expect(ended.stderr).not.toContain("openapi.json");
    for (const text of says) expect(ended.stderr).toContain(text);
  }
  const status = await cli(["ps", "--status", "zz"], { cwd });
  expect(status.stderr).toContain(`not one of "running", "paused"`);
  expect(status.stderr).not.toContain("openapi.json");
});

test("lists show what is the user's: tasks of all phases, failures, no counts that are zero", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  await startServer({ cwd });
  await cli(["run", "flow.ts", "--workflow", "quiet", "--id", "q"], { cwd });
  await cli(["run", "flow.ts", "--workflow", "fails", "--id", "f"], { cwd });
  const [ps, tasks, inspect, events] = await Promise.all(
    [["ps"], ["tasks", "q"], ["inspect", "q"], ["events", "q"]].map((args) => ask(args, { cwd })),
  );
  expect(ps?.stdout).toMatch(/^f +fails +failed +- +2\/2, 1 failed /m);
  expect(ps?.stdout).toMatch(/^q +quiet +done +- +2\/2 /m);
  expect(
    tasks?.stdout
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => line.split(" ")[0]),
  ).toEqual(["a", "b", "returns"]);
  expect(inspect?.stdout).toMatch(/^PHASE +STATUS +HANDLER +TOTAL +DONE$/m);
  expect(events?.stdout).toMatch(/hash=[0-9a-f]{12} project=default$/m);
});

test("a worker says once that it serves, once that the server is away, and once that it is back", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  const first = await startServer({ cwd });
  const worker = startCli(["worker", "flow.ts"], { cwd });
  await worker.line(/^worker \S+ serves/);
  first.process.kill("SIGKILL");
  await worker.line(/the server does not answer .*the worker keeps its receipts and tries again/);
  await startServer({ cwd });
  await worker.line(/the server is back/);
  await cli(["run", "flow.ts", "--workflow", "quiet"], { cwd });
  const counts = [/^worker \S+ serves/, /the server does not answer/, /the server is back/].map((one) =>
    worker.lines(one),
  );
  expect(counts).toEqual([1, 1, 1]);
});

test("a worker that is there before its server waits for it", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  const worker = startCli(["worker", "flow.ts"], { cwd });
  await worker.line(
    /^rondo: waiting for the server: no server works on \.rondo yet \(start one: rondo start\)$/,
  );
  await startServer({ cwd });
  await worker.line(/^worker \S+ serves/);
});

test("what a table cuts at the edge of a terminal ends with a mark", () => {
  const lines = (columns: number) =>
    tableLines(
      [
        { title: "A", value: () => "a".repeat(38) },
        { title: "B", value: () => "b".repeat(10) },
      ],
      [{}],
      { isTTY: true, columns },
    ).map((line) => stripVTControlCharacters(line));
  expect(lines(40)[1]).toBe(`${"a".repeat(38)} …`);
  expect(lines(45)[1]).toBe(`${"a".repeat(38)}  bbbb…`);
  expect(lines(50)[1]).toBe(`${"a".repeat(38)}  ${"b".repeat(10)}`);
});

test("restoring what is no backup is 2 and leaves nothing behind; 70 is in the help, and so is the broker", async () => {
  const cwd = folder({ "not-one.db": "hello" });
  expect(await cli(["restore", "not-one.db", "--store", "file:new"], { cwd })).toMatchObject({ code: 2 });
  expect(await cli(["ps", "--store", "file:new"], { cwd })).toMatchObject({ code: 6 });
  const [help, start] = await Promise.all([cli(["--help"], { cwd }), cli(["start", "--help"], { cwd })]);
  expect(help.stdout).toContain("70 broken");
  expect(start.stdout).toContain("--broker");
});
