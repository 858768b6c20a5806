// `rondo worker --min --max`: processes that come and go with the work, and with those that die.
import { expect, test } from "vitest";
import { CliProcess } from "../fixtures/cli/cli-process-fixture.ts";
import { ProcessFixture } from "../fixtures/workers/worker-process-fixture.ts";

function fleet(fixture: ProcessFixture, args: readonly string[]): CliProcess {
  const all = ["worker", "flow.mjs", "--url", fixture.server.url, "--json", "--sample", "50ms", ...args];
  return new CliProcess("bin/rondo.js", all, { cwd: fixture.folder });
}

const said = (kind: string, more = "") => new RegExp(`^\\{"kind":"${kind}".*${more}`);

test("a process is added while they are busy and ended when they are not; nothing is lost on the way", async () => {
  const fixture = await ProcessFixture.open();
  const parent = fleet(fixture, ["--min", "1", "--max", "2", "--capacity", "2"]);
  await parent.line(said("added", '"processes":1'));
  await parent.line(said("registered"));
  const id = await fixture.start({ tasks: 8, hold: true });
  await parent.line(said("added", '"processes":2'));
  fixture.go();
  expect(await fixture.end(id)).toBe("done");
  await parent.line(said("leaving", '"processes":1'));
  expect(await fixture.settled(id)).toEqual(Array(8).fill(1));
  expect(await fixture.events(id, "tasks.lost")).toEqual([]);
  parent.kill("SIGTERM");
  expect((await parent.ended).code).toBe(0);
});

test("a process that dies is replaced", async () => {
  const fixture = await ProcessFixture.open();
  const parent = fleet(fixture, ["--min", "1", "--max", "1"]);
  const line = await parent.line(said("added", '"number":1'));
  await parent.line(said("registered"));
  process.kill((JSON.parse(line) as { pid: number }).pid, "SIGKILL");
  await parent.line(said("added", '"number":2'));
  const id = await fixture.start({ tasks: 3 });
  expect(await fixture.end(id)).toBe("done");
  parent.kill("SIGTERM");
  expect((await parent.ended).code).toBe(0);
});

test("files that cannot be loaded end the parent too, with the same exit code", async () => {
  const fixture = await ProcessFixture.open();
  const args = ["worker", "nowhere.mjs", "--url", fixture.server.url, "--min", "1", "--max", "3"];
  const parent = new CliProcess("bin/rondo.js", args, { cwd: fixture.folder });
  expect((await parent.ended).code).toBe(3);
});
