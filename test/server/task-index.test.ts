// The index of tasks, a second fold of the journal, agrees with the kernel's own at every point of random runs; and it
// holds a million tasks in little memory.
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { Recorded } from "../../src/kernel/event.ts";
import { encodeEntries } from "../../src/kernel/journal/journal-entry.ts";
import { type HandlerView, viewExecution } from "../../src/kernel/view.ts";
import { NONE_RUNNING, runningOf } from "../../src/server/views/running-tasks.ts";
import { mapTasks, zipMap } from "../../src/server/views/state-map.ts";
import { TASK_STATES, TaskIndex, type TaskState } from "../../src/server/views/task-index.ts";
import { TaskIndexes } from "../../src/server/views/task-indexes.ts";
import { readTaskRows } from "../../src/server/views/task-rows.ts";
import { type IndexedHandler, TaskScan } from "../../src/server/views/task-scan.ts";
import type { JournalRange, Store } from "../../src/store/store.ts";
import { KernelRun } from "../fixtures/kernel/kernel-run-fixture.ts";
import { RandomRun } from "../fixtures/kernel/random-run-fixture.ts";

/** Counts by state, as the views of handlers have them. */
function countsOf(index: TaskIndex): Record<string, number> {
  const counts = Object.fromEntries(TASK_STATES.map((state) => [state, 0]));
  for (const byte of index.states()) {
    const state = TASK_STATES[byte & 15] as string;
    counts[state] = (counts[state] ?? 0) + 1;
  }
  counts["cancelled"] = (counts["cancelled"] ?? 0) - index.exempt;
  return counts;
}

/** What a scan and a view must agree on; what is open is told apart by leases and time, which the journal does not know. */
function agreed(counts: Record<string, number> | HandlerView): Record<string, unknown> {
  const { pending, running, retrying, waiting, done, failed, cancelled } = counts as HandlerView;
  return { open: pending + running + retrying + waiting, done, failed, cancelled };
}

describe.each(Array.from({ length: 6 }, (_, i) => i))("seed %i", (seed) => {
  test("counts of all handlers of all visits are those of the kernel, after every message", () => {
    for (let i = 0; i < 20; i++) {
      const random = new RandomRun(seed * 1_000 + i);
      const scan = new TaskScan(random.run.plan);
      let taken = 0;
      for (let n = 0; n < 80; n++) {
        random.next();
        const { events, execution } = random.run;
        for (; taken < events.length; taken++) scan.apply(events[taken] as Recorded);
        const view = viewExecution(execution, execution.now);
        for (const { phase, visit, handler, index } of scan.handlers) {
          const seen = view.phases
            .find((one) => one.name === phase && one.visit === visit)
            ?.handlers.find(({ name }) => name === handler);
          if (seen === undefined) continue;
          const at = `seed ${seed} run ${i} event ${taken} ${phase}.${visit}.${handler}`;
          expect({ total: index.total - index.exempt, ...agreed(countsOf(index)) }, at).toEqual({
            total: seen.total,
            ...agreed(seen),
          });
        }
      }
    }
  });
});

/** A store that has one journal. */
function storeOf(events: readonly Recorded[]): { store: Store; reads: JournalRange[] } {
  const reads: JournalRange[] = [];
  const entries = encodeEntries(events, "e");
  const readJournal = async (range: JournalRange) => {
    reads.push(range);
    const { from, to = Number.POSITIVE_INFINITY, rowsMax = Number.POSITIVE_INFINITY } = range;
    return entries.filter(({ seq, count }) => seq + count > from && seq <= to).slice(0, rowsMax);
  };
  return { store: { readJournal } as unknown as Store, reads };
}

/** A run of one handler with five tasks: done, failed, retrying, running, pending. */
function fiveTasks(): KernelRun {
  const tasks = Array.from({ length: 5 }, (_, n) => ({ n }));
  const run = new KernelRun([{ name: "work", handlers: { work: { use: "x", tasks, tolerate: 5 } } }]);
  run.receipt("work", 0, { payload: '{"a":1}', worker: "w-ü", ms: 3 });
  run.receipt("work", 1, {
    status: "failed",
    payload: '{"message":"boom"}',
    fatal: true,
    worker: "w2",
    ms: 20_000_000,
  });
  run.receipt("work", 2, { status: "failed", payload: '{"message":"again"}', worker: "w2" });
  run.send({
    kind: "started",
    ...run.execution.currentVisit().place("work"),
    round: 1,
    attempts: [{ task: 3, attempt: 1, worker: "w3" }],
  });
  return run;
}

