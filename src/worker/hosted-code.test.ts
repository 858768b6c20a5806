// Which code a grant gets.
import { expect, test } from "vitest";
import { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";

test("the version that the grant names picks the code; one that is not hosted is handed back", async () => {
  const fixture = new WorkerFixture({ process: () => "unversioned" });
  for (const version of ["1.0.0", "2.0.0"])
    fixture.worker.host("w", { use: "w.a", version, process: () => version });
  const answers: unknown[] = [];
  for (const version of ["1.0.0", "2.0.0", null, "3.0.0"]) {
    await fixture.give([1], { version });
    const { status, payload } = fixture.outcomes.get(0) ?? {};
    answers.push(status === "done" ? payload : status);
  }
  expect(answers).toEqual(['"1.0.0"', '"2.0.0"', '"unversioned"', "cancelled"]);
});

test("without a version anything goes, the last that was hosted", async () => {
  const fixture = new WorkerFixture({});
  for (const version of ["2.0.0", "1.0.0"])
    fixture.worker.host("w", { use: "w.b", version, process: () => version });
  await fixture.give([1], { use: "w.b", version: null });
  expect(fixture.outcomes.get(0)?.payload).toBe('"1.0.0"');
});

test("a workflow's own code goes before another's of the same name and version", async () => {
  const fixture = new WorkerFixture({});
  for (const workflow of ["v", "w", "x"])
    fixture.worker.host(workflow, { use: "shared", version: "1.0.0", process: () => workflow });
  const answers: unknown[] = [];
  for (const workflow of ["v", "w", "other"]) {
    await fixture.give([1], { use: "shared", version: "1.0.0", workflow });
    answers.push(fixture.outcomes.get(0)?.payload);
  }
  expect(answers).toEqual(['"v"', '"w"', '"x"']);
});
