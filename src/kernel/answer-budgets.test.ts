// The budgets of `next` and `returns`: attempts and crashes as the definition says beside `use`.
import { expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const crashesOf = (retry: object) => {
  const run = new KernelRun({ name: "w", phases: [phase("a")], returns: { use: "w.returns", ...retry } });
  run.done("a", 0);
  let crashes = 0;
  for (; run.execution.open && crashes < 20; crashes++) run.lost("returns", 0);
  run.drained();
  return { crashes, status: run.status };
};

test("returns fails after four crashes, or after as many as its own budget has", () => {
  expect(crashesOf({})).toEqual({ crashes: 4, status: "failed" });
  expect(crashesOf({ retry: { crashes: 9 } })).toEqual({ crashes: 9, status: "failed" });
  expect(crashesOf({ retry: { crashes: 50 } })).toEqual({ crashes: 20, status: "running" });
});

test("a decision fails after as many attempts as its own budget has", () => {
  const next = { use: "w.next", among: ["b"], retry: { attempts: 5, min: 0, max: 0 } };
  const run = new KernelRun([phase("a", {}, { next }), phase("b")]);
  run.done("a", 0);
  for (let attempt = 1; attempt < 5; attempt++) {
    expect(run.fail("next", 0)).toBe("accepted");
    expect(run.execution.open).toBe(true);
  }
  run.fail("next", 0);
  run.drained();
  expect(run.status).toBe("failed");
});
