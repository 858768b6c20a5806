// The auditor and clean-ups: every task that is done or may have begun has exactly one compensation that ended.
import { expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { RandomRun } from "../../test/fixtures/kernel/random-run-fixture.ts";
import type { Recorded } from "../kernel/event.ts";
import { viewExecution } from "../kernel/view.ts";
import { Auditor } from "./auditor.ts";

function audit(run: KernelRun, events: readonly Recorded[] = run.events) {
  const auditor = new Auditor(run.execution.id);
  auditor.addDefinition(JSON.stringify(run.plan.definition));
  for (const recorded of events) auditor.apply(recorded);
  return auditor.end(events === run.events ? viewExecution(run.execution, run.now) : null);
}

/** Task 0 is done, task 1 was lost, task 2 was never given out; then it is cancelled and cleans up. */
function cleanedUp(): KernelRun {
  const run = new KernelRun({
    name: "w",
    phases: [phase("a", { tasks: [1, 2, 3], compensate: { use: "undo" } }), phase("z")],
    finally: "z",
  });
  run.done("a", 0);
  run.started("a", 1);
  run.lost("a", 1);
  run.control("cancel");
  run.drained();
  run.done("a", 0, 1);
  run.done("z", 0);
  return run;
}

test("a clean-up that went well is found to be so", () => {
  expect(audit(cleanedUp())).toMatchObject({ findings: [], lost: 0, tasks: 6 });
});

test.each([
  ["a compensation that is missing", (events: Recorded[]) => events.filter((one) => !isUndoing(one)), "lost"],
  ["a task that is compensated and never began", (events: Recorded[]) => events.map(otherTask), "counts"],
])("%s is found", (_what, change, code) => {
  const run = cleanedUp();
  const changed = change([...run.events]).map((one, i) => ({ ...one, seq: i + 1 }));
  expect(audit(run, changed).findings.map((finding) => finding.code)).toContain(code);
});

test("random runs with clean-ups are found to be right", () => {
  for (let seed = 0; seed < 150; seed++) {
    const random = new RandomRun(seed);
    for (let i = 0; i < 60; i++) random.next();
    random.finish();
    if (hasStrayEnumeration(random.run)) continue;
    const { findings } = audit(random.run);
    expect(findings, `seed ${seed}`).toEqual([]);
  }
});

/** Whether an attempt at an enumeration ended that the definition does not have; no engine gives out such an attempt. */
function hasStrayEnumeration(run: KernelRun): boolean {
  return [...run.of("handler.lost"), ...run.of("handler.retrying")].some(({ phase: name, handler }) => {
    const plan = run.plan.byName.get(name)?.handlers.find((one) => one.name === handler);
    return plan?.enumerateUse === null;
  });
}

function isUndoing({ event }: Recorded): boolean {
  return "phase" in event && event.phase === "a~compensate";
}

/** The compensation of task 1 is one of task 2. */
function otherTask(one: Recorded): Recorded {
  const { event } = one;
  if (event.kind !== "tasks.settled" || event.phase !== "a~compensate") return one;
  return { ...one, event: { ...event, tasks: event.tasks.map((task) => (task === 1 ? 2 : task)) } };
}
