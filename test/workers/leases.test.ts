// Heartbeats, losses, late words, cancels, and servers that come back, as remote workers see them.
import { describe, expect, test } from "vitest";
import type { Claimed, WorkItem } from "../../src/protocol/worker-wire.ts";
import {
  DONE,
  FAILED,
  type Said,
  SessionFixture,
  STARTED,
  tasksPhase,
} from "../fixtures/workers/session-fixture.ts";

const first = ({ work }: Claimed) => work[0] as WorkItem;

async function started(
  more: object = {},
  tasks: readonly unknown[] = ["x"],
): Promise<[SessionFixture, WorkItem]> {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  fixture.join("two", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", tasks, { heartbeat: 30_000, ...more })]);
  const work = first(await fixture.claim("one", 1));
  await fixture.tell("one", [work, 1, STARTED]);
  return [fixture, work];
}

describe("a started attempt", () => {
  test("C5 whose worker dies is lost within the heartbeat timeout, and the crash budget decides", async () => {
    const [fixture, work] = await started();
    await fixture.clock.advance(29_000);
    expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
    await fixture.clock.advance(2_000);
    expect(
      (await fixture.events("e1", "tasks.lost")).map(({ tasks, workers }) => [...tasks, ...workers]),
    ).toEqual([[0, "one"]]);
    const again = first(await fixture.claim("two"));
    expect([again.number, again.n]).toEqual([work.number, 2]);
  });

  test("leaves no record: after its receipt, after repeats of its events, and if its worker never heard of it", async () => {
    const [fixture, work] = await started({}, ["x", "y", "z"]);
    // The worker does not get the answer to this claim.
    await fixture.claim("two", 1);
    await fixture.tell("one", [work, 2, DONE]);
    await fixture.tell("one", [work, 1, STARTED]);
    await fixture.tell("one", [work, 2, DONE]);
    await fixture.tell("one", [work, 7, STARTED]);
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "lost" });
    for (let i = 0; i < 8; i++) {
      await fixture.clock.advance(10_000);
      for (const worker of ["one", "two"]) await fixture.beat(worker);
    }
    expect(fixture.sessions.recordCount).toBe(0);
  });

  test("that is none of the worker's is answered as lost; those beside it go on", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    const other = first(await fixture.claim("two", 1));
    const stolen = { ...other, token: work.token };
    const nonsense = { ...other, attempt: "nonsense" };
    expect(await fixture.beat("one", stolen, work, nonsense)).toEqual({
      [other.attempt]: "lost",
      [work.attempt]: "continue",
      nonsense: "lost",
    });
    // Whoever has it is not told so.
    expect(await fixture.beat("two", other)).toEqual({ [other.attempt]: "continue" });
  });

  test("of an earlier round is lost: its beats keep nothing alive", async () => {
    const [fixture, before] = await started();
    await fixture.control("e1", "cancel");
    await fixture.tell("one", [before, 2, { kind: "receipt", status: "cancelled" }]);
    await fixture.control("e1", "retry");
    const claim = fixture.open("two", 1, 10_000);
    await fixture.clock.advance(10_000);
    const work = first((await claim.answer) as Claimed);
    await fixture.tell("two", [work, 1, STARTED]);
    // Its start is journaled, so the attempt of the next round has the next number.
    expect(work.attempt).toBe(before.attempt.replace(".a.1.0.1.", ".a.2.0.2."));
    for (let i = 0; i < 4; i++) {
      await fixture.clock.advance(10_000);
      expect(await fixture.beat("one", before)).toEqual({ [before.attempt]: "lost" });
    }
    expect(await fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], workers: ["two"] }]);
  });

  test("C21 silent for three beats is lost; a beat just before the sweep keeps it", async () => {
    const [fixture, work] = await started();
    for (let i = 0; i < 5; i++) {
      await fixture.clock.advance(29_900);
      expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "continue" });
    }
    expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
    await fixture.clock.advance(31_000);
    expect(await fixture.events("e1", "tasks.lost")).toHaveLength(1);
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "lost" });
  });

  test("that is lost is said so over the claim that waits", async () => {
    const [fixture, work] = await started();
    const claim = fixture.open("one", 0, 60_000);
    await fixture.clock.advance(31_000);
    expect(await claim.answer).toMatchObject({ work: [], cancel: [], lost: [work.attempt] });
  });
});

