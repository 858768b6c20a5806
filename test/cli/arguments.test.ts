// Arguments and inputs that are nothing, or not what they should be, are refused before anything is done.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import { cli, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const ECHO = `
import { workflow } from "rondo";
export const echo = workflow({ name: "echo" }).phase("p", { process: ({ input }) => input })
  .returns(({ input }) => input);`;

test("an empty argument is named, with how the verb is used", async () => {
  const cwd = folder();
  const cases: [args: string[], says: string][] = [
    [["inspect", ""], "rondo: <id> is empty\n  usage: rondo inspect [options] <id>\n"],
    [["signal", "a", ""], "rondo: <name> is empty\n  usage: rondo signal [options] <id> <name>\n"],
    [["run", ""], "rondo: <target> is empty\n  usage: rondo run [options] <target>\n"],
    [["dlq", "retry", ""], "rondo: <id> is empty\n  usage: rondo dlq retry [options] <id>\n"],
    [["cancel", ".."], 'rondo: <id>: ".." is not an id\n'],
  ];
  for (const [args, stderr] of cases)
    expect(await ask(args, { cwd })).toMatchObject({ code: 2, stdout: "", stderr });
});

test("an id that nothing has is told by every verb, with where to look", async () => {
  const cwd = folder();
  await startServer({ cwd });
  const verbs = ["inspect", "events", "tasks", "logs", "why", "wait", "cancel", "pause", "resume", "retry"];
  const all = [...verbs.map((verb) => [verb, "nope"]), ["events", "-f", "nope"], ["logs", "-f", "nope"]];
  for (const args of [...all, ["signal", "nope", "go"]])
    expect(await ask(args, { cwd }), args.join(" ")).toMatchObject({
      code: 3,
      stdout: "",
      stderr: "rondo: there is no execution nope\n  list the executions: rondo ps\n",
    });
}, 120_000);

test("an input that is not UTF-8 is refused at its byte, on stdin and in a file; what is UTF-8 stays as it is", async () => {
  const latin = Buffer.from([0x22, 0x63, 0x61, 0x66, 0xe9, 0x22]);
  const cwd = folder({ "echo.ts": ECHO, "good.json": '\ufeff"café 😀"' });
  writeFileSync(join(cwd, "bad.json"), latin);
  const run = (input: string, stdin?: Uint8Array) =>
    cli(["run", "echo.ts", "-i", input, "--store", "memory:"], {
      cwd,
      ...(stdin === undefined ? {} : { stdin }),
    });
  expect(await run("-", latin)).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("the input on stdin is not UTF-8: byte 4 (0xe9)"),
  });
  expect(await run("@bad.json")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("bad.json is not UTF-8: byte 4 (0xe9)"),
  });
  // Cut off within a character.
  expect(await run("-", Buffer.from('"😀').subarray(0, 3))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("byte 1 (0xf0)"),
  });
  expect(await run("@good.json")).toMatchObject({ code: 0, stdout: '"café 😀"\n' });
  expect(await run("-", Buffer.from('"é"'))).toMatchObject({ code: 0, stdout: '"é"\n' });
}, 120_000);
