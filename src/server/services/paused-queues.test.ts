import { expect, test } from "vitest";
import { systemClock } from "../../std/clock.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { PausedQueues } from "./paused-queues.ts";

test("a queue whose document is damaged stays paused, and can be resumed", async () => {
  const store = new MemoryStore();
  await store.open();
  const applied: string[][] = [];
  const options = {
    ...{ store, clock: systemClock(), isShared: false },
    apply: (paused: ReadonlyMap<string, string>) => void applied.push([...paused.keys()]),
    onFault: (fault: Error): never => {
      throw fault;
    },
  };
  const before = await PausedQueues.open(options);
  await before.pause({ use: "pay.charge", by: "ann", at: 1, reason: null });
  await store.putDocument("paused-queue", "pay.charge", "garbled");
  const after = await PausedQueues.open(options);
  expect(after.all).toMatchObject([{ use: "pay.charge", by: "an operator" }]);
  expect(await after.resume("pay.charge")).toBe(true);
  expect(applied).toEqual([["pay.charge"], ["pay.charge"], []]);
});
