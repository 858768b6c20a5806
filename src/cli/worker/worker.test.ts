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
    "rows.insert asks for batches of 500, and this worker takes 100 tasks at a time: its batches have at most 100 (--capacity 500 makes room)",
    "rows.both.large asks for batches of 101, and this worker takes 100 tasks at a time: its batches have at most 100 (--capacity 101 makes room)",
  ]);
  expect(smallCapacityLines([flow], 500)).toEqual([]);
});
