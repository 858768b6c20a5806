// Every exit code that scripts rely on, from a real process where it can be had, else from the one table.
import { openRondo, workflow } from "rondo";
import { expect, onTestFinished, test } from "vitest";
import { EXIT_BY_REJECTION } from "../../src/cli/exit-code.ts";
import { cli, folder, startCli } from "../fixtures/cli/cli-process-fixture.ts";

const WAITS = `
import { workflow } from "rondo";
export const waits = workflow<{ n: number }>({ name: "waits" }).waitFor("approved");`;
const FAILS = `
import { Fatal, workflow } from "rondo";
export const fails = workflow({ name: "fails" }).phase("risky", {
  tasks: [0, 1, 2],
  process({ task }) {
    if (task === 1 && process.env["FIXED"] === undefined) throw new Fatal("no such bucket");
    return task;
  },
}).returns(({ phases }) => phases.risky.count);`;

test("0 and 1: an execution that failed says where, and --retry does the rest", async () => {
  const cwd = folder({ "fails.ts": FAILS });
  const failed = await cli(["run", "fails.ts", "--id", "f"], { cwd });
  expect({ code: failed.code, stdout: failed.stdout }).toEqual({ code: 1, stdout: "" });
  for (const part of [
    "fails (execution f) failed",
    "task_failed",
    "no such bucket",
    "in risky/risky, task 1, attempt 1",
    "rondo run fails.ts --id f --json",
    "rondo run fails.ts --id f --retry",
  ])
    expect(failed.stderr).toContain(part);

  const again = await cli(["run", "fails.ts", "--id", "f", "--json"], { cwd });
  expect(again.code).toBe(1);
  expect(JSON.parse(again.stdout)).toMatchObject({ status: "failed", error: { task: 1 } });

  const fixed = await cli(["run", "fails.ts", "--id", "f", "--retry"], { cwd, env: { FIXED: "1" } });
  expect(fixed.stderr).toMatch(/goes on\n.*: started\n/);
  expect(fixed).toMatchObject({ code: 0, stdout: "3\n" });
});

const USAGE: [args: string[], says: string][] = [
  [[], "Usage: rondo"],
  [["run"], "missing required argument 'target'"],
  [["frobnicate"], "unknown command 'frobnicate'"],
  [["run", "waits.ts", "--nonsense"], "unknown option '--nonsense'"],
  [["ps", "--limit", "0"], '--limit: "0" is not a whole number above zero'],
  [["completion", "tcsh"], 'there is no completion for "tcsh"'],
  [["sim", "waits.ts"], "to simulate a workflow of yours: `simulate` of rondo/testing"],
  [["run", "./"], "is not a file"],
  [["run", "waits.ts", "--store", "pg:x"], '"pg:x" is not the URL of a store'],
  [["run", "waits.ts", "--id", "no~tilde"], "is not an execution id"],
  [["run", "waits.ts", "--timeout", "soon"], '"soon" is not a duration'],
  [["run", "waits.ts", "--retry"], "--retry needs the --id"],
  [["run", "waits.ts", "-i", "@"], "needs the name of a file"],
];

test.each(USAGE)("2: rondo %j", async (args, says) => {
  const { code, stdout, stderr } = await cli(args, { cwd: folder({ "waits.ts": WAITS }) });
  expect({ code, stdout, stderr }).toEqual({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining(says) as string,
  });
});

test("3: what is not there", async () => {
  const cwd = folder({ "waits.ts": WAITS });
  const says: [args: string[], says: string][] = [
    [["run", "absent.ts"], "there is no file absent.ts"],
    [["run", "waits.ts", "-i", "@absent.json"], "there is no file absent.json"],
    [["run", "waits.ts", "--id", "x", "--retry"], "there is no execution x to retry"],
  ];
  for (const [args, part] of says) {
    const { code, stderr } = await cli(args, { cwd });
    expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining(part) as string });
  }
});

