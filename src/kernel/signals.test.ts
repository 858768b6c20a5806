// Signals: kept in order per name, consumed once by a wait, bounded (DESIGN 3.1).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { readSnapshot, writeSnapshot } from "./journal/snapshot.ts";
import { viewExecution } from "./view.ts";

const wait = (name: string, more: object = {}) => ({
  name,
  handlers: { [name]: { waitFor: "go", ...more } },
});

/** The payloads that the waits of finished phases received. */
function values(run: KernelRun): (string | null)[] {
  return run.execution.visited.flatMap(({ handlers }) => handlers.map(({ value }) => value));
}

describe("a signal", () => {
  test("ends the wait that is open, and its payload is the value", () => {
    const run = new KernelRun([wait("a")]);
    run.signal("go", { ok: true });
    expect(run.status).toBe("done");
    expect(values(run)).toEqual(['{"ok":true}']);
  });

  test("that came before the wait is kept for it", () => {
    const run = new KernelRun([phase("a"), wait("b")]);
    run.signal("go", 1);
    expect(run.phase).toBe("a");
    run.done("a", 0);
    expect(run.status).toBe("done");
    expect(run.of("timer.set")).toHaveLength(0);
  });

  test("is consumed exactly once, the oldest first", () => {
    const run = new KernelRun([phase("a"), wait("b"), wait("c"), wait("d")]);
    run.signal("go", 1);
    run.signal("go", 2);
    run.done("a", 0);
    expect(run.phase).toBe("d");
    run.signal("go", 3);
    expect(values(run).slice(1)).toEqual(["1", "2", "3"]);
    expect(run.execution.signalCount).toBe(0);
    expect(run.execution.signalBytes).toBe(0);
  });

  test("of another name does not end the wait, and is kept", () => {
    const run = new KernelRun([wait("a")]);
    run.signal("stop", 1);
    expect(run.status).toBe("running");
    expect(run.execution.signals.get("stop")).toHaveLength(1);
  });

  test("that the workflow never waits for is refused if it lists its signals", () => {
    const run = new KernelRun({ name: "w", phases: [wait("a"), phase("b")], signals: ["stop"] });
    expect(run.signal("stop", 1)).toMatchObject({ kind: "applied", signal: "kept" });
    expect(run.signal("sotp", 1)).toMatchObject({
      kind: "rejection",
      code: "invalid_input",
      hint: 'the workflow waits for "go", "stop"',
    });
    expect(run.execution.signals.get("sotp")).toBeUndefined();
  });

  test("goes to one of two waits for it", () => {
    const handlers = { x: { waitFor: "go" }, y: { waitFor: "go" } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.signal("go", 1);
    expect(run.status).toBe("running");
    run.signal("go", 2);
    expect(values(run)).toEqual(["1", "2"]);
  });

  test("sent twice with one id is kept once", () => {
    const run = new KernelRun([phase("a")]);
    const first = run.signal("go", 1, "s");
    expect(run.signal("go", 1, "s")).toEqual(first);
    expect(run.execution.signalCount).toBe(1);
  });

  test("sent again after it was consumed still gets its first answer", () => {
    const run = new KernelRun([wait("a"), wait("b")]);
    const first = run.signal("go", 1, "s");
    expect(run.signal("go", 1, "s")).toEqual(first);
    expect(run.phase).toBe("b");
  });

  test("that arrives while paused ends the wait, and the next phase is held", () => {
    const run = new KernelRun([wait("a"), phase("b")]);
    run.control("pause");
    run.signal("go");
    expect(run.of("phase.finished")).toHaveLength(1);
    expect(run.of("phase.started")).toHaveLength(1);
    run.control("resume");
    expect(run.phase).toBe("b");
  });

  test("that arrives while the phase drains is kept, not consumed", () => {
    const handlers = { x: { use: "x" }, y: { waitFor: "go" } };
    for (const close of ["fail", "cancel"]) {
      const run = new KernelRun([{ name: "a", handlers }]);
      if (close === "fail") run.fail("x", 0, { fatal: true });
      else run.control("cancel");
      run.signal("go", 1);
      expect(run.execution.signalCount).toBe(1);
      run.drained();
      run.control("retry");
      expect(run.execution.signalCount).toBe(0);
      expect(run.handler("y").value).toBe("1");
    }
  });

  test("to an execution that is over is refused, but a repeat of an accepted one is not", () => {
    const run = new KernelRun([wait("a")]);
    run.signal("other", 1, "early");
    run.signal("go", 1, "s");
    expect(run.status).toBe("done");
    expect(run.signal("go")).toMatchObject({ kind: "rejection", code: "gone" });
    expect(run.signal("go", 1, "s")).toMatchObject({ kind: "applied", signal: "delivered" });
    expect(run.signal("other", 1, "early")).toMatchObject({ kind: "applied", signal: "kept" });
  });

  test("is delivered if a wait takes it, and kept otherwise; a repeat says how it stands by then", () => {
    const run = new KernelRun([phase("a"), wait("b"), phase("c")]);
    expect(run.signal("go", 1, "s")).toMatchObject({ kind: "applied", signal: "kept" });
    run.done("a", 0);
    expect(run.signal("go", 1, "s")).toMatchObject({ kind: "applied", signal: "delivered" });
    expect(run.phase).toBe("c");
    const waiting = new KernelRun([wait("a"), phase("b")]);
    expect(waiting.signal("go")).toMatchObject({ kind: "applied", signal: "delivered" });
  });
});

describe("a start with a signal", () => {
  test("journals both in one step, and the first wait takes the signal", () => {
    const signal = { kind: "signal", id: "s", signal: "go", data: "7" } as const;
    const run = new KernelRun([wait("a"), phase("b")], { signal });
    expect(run.kinds().slice(0, 2)).toEqual(["created", "signalled"]);
    expect(run.phase).toBe("b");
    expect(values(run)).toEqual(["7"]);
    expect(run.signal("go", 7, "s")).toEqual({ kind: "applied", seq: 2, signal: "delivered" });
  });
});

describe("unread signals", () => {
  /** Reads items one by one, and flushes each; `unread` sends it back to `read`. */
  const reader = (more: object = {}) => ({
    name: "w",
    phases: [{ name: "read", handlers: { read: { waitFor: "item" } } }, phase("flush"), phase("close")],
    unread: { item: "read" },
    finally: "close",
    ...more,
  });
  const entered = (run: KernelRun) =>
    run.of("phase.started").map(({ phase: name, visit }) => `${name}/${visit}`);

  test("are listed by name and count when it has ended, in its view, and not if there are none", () => {
    const run = new KernelRun([wait("a")]);
    for (const name of ["x", "y", "x"]) run.signal(name);
    run.signal("go");
    const unread = [
      { signal: "x", count: 2 },
      { signal: "y", count: 1 },
    ];
    expect(run.of("finished")).toMatchObject([{ status: "done", unread }]);
    expect(viewExecution(run.execution, run.now).unread).toEqual(unread);
    const read = new KernelRun([wait("a")]);
    read.signal("go");
    expect(read.of("finished")[0]).not.toHaveProperty("unread");
    expect(viewExecution(read.execution, read.now)).not.toHaveProperty("unread");
  });

  test("that the definition names are read before it is done, one by one", () => {
    const run = new KernelRun(reader());
    run.signal("item", 1);
    expect(run.phase).toBe("flush");
    run.signal("item", 2);
    run.signal("item", 3);
    run.signal("other");
    run.done("flush", 0);
    expect([run.phase, run.execution.currentVisit().visit]).toEqual(["flush", 2]);
    run.done("flush", 0);
    run.done("flush", 0);
    run.done("close", 0);
    expect(run.status).toBe("done");
    expect(entered(run)).toEqual(["read/1", "flush/1", "read/2", "flush/2", "read/3", "flush/3", "close/1"]);
    expect(run.of("finished")).toMatchObject([{ unread: [{ signal: "other", count: 1 }] }]);
  });

  test("that come while the output is computed are read, and it is computed again", () => {
    const run = new KernelRun(reader({ returns: { use: "w.returns" } }));
    run.signal("item", 1);
    run.signal("item", 2);
    run.done("flush", 0);
    run.done("flush", 0);
    expect(run.phase).toBe("returns");
    run.signal("item", 3);
    run.receipt("returns", 0, { payload: '"old"' });
    run.done("flush", 0);
    run.receipt("returns", 0, { payload: '"new"' });
    run.done("close", 0);
    expect(entered(run).slice(4)).toEqual(["returns/1", "read/3", "flush/3", "returns/2", "close/1"]);
    expect(run.execution.output).toBe('"new"');
  });

  test("cannot come any more once its work is done and it cleans up; others can", () => {
    const run = new KernelRun(reader());
    run.signal("item", 1);
    run.done("flush", 0);
    expect(run.phase).toBe("close");
    expect(run.signal("item", 2)).toMatchObject({ kind: "rejection", code: "gone" });
    expect(run.signal("other")).toMatchObject({ kind: "applied", signal: "kept" });
  });

  test("are left over where it fails or is cancelled, and listed", () => {
    const ends: [string, (run: KernelRun) => unknown][] = [
      ["failed", (run) => run.fail("flush", 0, { fatal: true })],
      ["cancelled", (run) => run.control("cancel")],
    ];
    for (const [status, end] of ends) {
      const run = new KernelRun(reader());
      run.signal("item", 1);
      run.signal("item", 2);
      end(run);
      run.drained();
      run.done("close", 0);
      expect(run.of("finished")).toMatchObject([{ status, unread: [{ signal: "item", count: 1 }] }]);
    }
  });

  test("survive a snapshot", () => {
    const run = new KernelRun(reader());
    run.signal("item", 1);
    run.signal("item", 2);
    const restored = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    expect(viewExecution(restored, run.now).unread).toEqual([{ signal: "item", count: 1 }]);
  });
});

describe("kept signals", () => {
  test("are at most 1,000", () => {
    const run = new KernelRun([phase("a")]);
    for (let i = 0; i < 1_000; i++) expect(run.signal("go", i)).toMatchObject({ kind: "applied" });
    const refused = run.signal("go", 1_000);
    expect(refused).toMatchObject({ kind: "rejection", code: "rate_limited" });
    expect(run.last).toHaveLength(0);
  });

  test("are at most 1 MiB", () => {
    const run = new KernelRun([phase("a")]);
    const data = "x".repeat(262_144 - 2);
    for (let i = 0; i < 4; i++) expect(run.signal("go", data)).toMatchObject({ kind: "applied" });
    expect(run.signal("go", "")).toMatchObject({ kind: "rejection", code: "rate_limited" });
  });

  test("of one name leave room for those of others, by number and by size", () => {
    const run = new KernelRun([phase("a")]);
    const data = "x".repeat(262_144 - 2);
    for (let i = 0; i < 1_000; i++) run.signal("many", i);
    for (let i = 0; i < 4; i++) run.signal("large", data);
    expect(run.signal("many")).toMatchObject({ kind: "rejection", code: "rate_limited" });
    expect(run.signal("large")).toMatchObject({ kind: "rejection", code: "rate_limited" });
    expect(run.signal("go", data)).toMatchObject({ kind: "applied" });
  });

  test("of all names together are bounded too", () => {
    const run = new KernelRun([phase("a")]);
    const data = "x".repeat(262_144 - 2);
    for (let i = 0; i < 32; i++) expect(run.signal(`go-${i}`, data)).toMatchObject({ kind: "applied" });
    expect(run.signal("go")).toMatchObject({ kind: "rejection", code: "rate_limited" });
  });

  test("that fill the room do not keep a signal from the wait that is open for it", () => {
    const run = new KernelRun([wait("a")]);
    for (let i = 0; i < 10_000; i++) run.signal(`other-${i % 10}`, i);
    expect(run.signal("other")).toMatchObject({ kind: "rejection", code: "rate_limited" });
    expect(run.signal("go")).toMatchObject({ kind: "applied" });
    expect(run.status).toBe("done");
  });

  test("make room again when they are consumed", () => {
    const run = new KernelRun([phase("a"), wait("b"), phase("c")]);
    for (let i = 0; i < 1_000; i++) run.signal("go", i);
    run.done("a", 0);
    expect(run.signal("go")).toMatchObject({ kind: "applied" });
  });
});

describe("a wait with a timeout", () => {
  test("fails with wait_timeout if nothing comes in time", () => {
    const run = new KernelRun([wait("a", { timeout: "1s" })]);
    run.now = 2_000;
    run.timer("a.1.a");
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ code: "wait_timeout", phase: "a", handler: "a" });
  });

  test("goes on with null if it is optional", () => {
    const run = new KernelRun([wait("a", { timeout: "1s", optional: true })]);
    run.now = 2_000;
    run.timer("a.1.a");
    expect(run.status).toBe("done");
    expect(values(run)).toEqual(["null"]);
  });

  test("goes to onError when it fails", () => {
    const run = new KernelRun([
      { ...wait("a", { timeout: "1s" }), onError: "fix" },
      { name: "end", final: true },
      phase("fix"),
    ]);
    run.now = 2_000;
    run.timer("a.1.a");
    run.drained();
    expect(run.phase).toBe("fix");
  });

  test.each(["signal", "timer"])(
    "against a signal at the same moment: the first in the journal wins (%s)",
    (first) => {
      const run = new KernelRun([wait("a", { timeout: "1s", optional: true })]);
      run.now = 2_000;
      const both = [() => run.signal("go", 1), () => run.timer("a.1.a")];
      for (const send of first === "signal" ? both : both.toReversed()) send();
      expect(values(run)).toEqual([first === "signal" ? "1" : "null"]);
      expect(run.of("tasks.settled")).toHaveLength(1);
    },
  );

  test("that a signal ended has no timer left", () => {
    const run = new KernelRun([wait("a", { timeout: "1h" }), phase("b")]);
    run.signal("go");
    expect(run.execution.timers.size).toBe(0);
    expect(run.of("timer.cleared")).toHaveLength(1);
  });
});
