// Journal rows: what is packed comes back the same; rows stay within their bounds (DESIGN 4).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Event, Recorded } from "../event.ts";
import { assertContiguous, decodeEntry, encodeEntries, UnknownVersion } from "./journal-entry.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

const name = fc.constantFrom("a", "b-c", "n", "all");
const text = fc.string({ unit: "grapheme", maxLength: 30 });
const number = fc.nat(100_000);
const payload = fc.json({ maxDepth: 2 });
const place = { phase: name, visit: number, handler: name };
const error = fc.record({ code: text, message: text }, { requiredKeys: ["code", "message"] });
const record = <K extends Event["kind"]>(kind: K, fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record({ kind: fc.constant(kind), ...fields }) as unknown as fc.Arbitrary<Event>;

/** Parallel columns of one length. */
function columns(kind: Event["kind"], fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Event> {
  return fc.tuple(fc.record(place), fc.array(fc.record(fields), { maxLength: 8 })).map(([at, rows]) => {
    const lists = Object.keys(fields).map((field) => [field, rows.map((row) => row[field])]);
    return { kind, ...at, ...(Object.fromEntries(lists) as object) } as Event;
  });
}

const status = fc.constantFrom("done", "failed", "cancelled");
const anyEvent: fc.Arbitrary<Event> = fc.oneof(
  record("created", {
    workflow: name,
    hash: text,
    project: name,
    input: payload,
    tags: fc.dictionary(fc.oneof(name, text), text),
  }),
  record("phase.started", { phase: name, visit: number }),
  record("phase.finished", { phase: name, visit: number, status, next: fc.option(name) }),
  record("handler.started", place),
  record("handler.enumerated", { ...place, total: number }),
  record("handler.finished", { ...place, done: number, failed: number, cancelled: number }),
  record("handler.retrying", {
    ...place,
    attempt: number,
    reason: fc.constant("failed"),
    until: fc.option(number),
    error: fc.option(payload),
  }),
  record("handler.lost", { ...place, attempt: number, worker: text }),
  fc
    .tuple(fc.record(place), number, number, fc.array(payload, { maxLength: 8 }), fc.boolean(), fc.boolean())
    .map(
      ([at, from, checksum, tasks, keyed, named]): Event => ({
        kind: "tasks.enumerated",
        ...at,
        from,
        count: tasks.length,
        checksum,
        tasks,
        keys: keyed ? tasks.map((_, i) => `k${i % 2}`) : null,
        identities: named ? tasks.map(() => "same") : null,
      }),
    ),
  columns("tasks.started", { tasks: number, attempts: number, workers: text }),
  columns("tasks.lost", { tasks: number, attempts: number, workers: text }),
  columns("tasks.retrying", {
    tasks: number,
    attempts: number,
    reasons: fc.constantFrom("failed", "released"),
    untils: number,
    errors: payload,
  }),
  columns("tasks.settled", {
    tasks: number,
    attempts: number,
    statuses: status,
    reasons: fc.option(text),
    workers: text,
    ms: number,
    payloads: payload,
  }),
  columns("tasks.late", { tasks: number, attempts: number, statuses: status, accepted: fc.boolean() }),
  columns("tasks.waiting", {
    tasks: number,
    attempts: number,
    names: text,
    dues: number,
    signals: fc.option(name),
  }),
  record("task.step", {
    ...place,
    task: number,
    attempt: number,
    name: text,
    result: fc.option(payload),
    error: fc.option(payload),
    reason: fc.constantFrom("done", "signalled", "timer"),
  }),
  record("task.run", {
    ...place,
    task: number,
    attempt: number,
    name,
    index: number,
    state: payload,
    oversized: fc.boolean(),
    stats: fc.record({ durationMs: number, memoryBytes: number }),
  }),
  record("child.started", { ...place, task: number, attempt: number, child: text }),
  record("child.finished", { ...place, task: number, attempt: number, child: text, status }),
  record("timer.set", { timer: text, purpose: fc.constantFrom("sleep", "start", "task"), due: number }),
  record("signalled", { signal: name, id: text, data: payload }),
  record("paused", { by: text, reason: fc.option(text), id: text }),
  record("retried", { phase: name, visit: number, round: number, by: text, id: text }),
  record("finished", { status, output: fc.option(payload), error: fc.option(error), round: number }),
);

function recorded(events: readonly Event[], at = 7, first = 1): Recorded[] {
  return events.map((event, i) => ({ seq: first + i, at, event }));
}

describe("rows", () => {
  test("give back the events that were put in", () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { minLength: 1, maxLength: 12 }), number, (events, first) => {
        const before = recorded(events, 5, first + 1);
        const rows = encodeEntries(before, "e");
        assertContiguous(rows, first + 1);
        expect(rows.flatMap(decodeEntry)).toEqual(before);
      }),
      { numRuns: 600 },
    );
  });

  test("keep tags whatever they are called", () => {
    const tags = { n: "3", all: "x", up: "1" };
    const [created] = recorded([
      { kind: "created", workflow: "w", hash: "h", project: "p", input: "null", tags },
    ]);
    const [back] = encodeEntries([created as Recorded], "e").flatMap(decodeEntry);
    expect(back?.event).toEqual(created?.event);
  });

  test("hold only events of one time", () => {
    const rows = encodeEntries(
      [
        ...recorded([{ kind: "phase.started", phase: "a", visit: 1 }], 5),
        ...recorded([{ kind: "phase.started", phase: "b", visit: 1 }], 6, 2),
      ],
      "e",
    );
    expect(rows.map(({ seq, count, at }) => [seq, count, at])).toEqual([
      [1, 1, 5],
      [2, 1, 6],
    ]);
  });

  test("are text: a header line, then the payloads end to end", () => {
    const run = new KernelRun([phase("a", { tasks: ["x", "y\nz", "\u{1f600}"] })]);
    const [row] = encodeEntries(run.events, run.execution.id);
    const [header, ...rest] = (row?.body ?? "").split("\n");
    expect(JSON.parse(header as string)).toMatchObject({ v: 1 });
    expect(rest.join("\n").trimEnd()).toBe('"x""y\\nz""\u{1f600}"');
  });

  test("are short where columns are equal or count up", () => {
    const run = new KernelRun([phase("a", { tasks: Array.from({ length: 1_000 }, () => 0) })]);
    run.done("a", ...Array.from({ length: 1_000 }, (_, i) => i));
    const rows = encodeEntries(run.last, run.execution.id);
    expect(rows).toHaveLength(1);
    expect(rows[0]?.body.length).toBeLessThan(6_000);
  });

  test("hold at most 1,000 tasks each", () => {
    const run = new KernelRun([phase("a", { tasks: Array.from({ length: 3_500 }, (_, i) => i) })]);
    run.done("a", ...Array.from({ length: 3_500 }, (_, i) => i));
    for (const row of encodeEntries(run.events, run.execution.id)) {
      const items = decodeEntry(row).reduce(
        (sum, { event }) => sum + ("tasks" in event ? event.tasks.length : 0),
        0,
      );
      expect(items).toBeLessThanOrEqual(1_000);
    }
  });

  test("hold at most 256 KiB of payload each, or a single event", () => {
    const big = (n: number) => JSON.stringify("x".repeat(n));
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2, 3, 4] })]);
    run.receipts(
      "a",
      [0, 1, 2, 3, 4].map((task) => ({ task, payload: big(150_000) })),
    );
    const rows = encodeEntries(run.last, run.execution.id);
    expect(rows.length).toBeGreaterThan(3);
    for (const row of rows) expect(row.body.length).toBeLessThan(262_144 + 2_000);
  });

  test("say version 2 only where they hold what came with it, so that older versions read the others", () => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    run.done("a", 0);
    const versions = (events: readonly Recorded[]) =>
      encodeEntries(events, "e").map(
        ({ body }) => (JSON.parse(body.split("\n")[0] as string) as { v: number }).v,
      );
    expect(versions(run.events)).toEqual([1]);
    run.stepDone("a", 1);
    expect(versions(run.last)).toEqual([2]);
    run.suspend("a", 1, { name: "w", signal: "go", timeoutMs: 5 });
    expect(versions(run.last)).toEqual([2]);
    run.signal("go", 1);
    expect(versions(run.last)).toEqual([2]);
    run.done("a", 1);
    expect(versions(run.last)).toEqual([1]);
  });

  test("hold the states of runs and the results of steps within their bounds too", () => {
    const run = new KernelRun([phase("a", { tasks: [0] })]);
    const from = run.events.length;
    for (let i = 0; i < 5; i++) run.stepDone("a", 0, { name: `s${i}`, result: "x".repeat(150_000) });
    const rows = encodeEntries(run.events.slice(from), "e");
    expect(rows).toHaveLength(5);
    for (const row of rows) expect(row.body.length).toBeLessThan(262_144 + 2_000);
  });

  test("of a newer version are refused by name, not misread", () => {
    const row = { seq: 1, count: 1, at: 1, body: '{"v":99,"events":[{"kind":"new.thing"}]}' };
    expect(() => decodeEntry(row)).toThrow(UnknownVersion);
  });

  test("with a gap are a bug", () => {
    const [row] = encodeEntries(recorded([{ kind: "phase.started", phase: "a", visit: 1 }], 5, 3), "e");
    expect(() => assertContiguous(row === undefined ? [] : [row], 2)).toThrow("without a gap");
  });
});
