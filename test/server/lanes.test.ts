// Lanes of an execution in a window of time: what is in it is counted, tasks are shown alone where few are in it, and what
// cannot change any more is made once.
import { expect, test } from "vitest";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import type { Recorded } from "../../src/kernel/event.ts";
import type { Lane } from "../../src/server/schemas/execution.ts";
import { LaneIndex } from "../../src/server/views/lanes.ts";
import { TaskScan } from "../../src/server/views/task-scan.ts";

const HERE = { phase: "work", visit: 1, handler: "work" };
const START = 1_000_000;

/** 500 tasks; task i was done at START + 10 * i, after 5 ms; the last one failed. */
function scanned(): TaskScan {
  const scan = new TaskScan({ byName: new Map() } as unknown as Plan);
  const tasks = Array.from({ length: 500 }, (_, n) => n);
  const events: [at: number, event: unknown][] = [
    [0, { kind: "phase.started", phase: "work", visit: 1 }],
    [0, { kind: "handler.started", ...HERE }],
    [0, { kind: "tasks.enumerated", ...HERE, from: 0, count: 500, tasks: [], keys: null, identities: null }],
    ...tasks.map((n): [number, unknown] => [10 * n, settled(n)]),
  ];
  events.forEach(([at, event], i) =>
    scan.apply({ seq: i + 1, at: START + at, event } as unknown as Recorded),
  );
  return scan;
}

function settled(n: number): unknown {
  const status = n === 499 ? "failed" : "done";
  const columns = { tasks: [n], attempts: [1], statuses: [status], reasons: [null], workers: ["w"], ms: [5] };
  return { kind: "tasks.settled", ...HERE, ...columns, payloads: [] };
}

function laneIn(from: number, to: number): Lane {
  const lanes = new LaneIndex().lanes(scanned(), { from: START + from, to: START + to, pieces: 10 }, true);
  return lanes[0] as Lane;
}

test("of the whole time, all tasks are counted where they ended, and they are too many for bars", () => {
  const { done, failed, ran, bars, total } = laneIn(0, 5_000);
  expect([total, bars]).toEqual([500, null]);
  expect(done).toEqual([50, 50, 50, 50, 50, 50, 50, 50, 50, 49]);
  expect(failed).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
  // A task of 5 ms every 10 ms; the first one began before the window.
  expect(ran).toEqual([0.5, ...new Array<number>(8).fill(0.5), 0.49]);
});

test("of a piece of the time, only what was in it is counted, and few tasks have bars", () => {
  const { done, bars, total } = laneIn(1_000, 1_100);
  expect([total, done.reduce((sum, n) => sum + n, 0)]).toEqual([500, 11]);
  expect(bars?.map(({ task }) => task)).toEqual([100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110]);
  expect(bars?.[1]).toEqual({
    ...{ task: 101, kind: "attempt", attempt: 1, state: "done" },
    ...{ from: START + 1_005, to: START + 1_010 },
  });
});

test("before and after everything there is nothing", () => {
  for (const [from, to] of [
    [-9_000, -8_000],
    [8_000, 9_000],
  ] as const) {
    const { done, ran, bars } = laneIn(from, to);
    expect([done, ran]).toEqual([new Array(10).fill(0), new Array(10).fill(0)]);
    expect(bars).toEqual([]);
  }
});

test("what is over is made once for a window, and anew when something happened", () => {
  const [book, scan] = [new LaneIndex(), scanned()];
  const window = { from: START, to: START + 100, pieces: 10 };
  const first = book.lanes(scan, window, true);
  expect(book.lanes(scan, { ...window }, true)).toBe(first);
  expect(book.lanes(scan, { ...window, pieces: 20 }, true)).not.toBe(first);
  expect(book.lanes(scan, window, false)).not.toBe(first);
  scan.apply({ seq: scan.seq + 1, at: START + 6_000, event: settled(7) } as unknown as Recorded);
  expect(book.lanes(scan, window, true)).not.toBe(first);
});
