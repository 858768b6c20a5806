// `rondo dev`: a server, and a worker that follows changes of files and of what they import.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, startCli } from "../fixtures/cli/cli-process-fixture.ts";

const FLOW = `
import { workflow } from "rondo";
import { version } from "./lib/version";
export const hello = workflow({ name: "hello" })
  .phase("say", { process: () => version })
  .returns(async ({ phases }) => { for await (const said of phases.say.results()) return said; });
`;
const HOLDS = `
import { workflow } from "rondo";
export const holds = workflow({ name: "holds" })
  .waitFor("go")
  .phase("old", { process: () => "by the code of before" })
  .returns(({ phases }) => phases.old.count);
`;

test("runs what the files say now; a broken version is told and the one before stays", async () => {
  const cwd = folder({ "flow.ts": FLOW, "lib/version.ts": "export const version: string = 'one';" });
  const dev = startCli(["dev", "flow.ts", "--port", "0"], { cwd });
  await dev.line(/^http:/);
  await dev.line(/worker \S+ serves/);
  const run = (id: string) => cli(["run", "hello", "--id", id, "--wait"], { cwd });
  expect(await run("a")).toMatchObject({ code: 0, stdout: '"one"\n' });

  writeFileSync(join(cwd, "lib/version.ts"), "export const version: string = 'two';");
  await dev.line(/rondo dev: lib\/version\.ts changed/);
  await dev.line(/the new version is served/);
  expect(await run("b")).toMatchObject({ code: 0, stdout: '"two"\n' });

  writeFileSync(join(cwd, "flow.ts"), `${FLOW}\nconst broken = ;\n`);
  await dev.line(/cannot be loaded; the former worker stays/);
  await dev.line(/flow\.ts:8:16: Unexpected token/);
  await dev.line(/> 8 \| const broken = ;/);
  expect(await run("c")).toMatchObject({ code: 0, stdout: '"two"\n' });

  const before = dev.lines(/the new version is served/);
  writeFileSync(join(cwd, "flow.ts"), FLOW.replace("process: () => version", "process: () => `${version}!`"));
  await dev.line(/the new version is served/, before + 1);
  expect(await run("d")).toMatchObject({ code: 0, stdout: '"two!"\n' });

  dev.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
});

test("executions that run keep the definition they were started with", async () => {
  const cwd = folder({ "flow.ts": HOLDS });
  const dev = startCli(["dev", "flow.ts", "--port", "0"], { cwd });
  await dev.line(/worker \S+ serves/);
  expect(await cli(["run", "holds", "--id", "h"], { cwd })).toMatchObject({ code: 0 });
  writeFileSync(
    join(cwd, "flow.ts"),
    HOLDS.replace('.waitFor("go")', '.waitFor("go")\n  .phase("extra", { process: () => 1 })'),
  );
  await dev.line(/the new version is served/);
  await cli(["signal", "h", "go"], { cwd });
  expect(await cli(["wait", "h"], { cwd })).toMatchObject({ code: 0, stdout: "1\n" });
  const phases = async (id: string): Promise<string[]> => {
    const { stdout } = await cli(["inspect", id, "--json"], { cwd });
    return (JSON.parse(stdout) as { phases: { name: string }[] }).phases.map(({ name }) => name);
  };
  expect(await phases("h")).toEqual(["go", "old", "returns"]);
  await cli(["run", "holds", "--id", "n"], { cwd });
  expect(await phases("n")).toEqual(["go", "extra", "old", "returns"]);
  dev.kill("SIGTERM");
  expect((await dev.ended).code).toBe(0);
});

test("files come from the configuration too; without any it is said what to do", async () => {
  const none = await cli(["dev", "--port", "0"], { cwd: folder() });
  expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("rondo dev flows.ts") as string });
  const cwd = folder({ "flow.ts": HOLDS, "rondo.config.json": '{ "files": ["flow.ts"] }' });
  const dev = startCli(["dev", "--port", "0", "--json"], { cwd });
  expect(JSON.parse(await dev.line(/^\{"url"/))).toMatchObject({ socket: join(cwd, ".rondo/rondo.sock") });
  await dev.line(/worker \S+ serves/);
  const { stdout } = await cli(["workers", "--json"], { cwd });
  expect(stdout).toContain('"holds.old"');
  dev.kill("SIGTERM");
  expect((await dev.ended).code).toBe(0);
});
