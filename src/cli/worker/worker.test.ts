import { handler, workflow } from "rondo";
import { expect, test } from "vitest";
import { smallCapacityLines } from "./worker.ts";

test("a batch that is larger than the capacity is told, one that fits is not", () => {
  const flow = workflow({ name: "rows" })
    .phase("insert", { tasks: [1], batch: 500, processBatch: ({ tasks }) => [...tasks] })
    .phase("both", {
      small: handler({ tasks: [1], batch: 100, processBatch: ({ tasks }) => [...tasks] }),
      large: handler({ tasks: [1], batch: 101, processBatch: ({ tasks }) => [...tasks] }),
    });
  expect(smallCapacityLines([flow], 100)).toEqual([
    "rows.insert wants batches of 500 tasks, but this worker takes 100 tasks at a time: its batches have at most 100 (to allow more: --capacity 500)",
    "rows.both.large wants batches of 101 tasks, but this worker takes 100 tasks at a time: its batches have at most 100 (to allow more: --capacity 101)",
  ]);
  expect(smallCapacityLines([flow], 500)).toEqual([]);
});
