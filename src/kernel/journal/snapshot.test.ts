// A snapshot is a cache of the fold: written, read and gone on with, it is the same execution.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { step } from "../step.ts";
import { encodeEntries } from "./journal-entry.ts";
import { restore } from "./replay.ts";
import { readSnapshot, writeSnapshot } from "./snapshot.ts";

function through(run: KernelRun): string {
  return writeSnapshot(readSnapshot("e1", run.plan, writeSnapshot(run.execution)));
}

describe("a snapshot", () => {
  test("keeps everything: tasks, trouble, pages, identities, signals, timers, who was answered", () => {
    const handlers = {
      x: { use: "x", enumerate: { use: "l" }, identity: "/i", retry: { attempts: 9 }, tolerate: 5 },
      nap: { sleep: "1h" },
    };
    const run = new KernelRun([{ name: "a", handlers }, phase("b")], {
      deadline: 9_000_000,
      tags: { a: "b" },
    });
    run.page("x", [1, 2, 3], { identities: ["a", "b", "c"], keys: ["k", "k", "l"] });
    run.started("x", 0, 1);
    run.lost("x", 0);
    run.fail("x", 1, { retryAfterMs: 60_000 });
    run.fail("x", 2, { fatal: true });
    run.signal("other", { deep: [1] }, "s1");
    run.control("pause", "p1");
    const text = writeSnapshot(run.execution);
    expect(through(run)).toBe(text);
    const copy = readSnapshot("e1", run.plan, text);
    for (const execution of [run.execution, copy]) {
      expect(
        step(execution, { kind: "signal", id: "s1", signal: "other", data: "9" }, 2_000).events,
      ).toHaveLength(0);
      const page = {
        kind: "page" as const,
        phase: "a",
        visit: 1,
        handler: "x",
        attempt: 1,
        round: 1,
        from: -1,
      };
      const stepped = step(
        execution,
        { ...page, tasks: ["3", "4"], keys: null, identities: ["c", "d"] },
        2_000,
      );
      expect(stepped.events).toMatchObject([{ event: { from: 3, tasks: ["4"] } }]);
    }
    expect(writeSnapshot(copy)).toBe(writeSnapshot(run.execution));
  });

  test("keeps what a repair needs to know of the visit that failed", () => {
    const run = new KernelRun([
      phase("a", { tasks: [0, 1] }, { onError: "fix" }),
      { name: "end", final: true },
      phase("fix", {}, { final: "failed" }),
    ]);
    run.done("a", 0);
    run.fail("a", 1, { fatal: true });
    run.drained();
    run.done("fix", 0);
    const copy = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    const retry = { kind: "retry" as const, id: "r", by: "ann", reason: null };
    const events = [run.execution, copy].map((execution) => step(execution, retry, 2_000).events);
    expect(events[1]).toEqual(events[0]);
    expect(writeSnapshot(copy)).toBe(writeSnapshot(run.execution));
    expect(copy.current?.handler("a")?.tasks.done).toBe(1);
  });

  test("keeps how many signals and bytes are kept, so that the limits hold", () => {
    const run = new KernelRun([phase("a")]);
    for (let i = 0; i < 4; i++) run.signal("x", "x".repeat(262_142));
    const copy = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    const more = { kind: "signal" as const, id: "more", signal: "x", data: "1" };
    expect(step(copy, more, 2_000).answer).toMatchObject({ kind: "rejection", code: "rate_limited" });
  });

  test("and the rows after it give the same execution as all rows", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2] }), phase("b")]);
    run.done("a", 1);
    const early = writeSnapshot(run.execution);
    const { seq } = run.execution;
    run.done("a", 0, 2);
    run.done("b", 0);
    const entries = encodeEntries(run.events, run.execution.id);
    const whole = restore("e1", run.plan, { snapshot: null, entries });
    const rest = encodeEntries(
      run.events.filter((recorded) => recorded.seq > seq),
      "e1",
    );
    expect(writeSnapshot(restore("e1", run.plan, { snapshot: early, entries: rest }))).toBe(
      writeSnapshot(whole),
    );
    expect(writeSnapshot(whole)).toBe(writeSnapshot(run.execution));
  });

  test("of nothing is a damage: a stored execution has at least one event", () => {
    const run = new KernelRun([phase("a")]);
    expect(() => restore("e1", run.plan, { snapshot: null, entries: [] })).toThrow(
      "journal row 1 of execution e1 cannot be read: it is missing",
    );
  });
});
