// Tasks as bars over time: what a journal tells about attempts, waits, back-offs, steps, runs and children.
import { expect, test } from "vitest";
import type { Event, Place } from "../../kernel/event.ts";
import { TaskBars } from "./task-bars.ts";

const HERE = { phase: "work", visit: 1, handler: "work" };
type Told = readonly [at: number, event: Record<string, unknown>];

/** The bars of these events, as lines such as `0 attempt 1 failed 10-20`. */
function drawn(...events: readonly Told[]): string[] | null {
  const bars = new TaskBars();
  for (const [at, event] of events) bars.apply({ ...HERE, ...event } as unknown as Extract<Event, Place>, at);
  return linesOf(bars);
}

function linesOf({ bars }: TaskBars): string[] | null {
  if (bars === null) return null;
  return bars.map(({ task, kind, name, attempt, state, from, to }) =>
    [task, kind, ...(name === undefined ? [] : [name]), attempt, state, `${from}-${to ?? ""}`].join(" "),
  );
}

const started = (attempt: number, task = 0) => ({
  kind: "tasks.started",
  tasks: [task],
  attempts: [attempt],
});
const settled = (attempt: number, status: string, ms: number, task = 0) => ({
  ...{ kind: "tasks.settled", tasks: [task], attempts: [attempt], statuses: [status], ms: [ms] },
});
const retrying = (attempt: number, until: number, reason = "failed") => ({
  ...{ kind: "tasks.retrying", tasks: [0], attempts: [attempt], reasons: [reason], untils: [until] },
});
const step = (name: string, reason = "done", error: string | null = null) => ({
  ...{ kind: "task.step", task: 0, attempt: 1, name, reason, error },
});

test("each attempt has a bar, with the back-off before the next", () => {
  const events: Told[] = [
    [10, started(1)],
    [20, retrying(1, 50)],
    [55, started(2)],
    [60, { kind: "tasks.lost", tasks: [0], attempts: [2] }],
    [70, started(3)],
    [90, settled(3, "done", 20)],
  ];
  expect(drawn(...events)).toEqual([
    "0 attempt 1 failed 10-20",
    "0 retry 1 done 20-55",
    "0 attempt 2 lost 55-60",
    "0 attempt 3 done 70-90",
  ]);
});

test("an attempt whose start is not journaled is as long as it took; a repeated start changes nothing", () => {
  expect(drawn([100, settled(1, "done", 30)])).toEqual(["0 attempt 1 done 70-100"]);
  expect(drawn([10, started(1)], [20, started(1)], [30, settled(1, "done", 5)])).toEqual([
    "0 attempt 1 done 10-30",
  ]);
});

test("a task that is cancelled during its back-off has no further attempt", () => {
  expect(drawn([10, started(1)], [20, retrying(1, 90)], [40, settled(1, "cancelled", 0)])).toEqual([
    "0 attempt 1 failed 10-20",
    "0 retry 1 cancelled 20-40",
  ]);
});

test("sleeps and waits end with their answers, and all waits of a task with the first", () => {
  const waiting = (signal: string | null, due: number) => ({
    ...{ kind: "tasks.waiting", tasks: [0], attempts: [1], names: ["nap"], dues: [due], signals: [signal] },
  });
  expect(
    drawn([0, started(1)], [5, waiting(null, 50)], [50, step("nap", "timer")], [51, started(1)]),
  ).toEqual(["0 attempt 1 suspended 0-5", "0 sleep nap 1 done 5-50", "0 attempt 1 running 51-"]);
  const several = [
    { name: "paid", signals: ["paid"] },
    { name: "late", due: 80 },
  ];
  expect(
    drawn(
      [0, started(1)],
      [5, { kind: "task.waiting", task: 0, attempt: 1, waits: several }],
      [30, step("paid", "signalled")],
    ),
  ).toEqual(["0 attempt 1 suspended 0-5", "0 signal paid 1 done 5-30", "0 sleep late 1 done 5-30"]);
  expect(drawn([0, started(1)], [5, waiting("paid", 0)], [30, step("nap", "timer", "timed out")])).toEqual([
    "0 attempt 1 suspended 0-5",
    "0 signal nap 1 failed 5-30",
  ]);
});