describe("C8 a late done after lost", () => {
  test("settles the task while it is open, and the newer attempt is told to stop", async () => {
    const [fixture, work] = await started();
    await fixture.clock.advance(31_000);
    const newer = first(await fixture.claim("two"));
    await fixture.tell("two", [newer, 1, STARTED]);
    const late = await fixture.tell("one", [work, 2, { kind: "receipt", status: "done", result: "late" }]);
    expect(late.verdicts[work.attempt]).toBe("accepted");
    expect(await fixture.beat("two", newer)).toEqual({ [newer.attempt]: "cancel" });
    const second = await fixture.tell("two", [
      newer,
      2,
      { kind: "receipt", status: "done", result: "second" },
    ]);
    expect(second.verdicts[newer.attempt]).not.toBe("accepted");
    expect((await fixture.events("e1", "tasks.settled")).flatMap(({ payloads }) => payloads)).toEqual([
      '"late"',
    ]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("is only acknowledged when the task was settled meanwhile: never two outcomes", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.clock.advance(31_000);
    const newer = (await fixture.claim("two", 1)).work[0] as WorkItem;
    expect(newer.number).toBe(0);
    await fixture.tell("two", [newer, 1, DONE]);
    const late = await fixture.tell("one", [work, 2, DONE]);
    expect(late).toEqual({ stored: { [work.attempt]: 2 }, verdicts: { [work.attempt]: "late" } });
    expect((await fixture.events("e1", "tasks.settled")).flatMap(({ tasks }) => [...tasks])).toEqual([0]);
  });

  test("a late failure is recorded only", async () => {
    const [fixture, work] = await started();
    await fixture.clock.advance(31_000);
    expect((await fixture.tell("one", [work, 2, FAILED])).verdicts[work.attempt]).toBe("late");
    expect(await fixture.events("e1", "tasks.retrying")).toEqual([]);
    expect(first(await fixture.claim("two")).n).toBe(2);
  });
});

describe("C18 a cancel", () => {
  test("of what is pending: it is never claimed", async () => {
    const fixture = await SessionFixture.open();
    await fixture.start("e1", [tasksPhase("a", ["x"])]);
    await fixture.control("e1", "cancel");
    fixture.join("one", ["w.a"]);
    expect((await fixture.claim("one")).work).toEqual([]);
    expect((await fixture.status("e1")).status).toBe("cancelled");
  });

  test("of what runs: the worker is told at its next beat, and it ends cancelled with its last logs", async () => {
    const [fixture, work] = await started();
    await fixture.control("e1", "cancel");
    expect((await fixture.status("e1")).status).toBe("cancelling");
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "cancel" });
    await fixture.tell(
      "one",
      [work, 2, { kind: "log", text: "last words" }],
      [work, 3, { kind: "receipt", status: "cancelled" }],
    );
    expect((await fixture.status("e1")).status).toBe("cancelled");
    expect(await fixture.logs("e1")).toEqual(["last words"]);
  });

  test("of what runs: the worker is told at once over the claim that waits", async () => {
    const [fixture, work] = await started();
    const claim = fixture.open("one", 0, 60_000);
    await fixture.clock.settle();
    await fixture.control("e1", "cancel");
    expect(await claim.answer).toMatchObject({ cancel: [work.attempt] });
  });

  test("racing a claim: exactly one wins, and what was not sent yet is not sent", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.a"]);
    await fixture.start("e1", [tasksPhase("a", ["x"])]);
    const claim = fixture.open("one", 5, 60_000);
    await fixture.control("e1", "cancel");
    await fixture.clock.advance(60_000);
    const { work, cancel } = (await claim.answer) as Claimed;
    if (work.length === 1) {
      const item = work[0] as WorkItem;
      const told = cancel.includes(item.attempt) ? "cancel" : (await fixture.beat("one", item))[item.attempt];
      expect(told).toBe("cancel");
      await fixture.tell("one", [item, 1, { kind: "receipt", status: "cancelled" }]);
    }
    expect((await fixture.status("e1")).status).toBe("cancelled");
    expect(await fixture.events("e1", "tasks.started")).toEqual([]);
  });
});

