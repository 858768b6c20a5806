// What `rondo worker --broker` refuses, and how it says so.
import { expect, test } from "vitest";
import { CliProcess, folder } from "../../fixtures/cli/cli-process-fixture.ts";

const FLOW = `import { workflow } from "rondo";
export const w = workflow({ name: "w" }).phase("a", { process: () => 1 });`;

test.each([
  [["worker", "flow.mjs", "--broker", "http://localhost"], "is not the URL of a broker"],
  [["worker", "flow.mjs", "--broker", "localhost:5672"], "is not the URL of a broker"],
  [["worker", "flow.mjs", "--prefix", "p"], "--prefix is for --broker"],
  [["worker", "--broker", "amqp://localhost"], "needs files with workflows or topics"],
])("%j is a usage error", async (args, text) => {
  const { code, stderr } = await new CliProcess("bin/rondo.js", args, { cwd: folder({ "flow.mjs": FLOW }) })
    .ended;
  expect(code).toBe(2);
  expect(stderr).toContain(text);
});

test("without a broker it waits for one, and SIGTERM ends it with exit code 0", async () => {
  const cwd = folder({ "flow.mjs": FLOW });
  // A port that nobody listens at.
  const worker = new CliProcess("bin/rondo.js", ["worker", "flow.mjs", "--broker", "amqp://127.0.0.1:1"], {
    cwd,
  });
  await worker.line(/the broker does not answer/);
  worker.kill("SIGTERM");
  expect(await worker.ended).toMatchObject({ code: 0 });
});
