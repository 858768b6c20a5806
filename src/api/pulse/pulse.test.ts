import { expect, test } from "vitest";
import type { Event, Recorded } from "../../kernel/event.ts";
import { encodeEntries } from "../../kernel/journal-entry.ts";
import type { Commit, ExecutionWrite } from "../../store/store.ts";
import { mergePulses, Pulse } from "./pulse.ts";

const PLACE = { phase: "p", visit: 1, handler: "h" } as const;
const OK = { kind: "ok", exists: [], fenced: [] } as const;

function commitOf(events: readonly Event[], at: number, create = false): Commit {
  const recorded: Recorded[] = events.map((event, i) => ({ seq: i + 1, at, event }));
  const write = { execution: "a", create, entries: encodeEntries(recorded) } as unknown as ExecutionWrite;
  return { fence: { generation: "g", epochs: {} }, writes: [write] };
}

function settled(tasks: readonly number[], ms: number, status: "done" | "failed" = "done"): Event {
  return {
    kind: "tasks.settled",
    ...PLACE,
    tasks,
    attempts: tasks.map(() => 1),
    statuses: tasks.map(() => status),
    reasons: tasks.map(() => null),
    workers: tasks.map(() => "w"),
    ms: tasks.map(() => ms),
    payloads: tasks.map(() => "1"),
  };
}

test("what is committed is counted in its second, with waits from the page to the start", () => {
  const pulse = new Pulse();
  pulse.take(commitOf([{ kind: "handler.started", ...PLACE }], 10_100, true), OK, 10_100);
  pulse.take(commitOf([settled([0, 1], 300)], 11_500), OK, 11_500);
  pulse.take(commitOf([settled([2], 300, "failed")], 12_000), OK, 12_000);
  const shown = pulse.show(4, 13_200);
  expect(shown.until).toBe(13);
  expect(shown).toMatchObject({
    started: [0, 1, 0, 0],
    tasksDone: [0, 0, 2, 0],
    tasksFailed: [0, 0, 0, 1],
    waitMs: [0, 0, 2_200, 1_600],
    waits: [0, 0, 2, 1],
    runMs: [0, 0, 600, 300],
  });
});

test("a commit that was refused, and an execution that was there already, do not count", () => {
  const pulse = new Pulse();
  pulse.take(commitOf([settled([0], 1)], 5_000, true), { kind: "fenced", why: "", partitions: [] }, 5_000);
  pulse.take(commitOf([settled([0], 1)], 5_000, true), { ...OK, exists: ["a"] }, 5_000);
  expect(pulse.show(2, 6_000)).toMatchObject({ started: [0, 0], tasksDone: [0, 0] });
});

test("seconds without anything are empty, also after a long rest", () => {
  const pulse = new Pulse();
  pulse.take(commitOf([settled([0], 1)], 5_000), OK, 5_000);
  expect(pulse.show(2, 5_000 + 900_000 + 1_000).tasksDone).toEqual([0, 0]);
});

test("the seconds of several nodes are added by their number, though one clock is ahead", () => {
  const [a, b] = [new Pulse(), new Pulse()];
  a.take(commitOf([settled([0], 1)], 5_000), OK, 5_000);
  b.take(commitOf([settled([0, 1], 1)], 5_000), OK, 5_000);
  expect(mergePulses([a.show(3, 6_000), b.show(3, 7_000)])?.tasksDone).toEqual([0, 0, 3]);
  expect(mergePulses([])).toBeNull();
});