test("a step begins where the one before ended, and after the back-off of its failed try", () => {
  expect(
    drawn(
      [0, started(1)],
      [10, step("open")],
      [15, { kind: "task.step.retrying", task: 0, attempt: 1, name: "send", until: 20 }],
      [30, step("send")],
      [31, settled(1, "done", 31)],
    ),
  ).toEqual([
    "0 attempt 1 done 0-31",
    "0 step open 1 done 0-10",
    "0 step send 1 failed 10-15",
    "0 step send 1 done 20-30",
  ]);
});

test("a step before the recorded start of its attempt begins when its task could continue", () => {
  const sleeping = { kind: "tasks.waiting", tasks: [0], attempts: [1], names: ["nap"], signals: [null] };
  const charge = { kind: "task.step", task: 0, attempt: 2, name: "charge", reason: "done", error: null };
  expect(drawn([0, started(1)], [5, { ...sleeping, dues: [50] }], [60, charge], [60, started(2)])).toEqual([
    "0 attempt 1 suspended 0-5",
    "0 sleep nap 1 done 5-50",
    "0 attempt 2 running 50-",
    "0 step charge 2 done 50-60",
  ]);
  const signalled = { kind: "tasks.waiting", tasks: [0], attempts: [1], names: ["paid"], signals: ["paid"] };
  expect(
    drawn(
      [0, started(1)],
      [5, { ...signalled, dues: [0] }],
      [30, step("paid", "signalled")],
      [40, charge],
      [40, started(2)],
    ),
  ).toEqual([
    "0 attempt 1 suspended 0-5",
    "0 signal paid 1 done 5-30",
    "0 attempt 2 running 30-",
    "0 step charge 2 done 30-40",
  ]);
  expect(
    drawn(
      [0, started(1)],
      [5, retrying(1, 20)],
      [30, charge],
      [30, started(2)],
      [35, settled(2, "done", 15)],
    ),
  ).toEqual([
    "0 attempt 1 failed 0-5",
    "0 retry 1 done 5-20",
    "0 attempt 2 done 20-35",
    "0 step charge 2 done 20-30",
  ]);
});

test("runs of scripts and children have bars; what is open when the handler ends is cancelled", () => {
  const run = { task: 0, attempt: 1, name: "sum" };
  const child = { task: 1, attempt: 1, child: "a~1" };
  expect(
    drawn(
      [0, started(1)],
      [1, { kind: "task.run.started", ...run }],
      [4, { kind: "task.run", ...run, stats: { durationMs: 3 } }],
      [5, { kind: "task.run", ...run, name: "old", stats: { durationMs: 1 } }],
      [6, { kind: "child.started", ...child }],
      [9, { kind: "child.finished", ...child, status: "failed" }],
      [9, settled(1, "failed", 0, 1)],
      [12, { kind: "handler.finished" }],
    ),
  ).toEqual([
    "0 attempt 1 cancelled 0-12",
    "0 run sum 1 done 1-4",
    "0 run old 1 done 4-5",
    "1 child a~1 1 failed 6-9",
  ]);
});

test("a handler that waits is a bar of its own", () => {
  const bars = new TaskBars();
  bars.wait("signal", "approved", 10);
  expect(linesOf(bars)).toEqual(["0 signal approved 0 waiting 10-"]);
  bars.apply({ ...HERE, ...settled(0, "done", 0) } as never, 40);
  expect(linesOf(bars)).toEqual(["0 signal approved 0 done 10-40"]);
});

test("a handler with too many bars has none", () => {
  const tasks = Array.from({ length: 5_001 }, (_, n) => n);
  const all = {
    tasks,
    attempts: tasks.map(() => 1),
    statuses: tasks.map(() => "done"),
    ms: tasks.map(() => 1),
  };
  expect(drawn([10, { kind: "tasks.settled", ...all }], [20, settled(1, "done", 1)])).toBe(null);
});