describe("rows and maps", () => {
  test("say what became of each task", async () => {
    const run = fiveTasks();
    const { store } = storeOf(run.events);
    const scan = await new TaskIndexes(store).scan("e1", run.plan, { seq: run.execution.seq, isPast: false });
    const [handler] = [...scan.handlers];
    const index = handler?.index as TaskIndex;
    const options = {
      execution: "e1",
      from: 0,
      limit: 10,
      status: undefined,
      isFull: true,
      running: NONE_RUNNING,
    };
    const { data, next } = await readTaskRows(store, index, options);
    expect(next).toBeNull();
    expect(data).toEqual([
      {
        n: 0,
        status: "done",
        attempts: 1,
        reason: null,
        worker: "w-ü",
        ms: 3,
        result: { a: 1 },
        task: { n: 0 },
      },
      {
        n: 1,
        status: "failed",
        attempts: 1,
        reason: expect.any(String),
        worker: "w2",
        ms: 20_000_000,
        error: { message: "boom" },
        task: { n: 1 },
      },
      {
        n: 2,
        status: "retrying",
        attempts: 1,
        reason: "failed",
        worker: null,
        ms: null,
        error: { message: "again" },
        task: { n: 2 },
      },
      { n: 3, status: "running", attempts: 1, reason: null, worker: "w3", ms: null, task: { n: 3 } },
      { n: 4, status: "pending", attempts: 0, reason: null, worker: null, ms: null, task: { n: 4 } },
    ]);
    const some = await readTaskRows(store, index, { ...options, from: 1, limit: 2 });
    expect([some.data.map(({ n }) => n), some.next]).toEqual([[1, 2], 3]);
    const failed = await readTaskRows(store, index, { ...options, status: "failed", limit: 1 });
    expect([failed.data.map(({ n }) => n), failed.next]).toEqual([[1], null]);

    expect([...mapTasks(index, "state").bytes]).toEqual([4 | 16, 5 | 16, 2 | 16, 1 | 16, 0]);
    const ms = mapTasks(index, "ms");
    const bounds = (JSON.parse(ms.legend) as { upToMs: unknown[] }).upToMs;
    expect([...ms.bytes].map((byte) => bounds[byte])).toEqual([5, "more", null, null, null]);
    const worker = mapTasks(index, "worker");
    expect(worker.legend).toMatch(/^[\x20-\x7e]+$/);
    const names = (JSON.parse(worker.legend) as { workers: unknown[] }).workers;
    expect([...worker.bytes].map((byte) => names[byte])).toEqual(["w-ü", "w2", null, "w3", null]);
  });

  test("show attempts that have begun and are not journaled yet", async () => {
    const run = fiveTasks();
    const { store } = storeOf(run.events);
    const scan = await new TaskIndexes(store).scan("e1", run.plan, { seq: run.execution.seq, isPast: false });
    const [handler] = [...scan.handlers];
    const { index, ...place } = handler as IndexedHandler;
    const open = { ...place, attempt: "", execution: "e1", project: "", startedAt: 1, leaseUntil: null };
    const running = runningOf(
      [
        // The journal has the outcome of this task already.
        { ...open, task: 0, n: 1, worker: "w0", status: "running" },
        { ...open, task: 2, n: 2, worker: "w1", status: "running" },
        { ...open, task: 3, n: 1, worker: "w3", status: "running" },
        { ...open, task: 4, n: 1, worker: "w2", status: "claimed" },
        { ...open, visit: 2, task: 4, n: 1, worker: "w2", status: "running" },
      ],
      place,
    );
    const rowsOf = async (status: TaskState | undefined) => {
      const options = { execution: "e1", from: 0, limit: 10, status, isFull: false, running };
      const { data } = await readTaskRows(store, index, options);
      return data.map((row) => `${row.n} ${row.status} ${row.attempts} ${row.worker}`);
    };
    const shown = ["2 running 2 w1", "3 running 1 w3"];
    expect(await rowsOf(undefined)).toEqual(["0 done 1 w-ü", "1 failed 1 w2", ...shown, "4 pending 0 null"]);
    expect(await rowsOf("running")).toEqual(shown);
    expect(await rowsOf("retrying")).toEqual([]);
    expect(await rowsOf("pending")).toEqual(["4 pending 0 null"]);
    const { bytes } = mapTasks(index, "state", { from: 0, to: 1, running });
    expect([...bytes]).toEqual([4 | 16, 5 | 16, 1 | 32, 1 | 16, 0]);
  });

  test("are compressed once for each kind, until there are further events", async () => {
    const index = new TaskIndex("pending", 3);
    index.note(0, { state: "done", attempt: 1, worker: "w", ms: 3 });
    const first = await zipMap(index, "state", 7);
    expect([...gunzipSync(first.bytes)]).toEqual([4 | 16, 0, 0]);
    expect(await zipMap(index, "state", 7)).toBe(first);
    expect(await zipMap(index, "ms", 7)).not.toBe(first);
    expect(await zipMap(index, "state", 7)).toBe(first);
    index.note(1, { state: "failed", attempt: 1, worker: "w", ms: 3 });
    const next = await zipMap(index, "state", 8);
    expect([...gunzipSync(next.bytes)]).toEqual([4 | 16, 5 | 16, 0]);
    expect(next.legend).toBe(mapTasks(index, "state").legend);
  });

  test("of workers beyond those that have a byte share one", () => {
    const index = new TaskIndex("pending", 60);
    for (let n = 0; n < 60; n++) index.note(n, { state: "running", attempt: 1, worker: `w${n}` });
    const { bytes, legend } = mapTasks(index, "worker");
    const names = (JSON.parse(legend) as { workers: unknown[] }).workers;
    expect([names[bytes[0] as number], names[bytes[39] as number]]).toEqual(["w0", "w39"]);
    expect([names[bytes[40] as number], names[bytes[59] as number]]).toEqual(["(others)", "(others)"]);
  });
});