describe("a server that dies and comes back", () => {
  test("adopts the attempts of workers that show themselves; their events go on where they were", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.tell("one", [work, 2, { kind: "log", text: "before" }]);
    await fixture.restart();
    expect(fixture.sessions.heartbeat("one", {})).toMatchObject({ code: "not_found" });
    fixture.join("one", ["w.a"]);
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "continue" });
    const answer = await fixture.tell("one", [work, 3, { kind: "log", text: "after" }], [work, 4, DONE]);
    expect(answer).toEqual({ stored: { [work.attempt]: 4 }, verdicts: { [work.attempt]: "accepted" } });
    expect(await fixture.logs("e1")).toEqual(["before", "after"]);
    expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
  });

  test("takes events again that it stored before it died: nothing is there twice", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.tell("one", [work, 2, { kind: "log", text: "once" }]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    await fixture.tell("one", [work, 2, { kind: "log", text: "once" }], [work, 3, DONE]);
    expect(await fixture.logs("e1")).toEqual(["once"]);
    expect((await fixture.events("e1", "tasks.settled")).flatMap(({ tasks }) => [...tasks])).toEqual([0]);
  });

  test("takes events after what the worker says is acknowledged, in whatever order requests arrive", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    const acknowledged = { [work.attempt]: 1 };
    const step = (name: string) => ({ kind: "step" as const, name, result: name });
    // The later of two requests that were under way comes first.
    const late = await fixture.send("one", [[work, 4, step("two")]], { acknowledged });
    expect(late).toMatchObject({ stored: { [work.attempt]: 1 } });
    const early = await fixture.send(
      "one",
      [
        [work, 2, step("one")],
        [work, 3, { kind: "log", text: "between" }],
      ],
      { acknowledged },
    );
    expect(early).toMatchObject({ stored: { [work.attempt]: 3 } });
    const rest = await fixture.send(
      "one",
      [
        [work, 4, step("two")],
        [work, 5, DONE],
      ],
      { acknowledged: { [work.attempt]: 3 } },
    );
    expect(rest).toMatchObject({ stored: { [work.attempt]: 5 }, verdicts: { [work.attempt]: "accepted" } });
    expect((await fixture.events("e1", "task.step")).map(({ name }) => name)).toEqual(["one", "two"]);
    expect(await fixture.logs("e1")).toEqual(["between"]);
  });

  test("of a worker that does not say so, takes what it hears first as the first; what is older is taken too", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    const step = (name: string) => ({ kind: "step" as const, name, result: name });
    const line = (text: string) => ({ kind: "log" as const, text });
    await fixture.tell("one", [work, 2, step("one")], [work, 3, line("three")]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    await fixture.tell("one", [work, 6, step("three")]);
    const older: Said[] = [
      [work, 2, step("one")],
      [work, 3, line("three")],
      [work, 4, step("two")],
      [work, 5, line("five")],
    ];
    for (let i = 0; i < 2; i++)
      expect((await fixture.tell("one", ...older)).stored).toEqual({ [work.attempt]: 6 });
    expect((await fixture.tell("one", [work, 7, DONE])).verdicts).toEqual({ [work.attempt]: "accepted" });
    expect((await fixture.events("e1", "task.step")).map(({ name }) => name)).toEqual([
      "one",
      "three",
      "two",
    ]);
    expect(await fixture.logs("e1")).toEqual(["three", "five"]);
  });

  test("takes nothing after a gap within a request", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    const answer = await fixture.tell("one", [work, 2, { kind: "log", text: "two" }], [work, 4, DONE]);
    expect(answer.stored).toEqual({ [work.attempt]: 2 });
    expect(await fixture.events("e1", "tasks.settled")).toEqual([]);
    expect(await fixture.tell("one", [work, 3, { kind: "log", text: "three" }], [work, 4, DONE])).toEqual({
      stored: { [work.attempt]: 4 },
      verdicts: { [work.attempt]: "accepted" },
    });
    expect(await fixture.logs("e1")).toEqual(["two", "three"]);
  });

  test("that hears an old request first goes on after what the former one stored", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    const line = (text: string) => ({ kind: "log" as const, text });
    await fixture.tell("one", [work, 2, line("two")]);
    await fixture.tell("one", [work, 3, line("three")], [work, 4, line("four")]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    // It was held up on its way, and sent again meanwhile.
    await fixture.tell("one", [work, 2, line("two")]);
    expect(await fixture.tell("one", [work, 5, line("five")], [work, 6, DONE])).toEqual({
      stored: { [work.attempt]: 6 },
      verdicts: { [work.attempt]: "accepted" },
    });
    expect(await fixture.logs("e1")).toEqual(["two", "three", "four", "five"]);
  });

  test("tells an attempt to stop that shows itself while its execution drains", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.restart();
    await fixture.control("e1", "cancel");
    fixture.join("one", ["w.a"]);
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "cancel" });
    await fixture.tell("one", [work, 2, { kind: "receipt", status: "cancelled" }]);
    // Others may still show themselves until the wait is over.
    expect((await fixture.status("e1")).status).toBe("cancelling");
    await fixture.clock.advance(31_000);
    expect((await fixture.status("e1")).status).toBe("cancelled");
  });

  test("passes a cancel on at once to what it has adopted, though others may still show themselves", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    await fixture.restart();
    fixture.join("one", ["w.a"]);
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "continue" });
    const claim = fixture.open("one", 0, 60_000);
    await fixture.clock.settle();
    await fixture.control("e1", "cancel");
    expect(await claim.answer).toMatchObject({ cancel: [work.attempt] });
  });

  test("that closes answers what it has stored; from then on nothing counts as stored", async () => {
    const [fixture, work] = await started({}, ["x", "y"]);
    const tokens = { [work.attempt]: work.token };
    const sent = fixture.sessions.events("one", {
      tokens,
      events: [{ attempt: work.attempt, n: 2, ...DONE }],
    });
    await fixture.engine.close();
    expect(await sent).toMatchObject({ verdicts: { [work.attempt]: "accepted" } });
    const events = [{ attempt: work.attempt, n: 2, ...DONE }];
    for (let i = 0; i < 2; i++)
      expect(await fixture.sessions.events("one", { tokens, events })).toMatchObject({ code: "not_ready" });
  });
});
