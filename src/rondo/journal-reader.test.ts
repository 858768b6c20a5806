import { expect, test } from "vitest";
import { encodeEntries } from "../kernel/journal/journal-entry.ts";
import type { Store } from "../store/store.ts";
import { resultsOf } from "./journal-reader.ts";

/** A store with this many rows of `each` steps, which counts the rows that are read. */
function storeWith(rows: number, each: number) {
  const entries = Array.from({ length: rows }, (_, row) =>
    encodeEntries(
      Array.from({ length: each }, (__, i) => ({
        seq: row * each + i + 1,
        at: row,
        event: {
          kind: "task.step" as const,
          phase: "a",
          visit: 1,
          handler: "a",
          task: i,
          attempt: 1,
          name: "s",
          result: `${row * each + i}`,
          error: null,
          reason: "done" as const,
        },
      })),
      "e",
    ),
  ).flat();
  const reads: number[] = [];
  const store = {
    readJournal: async ({
      from,
      to = Infinity,
      rowsMax = Infinity,
    }: {
      from: number;
      to?: number;
      rowsMax?: number;
    }) => {
      reads.push(from);
      return entries.filter(({ seq, count }) => seq + count > from && seq <= to).slice(0, rowsMax);
    },
  } as unknown as Store;
  return { store, reads, rows: entries.length };
}

test("checkpoints that are asked for together are read a row at a time, each row once", async () => {
  const { store, reads, rows } = storeWith(3, 500);
  const results = resultsOf(store);
  const seqs = Array.from({ length: 1_500 }, (_, i) => i + 1);
  const found = await Promise.all(seqs.map((seq) => results.checkpoint("e1", seq)));
  expect(found).toEqual(seqs.map((seq) => ({ result: `${seq - 1}` })));
  expect([rows, reads.length]).toEqual([3, 3]);
});

test("nothing is kept when nobody waits: an execution may begin anew under its id", async () => {
  const { store, reads } = storeWith(1, 2);
  const results = resultsOf(store);
  await results.checkpoint("e1", 1);
  await results.checkpoint("e1", 2);
  expect(reads).toEqual([1, 2]);
});

test("one that is not there is an error of whoever asks, and of nobody behind", async () => {
  const { store } = storeWith(1, 2);
  const results = resultsOf(store);
  const asked = await Promise.allSettled([results.checkpoint("e1", 9), results.checkpoint("e1", 2)]);
  expect(asked.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
});
