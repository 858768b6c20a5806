// `rondo worker --min --max`: processes that come and go with the work, and with those that die.
import { expect, test } from "vitest";
import { CliProcess } from "../fixtures/cli/cli-process-fixture.ts";
import { ProcessFixture } from "../fixtures/workers/worker-process-fixture.ts";

function fleet(bench: ProcessFixture, args: readonly string[]): CliProcess {
  const all = ["worker", "flow.mjs", "--url", bench.server.url, "--json", "--sample", "50ms", ...args];
  return new CliProcess("bin/rondo.js", all, { cwd: bench.folder });
}

const said = (kind: string, more = "") => new RegExp(`^\\{"kind":"${kind}".*${more}`);

test("a process is added while they are busy and ended when they are not; nothing is lost on the way", async () => {
  const bench = await ProcessFixture.open();
  const parent = fleet(bench, ["--min", "1", "--max", "2", "--capacity", "2"]);
  await parent.line(said("added", '"processes":1'));
  await parent.line(said("registered"));
  const id = await bench.start({ tasks: 8, hold: true });
  await parent.line(said("added", '"processes":2'));
  bench.go();
  expect(await bench.end(id)).toBe("done");
  await parent.line(said("leaving", '"processes":1'));
  expect(await bench.settled(id)).toEqual(Array(8).fill(1));
  expect(await bench.events(id, "tasks.lost")).toEqual([]);
  parent.kill("SIGTERM");
  expect((await parent.ended).code).toBe(0);
});

test("a process that dies is replaced", async () => {
  const bench = await ProcessFixture.open();
  const parent = fleet(bench, ["--min", "1", "--max", "1"]);
  const line = await parent.line(said("added", '"number":1'));
  await parent.line(said("registered"));
  process.kill((JSON.parse(line) as { pid: number }).pid, "SIGKILL");
  await parent.line(said("added", '"number":2'));
  const id = await bench.start({ tasks: 3 });
  expect(await bench.end(id)).toBe("done");
  parent.kill("SIGTERM");
  expect((await parent.ended).code).toBe(0);
});

test("files that cannot be loaded end the parent too, with the same exit code", async () => {
  const bench = await ProcessFixture.open();
  const args = ["worker", "nowhere.mjs", "--url", bench.server.url, "--min", "1", "--max", "3"];
  const parent = new CliProcess("bin/rondo.js", args, { cwd: bench.folder });
  expect((await parent.ended).code).toBe(3);
});
