// A place where no directory can be made is refused, with what is wrong, by every command that would make one.
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

/** The system lets nobody make a directory there, and says that its parent is missing, which it is not. */
const NOWHERE = "/proc/rondo";
const FLOW = "rondo: 1\nname: hello\nphases: [{ name: rest, handlers: { rest: { sleep: 1ms } } }]\n";

test.runIf(process.platform === "linux").each([
  ["start", ["--port", "0", "--store", `file:${NOWHERE}`]],
  ["run", ["flow.yaml", "--store", `file:${NOWHERE}`]],
  ["restore", ["flow.yaml", "--store", `file:${NOWHERE}`]],
  ["init", [NOWHERE]],
])(
  "%s names a directory that cannot be made, and ends",
  async (verb, args) => {
    const ended = await cli([verb, ...args], { cwd: folder({ "flow.yaml": FLOW }) });
    expect(ended).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining(`'${NOWHERE}`) });
    expect(ended.stderr).not.toContain("bug");
  },
  60_000,
);

test("a file where the directory should be is named by start and by doctor", async () => {
  const cwd = folder({ taken: "" });
  const store = `file:${join("taken", "store")}`;
  const started = await cli(["start", "--port", "0", "--store", store], { cwd });
  expect(started).toMatchObject({ code: 6, stderr: expect.stringContaining(join(cwd, "taken")) });
  expect(started.stderr).not.toContain("bug");
  const looked = await cli(["doctor", "--store", store], { cwd });
  expect(looked).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`${join(cwd, "taken")} is a file`),
  });
});
