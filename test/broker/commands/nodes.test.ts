// Command workflows in a cluster: every node takes them in, lists them and reads them, whoever has them.
import { expect, test } from "vitest";
import {
  documentOf,
  pageOf,
  pathOf,
  reaches,
  read,
  step,
  TopicWorker,
} from "../../fixtures/broker/command-fixture.ts";
import { twoNodes } from "../../fixtures/server/two-nodes-fixture.ts";

const P = "project-x";

test("what is handed in at one node is read, listed and done at another", async () => {
  const { world, a, b } = await twoNodes();
  const names = Array.from({ length: 8 }, (_, i) => `w-${i}`);
  const owned = { a: 0, b: 0 };
  for (const id of names) {
    const steps = [step("a", "A_CMD"), step("b", "A_CMD", { cmd_data: "${steps[0].cmd_result.n}" })];
    const sent = await world.passing(a.post(pathOf(P), { steps, workflow_id: id }));
    expect(sent.status).toBe(201);
    expect(await world.passing(read(b, P, id))).toEqual(documentOf(sent));
    owned[a.server.engine.isOwn(id) ? "a" : "b"]++;
  }
  // Both kinds are there: those of the node that was asked, and those of the other.
  expect(Math.min(owned.a, owned.b)).toBeGreaterThan(0);
  for (const api of [a, b]) {
    const page = await world.passing(api.get(pathOf(P)));
    expect(pageOf(page, P)).toEqual({ ids: [...names].reverse(), next: null });
  }
  const again = { steps: [step("a", "A_CMD")], workflow_id: "w-0" };
  expect((await world.passing(b.post(pathOf(P), again))).status).toBe(409);

  // Each node gives out what is its own.
  for (const [api, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const worker = await TopicWorker.register(api, "A_CMD");
    const own = names.filter((id) => api.server.engine.isOwn(id));
    for (let done = 0; done < own.length * 2; done++) {
      const work = await worker.claimOne();
      const { workflow_id, step: n } = work.task.cmd_metadata.rondo;
      expect(own).toContain(workflow_id);
      expect(work.task.cmd_data).toEqual(n === 0 ? {} : workflow_id);
      expect(await worker.done(work, { n: workflow_id })).toBe("accepted");
    }
    for (const id of own) {
      const steps = await world.passing(reaches(other, { project: P, id }, ["COMPLETE", "COMPLETE"]));
      expect(steps.map(({ cmd }) => cmd.cmd_result)).toEqual([{ n: id }, { n: id }]);
    }
  }
});
