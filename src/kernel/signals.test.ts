// Signals: kept in order per name, consumed once by a wait, bounded (DESIGN 3.1).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const wait = (name: string, more: object = {}) => ({
  name,
  handlers: { [name]: { waitFor: "go", ...more } },
});

/** What the waits of finished phases were given. */
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

  test("to an execution that is over is refused", () => {
    const run = new KernelRun([{ name: "a" }]);
    expect(run.signal("go")).toMatchObject({ kind: "rejection", code: "wrong_status" });
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
