// What a worker is told of earlier attempts of its task: steps, sleeps, waits, and the runs of a script.
import { describe, expect, test, vi } from "vitest";
import type { Claimed, WireEventBody, WorkItem } from "../../src/protocol/worker-wire.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { DONE, FAILED, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const first = ({ work }: Claimed) => work[0] as WorkItem;

async function begun(more: object = {}): Promise<[SessionFixture, WorkItem]> {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x"], { retry: { attempts: 5, min: 1_000 }, ...more })]);
  const work = first(await fixture.claim("one"));
  await fixture.tell("one", [work, 1, STARTED]);
  return [fixture, work];
}

function suspend(wait: object): WireEventBody {
  return { kind: "receipt", status: "suspended", wait: wait as never };
}

describe("steps", () => {
  test("that are done come back with their results, in a later attempt of the task", async () => {
    const [fixture, work] = await begun();
    await fixture.tell(
      "one",
      [work, 2, { kind: "step", name: "charge", result: { id: 7 } }],
      [work, 3, { kind: "step", name: "nothing" }],
      [work, 4, FAILED],
    );
    await fixture.clock.advance(2_000);
    const again = first(await fixture.claim("one"));
    expect(again.n).toBe(2);
    expect(again.steps).toEqual([
      { name: "charge", result: { id: 7 } },
      { name: "nothing", result: null },
    ]);
    await fixture.tell("one", [again, 1, DONE]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("of an attempt that is gone are not taken", async () => {
    const [fixture, work] = await begun({ heartbeat: 3_000 });
    await fixture.clock.advance(5_000);
    const { verdicts } = await fixture.tell("one", [work, 2, { kind: "step", name: "charge", result: 1 }]);
    expect(verdicts[work.attempt]).not.toBe("accepted");
    expect(first(await fixture.claim("one")).steps).toBeUndefined();
  });
});

describe("a suspended attempt", () => {
  test("that sleeps holds no worker, burns no attempt, and goes on when its time has come", async () => {
    const [fixture, work] = await begun();
    const untilMs = fixture.clock.now() + 60_000;
    await fixture.tell("one", [work, 2, suspend({ name: "nap", untilMs })]);
    await fixture.clock.advance(59_000);
    expect((await fixture.claim("one")).work).toEqual([]);
    await fixture.clock.advance(2_000);
    const again = first(await fixture.claim("one"));
    expect(again.steps).toEqual([{ name: "nap" }]);
  });

  test("that waits for a signal gets its payload", async () => {
    const [fixture, work] = await begun();
    await fixture.tell("one", [work, 2, suspend({ name: "ok", signal: "ok" })]);
    expect((await fixture.claim("one")).work).toEqual([]);
    unwrap(
      (await fixture.engine.send("e1", { kind: "signal", id: "s1", signal: "ok", data: '{"by":"me"}' }))
        .answer,
    );
    await fixture.clock.settle();
    expect(first(await fixture.claim("one")).steps).toEqual([{ name: "ok", result: { by: "me" } }]);
  });

  test("that waits in vain gets the error", async () => {
    const [fixture, work] = await begun();
    await fixture.tell("one", [work, 2, suspend({ name: "ok", signal: "ok", timeoutMs: 5_000 })]);
    await fixture.clock.advance(6_000);
    const [step] = first(await fixture.claim("one")).steps ?? [];
    expect(step).toMatchObject({ name: "ok", error: { code: "wait_timeout" } });
  });
});

describe("a script", () => {
  const runs = [
    { name: "one", expression: "s => s" },
    { name: "two", expression: "s => s + 1", timeout: 5_000 },
  ];

  async function claimed(more: object = {}): Promise<[SessionFixture, WorkItem]> {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["~script"]);
    await fixture.start("e1", [
      { name: "map", handlers: { map: { script: runs, state: { n: 0 }, ...more } } },
    ]);
    return [fixture, first(await fixture.claim("one"))];
  }

  test("comes with its runs and the state before the first", async () => {
    const [, work] = await claimed();
    expect([work.do, work.finished, work.state]).toEqual(["script", 0, { n: 0 }]);
    expect(work.runs).toEqual([
      { name: "one", expression: "s => s", timeoutMs: null },
      { name: "two", expression: "s => s + 1", timeoutMs: 5_000 },
    ]);
  });

  test("2.31 C5 whose worker dies: its open run is marked as crashed, and it goes on after its last finished run", async () => {
    const [fixture, work] = await claimed();
    await fixture.tell(
      "one",
      [work, 1, STARTED],
      [work, 2, { kind: "run_started", run: "one" }],
      [work, 3, { kind: "run_finished", run: "one", state: { n: 1 } }],
      [work, 4, { kind: "run_started", run: "two" }],
    );
    await fixture.clock.advance(31_000);
    const again = first(await fixture.claim("one"));
    expect([again.n, again.finished, again.state]).toEqual([2, 1, { n: 1 }]);
    expect(again.runs?.map(({ name }) => name)).toEqual(["two"]);
    expect(await fixture.events("e1", "task.run.crashed")).toMatchObject([
      { name: "two", index: 1, attempt: 1, reason: "lost", stats: null },
    ]);
    expect((await fixture.events("e1", "task.run.started")).map(({ name }) => name)).toEqual(["one", "two"]);
  });

  test("2.23 whose run crashed keeps the run's stats", async () => {
    const [fixture, work] = await claimed();
    const stats = { durationMs: 12, memoryBytes: 345 };
    await fixture.tell(
      "one",
      [work, 1, { kind: "run_started", run: "one" }],
      [work, 2, { kind: "run_crashed", run: "one", message: "out of memory", stats }],
      [work, 3, FAILED],
    );
    expect(await fixture.events("e1", "task.run.crashed")).toMatchObject([
      { name: "one", attempt: 1, reason: "crashed", message: "out of memory", stats },
    ]);
  });

  test("whose notices come in one request are recorded in one commit", async () => {
    const [fixture, work] = await claimed();
    const commits = vi.spyOn(fixture.store, "commit");
    await fixture.tell(
      "one",
      [work, 1, { kind: "accepted" }],
      [work, 2, STARTED],
      [work, 3, { kind: "run_started", run: "one" }],
      [work, 4, { kind: "log", text: "hi", run: "one" }],
      [work, 5, { kind: "run_finished", run: "one", state: { n: 1 } }],
      [work, 6, { kind: "run_started", run: "two" }],
    );
    expect(commits).toHaveBeenCalledTimes(1);
  });

  test("2.11 whose worker has only accepted it is recorded with the next commit", async () => {
    const [fixture, work] = await claimed();
    const commits = vi.spyOn(fixture.store, "commit");
    await fixture.tell("one", [work, 1, { kind: "accepted" }]);
    expect(commits).not.toHaveBeenCalled();
    await fixture.tell("one", [work, 2, { kind: "run_started", run: "one" }]);
    expect(commits).toHaveBeenCalledTimes(1);
    expect(await fixture.events("e1", "tasks.accepted")).toMatchObject([{ attempts: [1], workers: ["one"] }]);
  });

  test("C6 the same run_finished twice is recorded once", async () => {
    const [fixture, work] = await claimed();
    const said = [
      [work, 1, { kind: "run_finished", run: "one", state: { n: 1 } }],
      [work, 2, { kind: "run_finished", run: "two", state: { n: 2 } }],
    ] as const;
    await fixture.tell("one", said[0]);
    await fixture.tell("one", ...said);
    await fixture.tell("one", ...said);
    expect((await fixture.events("e1", "task.run")).map(({ name, index }) => [name, index])).toEqual([
      ["one", 0],
      ["two", 1],
    ]);
  });

  test("without resume begins with its first run again", async () => {
    const [fixture, work] = await claimed({ resume: false });
    await fixture.tell(
      "one",
      [work, 1, { kind: "run_finished", run: "one", state: { n: 1 } }],
      [work, 2, FAILED],
    );
    await fixture.clock.advance(2_000);
    const again = first(await fixture.claim("one"));
    expect([again.finished, again.state, again.runs?.length]).toEqual([0, { n: 0 }, 2]);
  });
});
