// Events of remote workers: numbered, acknowledged, in order; and what tokens open.
import { describe, expect, test } from "vitest";
import type { Claimed, WireEventBody, WorkItem } from "../../src/protocol/worker-wire.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";
import { DONE, FAILED, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const first = ({ work }: Claimed) => work[0] as WorkItem;
const BIG = Number.MAX_SAFE_INTEGER;
const log = (text: string) => ({ kind: "log" as const, text });

async function claimed(tasks: readonly unknown[], more: object = {}): Promise<[SessionFixture, WorkItem[]]> {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"], 100);
  await fixture.start("e1", [tasksPhase("a", tasks, more)]);
  return [fixture, [...(await fixture.claim("one", 100)).work]];
}

describe("events are taken in order", () => {
  test("C6 the same receipt twice: the second is acknowledged, nothing is recorded twice", async () => {
    const [fixture, [a, b]] = await claimed(["x", "y"]);
    const work = a as WorkItem;
    const once = await fixture.tell("one", [work, 1, DONE]);
    expect(once.verdicts[work.attempt]).toBe("accepted");
    const twice = await fixture.tell("one", [work, 1, DONE]);
    expect([twice.stored[work.attempt], twice.verdicts[work.attempt]]).toEqual([1, "duplicate"]);
    await fixture.tell("one", [b as WorkItem, 1, DONE]);
    const settled = await fixture.events("e1", "tasks.settled");
    expect(settled.flatMap(({ tasks }) => tasks)).toEqual([0, 1]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("C6 that is so too when the first one ended the execution, and a beat of it says that it is over", async () => {
    const [fixture, [work]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    expect((await fixture.tell("one", [work, 1, DONE])).verdicts[work.attempt]).toBe("accepted");
    expect((await fixture.status("e1")).status).toBe("done");
    expect(await fixture.tell("one", [work, 1, DONE])).toEqual({
      stored: { [work.attempt]: 1 },
      verdicts: { [work.attempt]: "duplicate" },
    });
    expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "lost" });
  });

  test("a brief answer names only attempts with another verdict, or with events that are not stored", async () => {
    const [fixture, [a, b, c]] = (await claimed(["x", "y", "z"])) as [
      SessionFixture,
      [WorkItem, WorkItem, WorkItem],
    ];
    await fixture.tell("one", [a, 1, DONE]);
    const event = ({ attempt, token }: WorkItem, n: number, body: WireEventBody) => ({
      attempt,
      token,
      n,
      ...body,
    });
    const events = [event(a, 1, DONE), event(b, 1, STARTED), event(b, 2, DONE), event(c, 2, DONE)];
    const answer = fixture.sessions.events("one", { tokens: {}, events }, true);
    await fixture.clock.settle();
    expect(await answer).toEqual({
      stored: { [a.attempt]: 1, [c.attempt]: 0 },
      verdicts: { [a.attempt]: "duplicate", [c.attempt]: "gap" },
      rest: "accepted",
    });
    const wrong = { ...event(c, 1, DONE), token: a.token };
    expect(isRejection(await fixture.sessions.events("one", { tokens: {}, events: [wrong] }, true))).toBe(
      true,
    );
  });

  test("C7 two requests with the same events at the same time: both are answered after the commit, stored once", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const said = [
      [work as WorkItem, 1, STARTED],
      [work as WorkItem, 2, log("hello")],
      [work as WorkItem, 3, DONE],
    ] as const;
    const [a, b] = await Promise.all([fixture.tell("one", ...said), fixture.tell("one", ...said)]);
    expect([a.stored, b.stored]).toEqual([{ [work?.attempt ?? ""]: 3 }, { [work?.attempt ?? ""]: 3 }]);
    expect([a.verdicts, b.verdicts].map((verdicts) => verdicts[work?.attempt ?? ""])).toEqual([
      "accepted",
      "duplicate",
    ]);
    expect(await fixture.logs("e1")).toEqual(["hello"]);
  });

  test("what comes after a gap is not taken, and `stored` says so; sent again in order it is", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const a = work as WorkItem;
    const late = await fixture.tell("one", [a, 3, DONE]);
    expect([late.stored[a.attempt], late.verdicts[a.attempt]]).toEqual([0, "gap"]);
    const part = await fixture.tell("one", [a, 1, STARTED], [a, 3, DONE]);
    expect([part.stored[a.attempt], part.verdicts[a.attempt]]).toEqual([1, "gap"]);
    const whole = await fixture.tell("one", [a, 1, STARTED], [a, 2, log("x")], [a, 3, DONE]);
    expect([whole.stored[a.attempt], whole.verdicts[a.attempt]]).toEqual([3, "accepted"]);
    expect(await fixture.logs("e1")).toEqual(["x"]);
  });

  test("events of one request are taken in the order of their numbers", async () => {
    const [fixture, [work]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    const answer = await fixture.tell("one", [work, 3, DONE], [work, 2, log("hello")], [work, 1, STARTED]);
    expect(answer).toEqual({
      stored: { [work.attempt]: 3 },
      verdicts: { [work.attempt]: "accepted" },
    });
    expect(await fixture.logs("e1")).toEqual(["hello"]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("a page of a task's attempt is refused, with the reason; the attempt goes on", async () => {
    const [fixture, [work]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    const page = { kind: "page" as const, from: 0, tasks: [1] };
    expect(await fixture.send("one", [[work, 1, page]])).toMatchObject({
      code: "invalid_input",
      path: "events[0].kind",
      message: "events[0].kind: a page can only come from an enumeration (do: enumerate)",
    });
    expect((await fixture.tell("one", [work, 1, DONE])).verdicts[work.attempt]).toBe("accepted");
  });

  test("a page that leaves out tasks is not taken, and the attempt is still wanted", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.a"]);
    await fixture.start("e1", [{ name: "a", handlers: { a: { use: "w.a", enumerate: { use: "w.a" } } } }]);
    const work = first(await fixture.claim("one"));
    const page = (from: number, ...tasks: number[]) => ({ kind: "page" as const, from, tasks });
    await fixture.tell("one", [work, 1, STARTED]);
    const gap = await fixture.tell("one", [work, 2, page(5, 1, 2)]);
    expect(gap.verdicts[work.attempt]).toBe("gap");
    const right = await fixture.tell("one", [work, 3, page(0, 1, 2)]);
    expect(right.verdicts[work.attempt]).toBe("accepted");
    const total: WireEventBody = { kind: "receipt", status: "done", total: 2 };
    expect((await fixture.tell("one", [work, 4, total])).verdicts[work.attempt]).toBe("accepted");
    // Now it is over, and nobody wants it any more.
    const late = await fixture.send("one", [[work, 5, page(2, 3)]]);
    expect(isRejection(late) ? late.code : late.verdicts[work.attempt]).not.toBe("gap");
  });

  test("C13 logs, runs of words and receipts are stored as they were emitted, batched or not", async () => {
    const [fixture, [a, b]] = (await claimed(["x", "y"])) as [SessionFixture, [WorkItem, WorkItem]];
    await fixture.tell("one", [a, 1, STARTED], [a, 2, log("a1")], [b, 1, log("b1")], [a, 3, log("a2")]);
    await fixture.tell("one", [b, 2, log("b2")]);
    await fixture.tell("one", [a, 4, log("a3")], [a, 5, DONE], [b, 3, log("b3")], [b, 4, DONE]);
    const rows = await fixture.store.readLogs({ execution: "e1", after: 0, rowsMax: 100 });
    const of = (task: number) =>
      rows.filter((row) => row.task === task).flatMap(({ lines }) => lines.map(({ n, text }) => [n, text]));
    expect(of(0)).toEqual([
      [2, "a1"],
      [3, "a2"],
      [4, "a3"],
    ]);
    expect(of(1)).toEqual([
      [1, "b1"],
      [2, "b2"],
      [3, "b3"],
    ]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("receipts of one handler in one request are one event of the journal", async () => {
    const [fixture, work] = await claimed([0, 1, 2, 3, 4]);
    await fixture.tell("one", ...work.map((item) => [item, 1, DONE] as const));
    expect((await fixture.events("e1", "tasks.settled")).map(({ tasks }) => [...tasks])).toEqual([
      [0, 1, 2, 3, 4],
    ]);
  });

  test("after its receipt an attempt has nothing more to say", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const a = work as WorkItem;
    await fixture.tell("one", [a, 1, DONE], [a, 2, log("too late")]);
    expect(await fixture.logs("e1")).toEqual([]);
  });

  test("what follows a receipt is not acknowledged before the receipt is stored", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const a = work as WorkItem;
    const tokens = { [a.attempt]: a.token };
    const one = fixture.sessions.events("one", { tokens, events: [{ attempt: a.attempt, n: 1, ...DONE }] });
    const two = fixture.sessions.events("one", {
      tokens,
      events: [{ attempt: a.attempt, n: 2, ...log("late") }],
    });
    const answered: string[] = [];
    void one.then(() => answered.push("one"));
    void two.then(() => answered.push("two"));
    await Promise.resolve();
    expect(answered).toEqual([]);
    await fixture.clock.settle();
    expect(await two).toMatchObject({ stored: { [a.attempt]: 1 }, verdicts: { [a.attempt]: "duplicate" } });
    expect(answered).toEqual(["one", "two"]);
    // Sent again it is acknowledged: the attempt has nothing more to say.
    expect(await fixture.tell("one", [a, 2, log("late")])).toMatchObject({ stored: { [a.attempt]: 2 } });
    expect(await fixture.logs("e1")).toEqual([]);
  });

  test("words without numbers, by the attempt's own token, take nothing away from those with numbers", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const a = work as WorkItem;
    await fixture.tell("one", [a, 1, STARTED], [a, 2, log("one")]);
    const record = unwrap(await fixture.sessions.attempt(a.attempt, a.token));
    for (const text of ["two", "three"]) {
      const said = fixture.sessions.attemptEvents(record, [{ kind: "log", text }]);
      await fixture.clock.settle();
      expect(await said).toMatchObject({ verdicts: { [a.attempt]: "accepted" } });
    }
    const answer = await fixture.tell("one", [a, 3, log("four")], [a, 4, DONE]);
    expect(answer).toMatchObject({ stored: { [a.attempt]: 4 }, verdicts: { [a.attempt]: "accepted" } });
    expect(await fixture.logs("e1")).toEqual(["one", "two", "three", "four"]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("C12 a long line is cut with a notice, the lines after it are whole", async () => {
    const [fixture, [work]] = await claimed(["x"]);
    const a = work as WorkItem;
    await fixture.tell("one", [a, 1, log("é".repeat(9_000))], [a, 2, log("after")]);
    const [long, after] = await fixture.logs("e1");
    expect(Buffer.byteLength(long as string)).toBeLessThanOrEqual(8_192);
    expect(long).toMatch(/^é+… \[cut: \d+ bytes more\]$/);
    expect(after).toBe("after");
  });
});

describe("an enumeration over the wire", () => {
  test("comes in pages; its tasks are given out as they come, and its receipt seals it", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.list", "w.a"]);
    await fixture.start("e1", [{ name: "a", handlers: { a: { use: "w.a", enumerate: { use: "w.list" } } } }]);
    const list = first(await fixture.claim("one"));
    expect([list.do, list.number, list.use, list.task]).toEqual(["enumerate", -1, "w.list", null]);
    await fixture.tell(
      "one",
      [list, 1, STARTED],
      [list, 2, { kind: "page", from: 0, tasks: ["x", { y: 1 }] }],
    );
    const tasks = (await fixture.claim("one")).work;
    expect(tasks.map(({ task }) => task)).toEqual(["x", { y: 1 }]);
    await fixture.tell("one", ...tasks.map((task) => [task, 1, DONE] as const));
    expect((await fixture.status("e1")).status).toBe("running");
    await fixture.tell("one", [list, 3, { kind: "receipt", status: "done", total: 2 }]);
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("is not done without its total: the receipt is refused, the attempt keeps its lease", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.list", "w.a"]);
    await fixture.start("e1", [{ name: "a", handlers: { a: { use: "w.a", enumerate: { use: "w.list" } } } }]);
    const list = first(await fixture.claim("one"));
    const refusal = await fixture.tell("one", [list, 1, DONE]);
    expect(refusal).toEqual({
      stored: { [list.attempt]: 1 },
      verdicts: { [list.attempt]: "stale" },
      refused: {
        [list.attempt]: {
          n: 1,
          code: "invalid_input",
          message:
            "total: an enumeration that is done must say how many tasks there are, those of `resume` included",
          hint: "send the receipt again with `total`, as the next event",
          path: "total",
        },
      },
    });
    // The same number is the same event, also with another body.
    expect(await fixture.tell("one", [list, 1, DONE])).toEqual(refusal);
    expect(await fixture.tell("one", [list, 1, { kind: "receipt", status: "done", total: 0 }])).toEqual(
      refusal,
    );
    expect(await fixture.events("e1", "handler.enumerated")).toEqual([]);
    expect(await fixture.beat("one", list)).toEqual({ [list.attempt]: "continue" });
    expect((await fixture.status("e1")).status).toBe("running");
    await fixture.tell(
      "one",
      [list, 2, { kind: "page", from: 0, tasks: ["x"] }],
      [list, 3, { kind: "receipt", status: "done", total: 1 }],
    );
    await fixture.tell("one", [first(await fixture.claim("one")), 1, DONE]);
    expect((await fixture.status("e1")).status).toBe("done");
    expect(await fixture.events("e1", "handler.enumerated")).toMatchObject([{ total: 1 }]);
  });

  test("a second attempt is told what is there already", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.list"]);
    await fixture.start("e1", [{ name: "a", handlers: { a: { use: "w.a", enumerate: { use: "w.list" } } } }]);
    const list = first(await fixture.claim("one"));
    await fixture.tell("one", [list, 1, { kind: "page", from: 0, tasks: ["x", "y"] }], [list, 2, FAILED]);
    await fixture.clock.advance(2_000);
    const again = first(await fixture.claim("one"));
    expect([again.n, again.resume?.count, again.resume?.last]).toEqual([2, 2, "y"]);
  });
});

describe("tokens", () => {
  test("C19 a token for attempt A opens nothing of attempt B", async () => {
    const [fixture, [a, b]] = (await claimed(["x", "y"])) as [SessionFixture, [WorkItem, WorkItem]];
    const stolen = { ...b, token: a.token };
    const refused = await fixture.send("one", [
      [a, 1, STARTED],
      [stolen, 1, DONE],
    ]);
    expect(refused).toMatchObject({ code: "stale_attempt", path: `tokens.${b.attempt}` });
    expect(await fixture.sessions.attempt(b.attempt, a.token)).toMatchObject({ code: "forbidden" });
    expect(await fixture.sessions.attempt(b.attempt, null)).toMatchObject({ code: "unauthorised" });
    expect(await fixture.events("e1", "tasks.settled")).toEqual([]);
    // Nothing of the refused request was taken: the first event of A is still the next.
    expect((await fixture.tell("one", [a, 1, STARTED])).stored[a.attempt]).toBe(1);
  });

  test("C19 one for an attempt that was never given out opens nothing either", async () => {
    const [fixture, [a]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    const other = { ...a, attempt: a.attempt.replace(".0.1.0.1", ".7.1.0.1") };
    expect(isRejection(await fixture.send("one", [[other, 1, DONE]]))).toBe(true);
    expect(isRejection(await fixture.send("one", [[{ ...a, attempt: "nonsense" }, 1, DONE]]))).toBe(true);
  });

  test("C19 a claim that has lapsed has no right to start, and is told so", async () => {
    const [fixture, [a]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    fixture.join("two", ["w.a"]);
    await fixture.clock.advance(31_000);
    const b = first(await fixture.claim("two"));
    expect((await fixture.tell("two", [b, 1, STARTED])).verdicts[b.attempt]).toBe("accepted");
    expect((await fixture.tell("one", [a, 1, STARTED])).verdicts[a.attempt]).toBe("stale");
    expect((await fixture.tell("one", [a, 2, DONE])).verdicts[a.attempt]).toBe("accepted");
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("C19 after its lease a token opens nothing but its one late receipt", async () => {
    const [fixture, [a]] = (await claimed(["x"], { heartbeat: 3_000 })) as [SessionFixture, [WorkItem]];
    await fixture.tell("one", [a, 1, STARTED]);
    await fixture.clock.advance(5_000);
    expect(await fixture.events("e1", "tasks.lost")).toHaveLength(1);
    expect(await fixture.sessions.attempt(a.attempt, a.token)).toMatchObject({ code: "stale_attempt" });
    await fixture.tell("one", [a, 2, log("from the grave")], [a, 3, { kind: "step", name: "s", result: 1 }]);
    expect(await fixture.logs("e1")).toEqual([]);
    expect(await fixture.events("e1", "task.step")).toEqual([]);
    const late = await fixture.tell("one", [a, 4, FAILED]);
    expect(late.verdicts[a.attempt]).toBe("late");
    expect((await fixture.tell("one", [a, 4, FAILED])).verdicts[a.attempt]).not.toBe("accepted");
    expect((await fixture.events("e1", "tasks.late")).flatMap(({ accepted }) => accepted)).toEqual([false]);
  });
});

describe("what is wrong with a request is said, and nothing of it is taken", () => {
  test.each<[string, object, string]>([
    ["an unknown kind", { kind: "dance" }, "events[1].kind: is not a kind of event"],
    [
      "an unknown field",
      { kind: "started", by: "me" },
      "events[1].by: an event of kind started has no such field",
    ],
    ["a status that is none", { kind: "receipt", status: "fine" }, "events[1].status: must be one of"],
    ["a text that is none", { kind: "log", text: 7 }, "events[1].text: must be a text"],
    [
      "a page that is too large",
      { kind: "page", from: 0, tasks: Array(20).fill("x".repeat(60_000)) },
      "events[1].tasks: a page holds at most 1048576 characters of JSON",
    ],
    [
      "a page without tasks",
      { kind: "page", from: 0, tasks: [] },
      "events[1].tasks: must be a list of 1 to 1000",
    ],
    [
      "a suspension without a wait",
      { kind: "receipt", status: "suspended" },
      "events[1].wait: must be given with",
    ],
    ["an inherited name", { kind: "constructor" }, "events[1].kind: is not a kind of event"],
    ["no number", { kind: "started", n: 0 }, "events[1].n: must be a number from 1 to 2147483647"],
    ["half a number", { kind: "started", n: 1.5 }, "events[1].n: must be a number from 1 to 2147483647"],
    [
      "a huge number",
      { kind: "log", text: "x", n: BIG },
      "events[1].n: must be a number from 1 to 2147483647",
    ],
    ["a time that is none", { kind: "log", text: "x", at: BIG }, "events[1].at: must be a time"],
    ["half a time", { kind: "log", text: "x", at: 0.5 }, "events[1].at: must be a time"],
    ["a place that is none", { kind: "page", from: BIG, tasks: [1] }, "events[1].from: must be a number"],
    ["a total that is none", { kind: "receipt", status: "done", total: BIG }, "events[1].total: must be a"],
    [
      "a run too far",
      { kind: "run_finished", run: "r", state: 1, index: BIG },
      "events[1].index: must be the",
    ],
    [
      "a duration that is none",
      { kind: "receipt", status: "done", stats: { durationMs: BIG } },
      "events[1].stats.durationMs: must be",
    ],
    [
      "a size that is none",
      { kind: "run_finished", run: "r", state: 1, stats: { durationMs: 1, memoryBytes: BIG } },
      "events[1].stats: must hold numbers",
    ],
    [
      "half a pause",
      { kind: "receipt", status: "failed", error: { message: "x", retryAfterMs: 0.5 } },
      "events[1].error.retryAfterMs: must be",
    ],
    [
      "a time before all others",
      { kind: "receipt", status: "suspended", wait: { name: "s", untilMs: -1 } },
      "events[1].wait.untilMs: must be a time",
    ],
  ])("%s", async (_what, body, message) => {
    const [fixture, [a, b]] = (await claimed(["x", "y"])) as [SessionFixture, [WorkItem, WorkItem]];
    const refused = await fixture.send("one", [
      [a, 1, DONE],
      [b, 1, body as never],
    ]);
    expect(isRejection(refused) ? refused.message : "taken").toContain(message);
    expect(await fixture.events("e1", "tasks.settled")).toEqual([]);
  });

  test("a result that cannot be stored fails its attempt for good, as in a worker", async () => {
    const [fixture, [a]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    await fixture.tell("one", [a, 1, { kind: "receipt", status: "done", result: "x".repeat(300_000) }]);
    expect((await fixture.status("e1")).error).toMatchObject({ task: 0 });
    const [settled] = await fixture.events("e1", "tasks.settled");
    expect(settled?.payloads[0]).toContain("too_large");
  });

  test.each([-1, 0.5, 2 ** 31, BIG, "1", null])("acknowledged up to %s", async (n) => {
    const [fixture, [a]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    const refused = await fixture.send("one", [[a, 1, DONE]], { acknowledged: { [a.attempt]: n } });
    expect(refused).toMatchObject({ code: "invalid_input", path: `acknowledged.${a.attempt}` });
  });

  test.each([2 ** 31 - 1, 8_640_000_000_000_000])(
    "the largest numbers of an attempt that was taken over are stored: %s",
    async (max) => {
      const [fixture, [a, b]] = (await claimed(["x", "y"])) as [SessionFixture, [WorkItem, WorkItem]];
      await fixture.tell("one", [a, 1, STARTED], [b, 1, STARTED]);
      await fixture.restart();
      fixture.join("one", ["w.a"]);
      const n = Math.min(max, 2 ** 31 - 1);
      await fixture.tell("one", [a, n, { kind: "log", text: "last", at: max }]);
      const record = unwrap(await fixture.sessions.attempt(a.attempt, a.token));
      const said = fixture.sessions.attemptEvents(record, [
        { kind: "log", text: "more" },
        { kind: "run_finished", run: "r", state: 1, index: max },
        { kind: "receipt", status: "suspended", wait: { name: "s", forMs: max } },
      ]);
      await fixture.clock.settle();
      expect(isRejection(await said)).toBe(false);
      expect(await fixture.logs("e1")).toEqual(["last", "more"]);
      expect((await fixture.status("e1")).status).toBe("running");
    },
  );

  test("how long something is to take has a bound of its own: as long as can be", async () => {
    const [fixture, work] = await claimed([0, 1, 2, 3], { retry: { attempts: 3 } });
    const error = { name: "Error", message: "x", retryAfterMs: BIG };
    const bodies: WireEventBody[] = [
      { kind: "receipt", status: "failed", error },
      { kind: "receipt", status: "suspended", wait: { name: "s", untilMs: BIG } },
      { kind: "receipt", status: "suspended", wait: { name: "s", forMs: BIG } },
      { kind: "receipt", status: "suspended", wait: { name: "s", signal: "go", timeoutMs: BIG } },
    ];
    const answer = await fixture.tell(
      "one",
      ...work.map((item, i) => [item, 1, bodies[i] as WireEventBody] as const),
    );
    expect(Object.values(answer.verdicts)).toEqual(Array(4).fill("accepted"));
    expect((await fixture.status("e1")).phases[0]?.handlers[0]).toMatchObject({ retrying: 1, waiting: 3 });
  });

  test("a worker that is not registered", async () => {
    const [fixture, [a]] = (await claimed(["x"])) as [SessionFixture, [WorkItem]];
    expect(await fixture.send("nobody", [[a, 1, DONE]])).toMatchObject({ code: "not_found" });
  });
});