test("4, 124: an execution of that id with another input or workflow; one that does not end in time", async () => {
  const cwd = folder({ "waits.ts": WAITS, "fails.ts": FAILS });
  const late = await cli(["run", "waits.ts", "--id", "w", "-i", '{"n":1}', "--timeout", "10ms"], { cwd });
  expect(late).toMatchObject({
    code: 124,
    stdout: "",
    stderr: expect.stringContaining("to continue the execution: rondo run waits.ts --id w\n") as string,
  });
  const other = await cli(["run", "waits.ts", "--id", "w", "-i", '{"n":2}'], { cwd });
  expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining("leave out -i") as string });
  const foreign = await cli(["run", "fails.ts", "--id", "w"], { cwd });
  expect(foreign).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('execution w belongs to the workflow "waits", not to "fails"') as string,
  });
});

test("4: a directory that a process without a socket works on is said to be, with its process id", async () => {
  const cwd = folder({ "waits.ts": WAITS });
  const rondo = await openRondo({ store: `file:${cwd}/.rondo` });
  onTestFinished(() => rondo.close());
  const { code, stderr } = await cli(["run", "waits.ts"], { cwd });
  expect(code).toBe(4);
  expect(stderr).toContain(`is in use by process ${process.pid}`);
  expect(stderr).toContain("--store file:<directory>");
});

test("143: SIGTERM leaves as Ctrl-C does", async () => {
  const cwd = folder({ "waits.ts": WAITS });
  const run = startCli(["run", "waits.ts", "--id", "w"], { cwd });
  await run.line(/execution w started/);
  run.kill("SIGTERM");
  expect(await run.ended).toMatchObject({ code: 143, stdout: "" });
});

test("6: a store that cannot be used", async () => {
  const cwd = folder({ "waits.ts": WAITS, "a-file": "" });
  const { code, stderr } = await cli(["run", "waits.ts", "--store", "file:a-file"], { cwd });
  expect({ code, stderr }).toEqual({ code: 6, stderr: expect.stringContaining("cannot be used") as string });
});

test("7: an execution that was cancelled", async () => {
  const cwd = folder({ "waits.ts": WAITS });
  const waits = workflow<{ n: number }>({ name: "waits" }).waitFor("approved");
  const rondo = await openRondo({ store: `file:${cwd}/.rondo` });
  const handle = await rondo.start(waits, { n: 1 }, { id: "c" });
  await handle.cancel({ by: "ops", reason: "not needed" });
  await rondo.close();
  const { code, stdout, stderr } = await cli(["run", "waits.ts", "--id", "c"], { cwd });
  expect({ code, stdout }).toEqual({ code: 7, stdout: "" });
  expect(stderr).toContain("waits (execution c) was cancelled");
  expect(stderr).toContain("cancelled by ops: not needed");
});

test("70: code that throws where nobody can catch it ends the process, and the execution goes on later", async () => {
  const cwd = folder({
    "stray.ts": `
      import { workflow } from "rondo";
      export const stray = workflow({ name: "stray" }).phase("a", {
        async process() {
          if (process.env["FIXED"] !== undefined) return "fine";
          setImmediate(() => { throw new Error("stray"); });
          return new Promise<string>(() => {});
        },
      });`,
  });
  const { code, stderr } = await cli(["run", "stray.ts", "--id", "s"], { cwd });
  expect(code).toBe(70);
  expect(stderr).toContain("code threw outside of any task, which ends this process: Error: stray");
  expect(stderr).toContain("to continue: rondo run stray.ts --id s");
  const again = await cli(["run", "stray.ts", "--id", "s"], { cwd, env: { FIXED: "1" } });
  expect(again).toMatchObject({ code: 0, stdout: '"fine"\n' });
});

test("the table gives every refusal of the API the exit code of its status", () => {
  expect(EXIT_BY_REJECTION).toEqual({
    invalid_json: 2,
    too_large: 2,
    invalid_input: 2,
    invalid_definition: 2,
    unknown_field: 2,
    not_storable: 2,
    too_deep: 2,
    unauthorised: 5,
    forbidden: 5,
    not_found: 3,
    conflict: 4,
    wrong_status: 4,
    gone: 4,
    stale_attempt: 4,
    update_refused: 1,
    not_owner: 6,
    rate_limited: 6,
    store_unavailable: 6,
    not_ready: 6,
    timeout: 124,
  });
});

test("--version and --help are on stdout", async () => {
  const cwd = folder();
  expect(await cli(["--version"], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    stderr: "",
  });
  const help = await cli(["run", "--help"], { cwd });
  expect(help).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("--store <url>") as string,
    stderr: "",
  });
});
