// Leaving with Ctrl-C, and going on.
import { expect, test } from "vitest";
import { cli, folder, startCli } from "../fixtures/cli/cli-process-fixture.ts";

// Task 5 holds, and with it the process, until Ctrl-C comes (HOLD=once) or for ever (HOLD=always).
const HOLDS = `
import { workflow } from "rondo";
export const holds = workflow({ name: "holds" }).phase("one", {
  *enumerate() { for (let n = 0; n < 10; n++) yield n; },
  async process({ task, log }) {
    log("begins");
    const hold = process.env["HOLD"];
    if (task === 5 && hold === "once") await new Promise((resolve) => process.once("SIGINT", resolve));
    if (task === 5 && hold === "always") await new Promise(() => {});
    return task;
  },
  concurrency: 1,
}).returns(({ phases }) => phases.one.count);`;

const begun = (stderr: string): number[] =>
  Array.from(stderr.matchAll(/^one\/one#(\d+)(?: \(attempt \d+\))? begins$/gm), ([, n]) => Number(n));

test("Ctrl-C lets what runs end, starts nothing new, and says how to go on; going on does the rest once", async () => {
  const cwd = folder({ "holds.ts": HOLDS });
  const first = startCli(["run", "holds.ts", "--id", "h"], { cwd, env: { HOLD: "once" } });
  await first.line(/one\/one#5 begins/);
  first.kill("SIGINT");
  const left = await first.ended;
  expect({ code: left.code, stdout: left.stdout }).toEqual({ code: 130, stdout: "" });
  expect(left.stderr).toContain(
    "execution h has not ended; its finished tasks are stored\n  to continue the execution: rondo run holds.ts --id h\n",
  );
  expect(begun(left.stderr)).toEqual([0, 1, 2, 3, 4, 5]);

  const second = await cli(["run", "holds.ts", "--id", "h"], { cwd });
  expect(second).toMatchObject({ code: 0, stdout: "10\n" });
  expect(second.stderr).toContain("execution h goes on: 6 of 10 tasks of one are settled\n");
  expect(begun(second.stderr)).toEqual([6, 7, 8, 9]);
});

test("a second signal leaves at once, and nothing is lost by that", async () => {
  const cwd = folder({ "holds.ts": HOLDS });
  const first = startCli(["run", "holds.ts", "--id", "h"], { cwd, env: { HOLD: "always" } });
  await first.line(/one\/one#5 begins/);
  first.kill("SIGINT");
  await first.line(/press Ctrl-C again to stop at once/);
  first.kill("SIGTERM");
  expect(await first.ended).toMatchObject({ code: 143, stdout: "" });
  const second = await cli(["run", "holds.ts", "--id", "h"], { cwd });
  expect(second).toMatchObject({ code: 0, stdout: "10\n" });
  expect(begun(second.stderr)).toEqual([5, 6, 7, 8, 9]);
});

test("other open executions of the file's workflows go on too, and that is said", async () => {
  const cwd = folder({ "holds.ts": HOLDS });
  const first = startCli(["run", "holds.ts", "--id", "left"], { cwd, env: { HOLD: "once" } });
  await first.line(/one\/one#5 begins/);
  first.kill("SIGKILL");
  await first.ended;
  const second = await cli(["run", "holds.ts", "--id", "new"], { cwd });
  expect(second).toMatchObject({ code: 0, stdout: "10\n" });
  expect(second.stderr).toContain(
    "other open executions in the store also continue until this one ends: left\n",
  );
  const third = await cli(["run", "holds.ts", "--id", "left"], { cwd });
  expect(third).toMatchObject({ code: 0, stdout: "10\n" });
});
