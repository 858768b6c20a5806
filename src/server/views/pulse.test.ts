import { expect, test } from "vitest";
import { noTotals } from "../../engine/views/totals.ts";
import type { Event, Recorded } from "../../kernel/event.ts";
import { encodeEntries } from "../../kernel/journal/journal-entry.ts";
import type { Commit, ExecutionWrite } from "../../store/store.ts";
import { mergePulses, Pulse } from "./pulse.ts";

const PLACE = { phase: "p", visit: 1, handler: "h" } as const;
const OK = { kind: "ok", exists: [], fenced: [] } as const;

function commitOf(events: readonly Event[], at: number): Commit {
  const recorded: Recorded[] = events.map((event, i) => ({ seq: i + 1, at, event }));
  const write = {
    execution: "a",
    create: false,
    entries: encodeEntries(recorded, "e"),
  } as unknown as ExecutionWrite;
  return { fence: { generation: "g", epochs: {} }, writes: [write] };
}

function settled(tasks: readonly number[], ms: number): Event {
  return {
    kind: "tasks.settled",
    ...PLACE,
    tasks,
    attempts: tasks.map(() => 1),
    statuses: tasks.map(() => "done"),
    reasons: tasks.map(() => null),
    workers: tasks.map(() => "w"),
    ms: tasks.map(() => ms),
    payloads: tasks.map(() => "1"),
  };
}

const NOTHING = commitOf([], 0);

test("what the engine did in a second stands in that second, whenever it is asked for", () => {
  const pulse = new Pulse();
  const totals = noTotals();
  pulse.totals = () => structuredClone(totals);
  pulse.record(NOTHING, OK, 10_100);
  totals.started = 2;
  pulse.record(NOTHING, OK, 10_900);
  totals.settled["done"] = 5;
  pulse.record(NOTHING, OK, 12_000);
  totals.settled["done"] = 7;
  totals.settled["failed"] = 1;
  totals.ended["done"] = 1;
  expect(pulse.show(4, 13_200)).toMatchObject({
    until: 13,
    started: [0, 2, 0, 0],
    tasksDone: [0, 5, 0, 2],
    tasksFailed: [0, 0, 0, 1],
    done: [0, 0, 0, 1],
  });
});

test("waits are from the page to the start, runs from the start to the end", () => {
  const pulse = new Pulse();
  pulse.record(commitOf([{ kind: "handler.started", ...PLACE }], 10_100), OK, 10_100);
  pulse.record(commitOf([settled([0, 1], 300)], 11_500), OK, 11_500);
  pulse.record(
    commitOf([{ kind: "handler.finished", ...PLACE, done: 2, failed: 0, cancelled: 0 }], 11_600),
    OK,
    11_600,
  );
  pulse.record(commitOf([settled([2], 100)], 11_700), OK, 11_700);
  expect(pulse.show(2, 12_000)).toMatchObject({
    waitMs: [0, 2_200],
    waits: [0, 2],
    runMs: [0, 700],
    runs: [0, 3],
  });
});

test("a commit that was refused tells nothing, and of very many in a second only some are looked into", () => {
  const pulse = new Pulse();
  pulse.record(commitOf([settled([0], 1)], 5_000), { kind: "fenced", why: "", partitions: [] }, 5_000);
  for (let i = 0; i < 500; i++) pulse.record(commitOf([settled([i], 1)], 5_100), OK, 5_100);
  expect(pulse.show(1, 6_000).runs).toEqual([100]);
});

test("seconds without anything are empty, also after a long rest", () => {
  const pulse = new Pulse();
  pulse.record(commitOf([settled([0], 1)], 5_000), OK, 5_000);
  expect(pulse.show(2, 5_000 + 900_000 + 1_000).runs).toEqual([0, 0]);
});

test("the seconds of several nodes are added by their number, though one clock is ahead", () => {
  const [a, b] = [new Pulse(), new Pulse()];
  a.record(commitOf([settled([0], 1)], 5_000), OK, 5_000);
  b.record(commitOf([settled([0, 1], 1)], 5_000), OK, 5_000);
  expect(mergePulses([a.show(3, 6_000), b.show(3, 7_000)])?.runs).toEqual([0, 0, 3]);
  expect(mergePulses([])).toBeNull();
});