describe("the book", () => {
  test("reads a journal once, then only what is new", async () => {
    const run = fiveTasks();
    const { store, reads } = storeOf(run.events);
    const book = new TaskIndexes(store);
    const all = run.execution.seq;
    const [a, b] = await Promise.all([
      book.scan("e1", run.plan, { seq: all - 1, isPast: false }),
      book.scan("e1", run.plan, { seq: all, isPast: false }),
    ]);
    expect(a).toBe(b);
    expect(reads.map(({ from, to }) => [from, to])).toEqual([
      [1, all - 1],
      [all, all],
    ]);
    await book.scan("e1", run.plan, { seq: all, isPast: false });
    expect(reads).toHaveLength(2);
  });

  test("shows the past as it was, forwards without reading again, backwards from the beginning", async () => {
    const run = fiveTasks();
    const { store, reads } = storeOf(run.events);
    const book = new TaskIndexes(store);
    const settled = run.events.find(({ event }) => event.kind === "tasks.settled")?.seq as number;
    const at = async (seq: number): Promise<number[]> => {
      const scan = await book.scan("e1", run.plan, { seq, isPast: true });
      return [...([...scan.handlers][0]?.index.states() ?? [])];
    };
    expect(await at(settled - 1)).toEqual([0, 0, 0, 0, 0]);
    expect(await at(settled)).toEqual([20, 0, 0, 0, 0]);
    expect(reads.map(({ from }) => from)).toEqual([1, settled]);
    expect(await at(settled - 1)).toEqual([0, 0, 0, 0, 0]);
    expect(reads.map(({ from }) => from)).toEqual([1, settled, 1]);
  });

  test("keeps a few executions, the last used of them", async () => {
    const run = fiveTasks();
    const { store, reads } = storeOf(run.events);
    const book = new TaskIndexes(store);
    const look = (id: number) => book.scan(`e${id}`, run.plan, { seq: 3, isPast: false });
    for (let id = 0; id < 40; id++) await look(id);
    expect(reads).toHaveLength(40);
    await look(39);
    expect(reads).toHaveLength(40);
    await look(0);
    expect(reads).toHaveLength(41);
  });
});

test("a million tasks take 16 bytes each", () => {
  const index = new TaskIndex("pending", 0);
  for (let from = 0; from < 1_000_000; from += 1_000) index.addPage(from, 1_000, from + 1);
  for (let n = 0; n < 1_000_000; n++)
    index.note(n, {
      state: "done",
      attempt: 1,
      worker: "w",
      reason: null,
      ms: n,
      seq: n + 2,
      place: n % 1_000,
    });
  expect(index.bytes).toBeLessThan(32_000_000);
  expect(index.total).toBe(1_000_000);
  expect(index.get(999_999)).toEqual({
    state: "done",
    attempts: 1,
    worker: "w",
    reason: null,
    ms: 999_999,
    seq: 1_000_001,
    place: 999,
  });
  expect(index.pageOf(999_999)).toEqual({ seq: 999_001, from: 999_000 });
  expect(index.find(0, "failed")).toBe(-1);
});
