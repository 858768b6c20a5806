// Compensations over HTTP: any worker that serves the name in `compensate` gets the outcome and the result of the task.
import { expect, test } from "vitest";
import type { Claimed } from "../../src/protocol/worker-wire.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { DONE, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

test("a worker gets the task, its outcome, its result and its idempotency key", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "undo"]);
  const more = { compensate: { use: "undo" }, heartbeat: 3_000, retry: { crashes: 1 }, tolerate: 1 };
  await fixture.start("e1", [
    tasksPhase("a", ["x", "y"], more),
    { name: "wait", handlers: { wait: { waitFor: "never" } } },
  ]);
  const { work } = await fixture.claim("one", 2);
  const [x, y] = [work[0], work[1]];
  if (x === undefined || y === undefined) throw new Error("both tasks are given out");
  expect(x).not.toHaveProperty("outcome");
  await fixture.tell(
    "one",
    [x, 1, STARTED],
    [x, 2, { kind: "receipt", status: "done", result: { receipt: 7 } }],
    [y, 1, STARTED],
  );
  // The worker of the other one is silent.
  await fixture.clock.advance(10_000);
  await fixture.control("e1", "cancel");
  expect((await fixture.status("e1")).status).toBe("cleaning");
  // The first answer only tells that the other attempt must stop.
  expect((await fixture.claim("one", 0)).work).toEqual([]);
  // The result is read from the journal first.
  const claim = fixture.open("one", 9, 1_000);
  await fixture.clock.settle();
  const { work: undo } = unwrap(await claim.answer) as Claimed;
  claim.arrive();
  const shown = undo.map((item) => ({
    ...{ do: item.do, use: item.use, phase: item.phase, task: item.task },
    ...{
      outcome: item.outcome,
      result: item.result,
      key: item.idempotencyKey === work[item.number]?.idempotencyKey,
    },
  }));
  const place = { do: "process", use: "undo", phase: "a~compensate", key: true };
  expect(shown).toEqual([
    { ...place, task: "x", outcome: "done", result: { receipt: 7 } },
    { ...place, task: "y", outcome: "unknown", result: undefined },
  ]);
  for (const item of undo) await fixture.tell("one", [item, 1, STARTED], [item, 2, DONE]);
  expect((await fixture.status("e1")).status).toBe("cancelled");
});
