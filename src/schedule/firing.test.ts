// What fires when: due times, those that were missed, and those that come while the last execution is open.
import { describe, expect, test } from "vitest";
import { MINUTE, world } from "../../test/fixtures/server/schedule-fixture.ts";
import { reject, unwrap } from "../std/rejection.ts";

const HOURLY = { id: "hourly", workflow: "report", cron: "0 * * * *" };
const TEN = { id: "ten", workflow: "report", cron: "*/10 * * * *" };

describe("firing", () => {
  test("starts at each due time, never before, with what the schedule says", async () => {
    const { clock, engine, fired, firedAt, open } = await world();
    const schedules = await open();
    await schedules.put({ ...HOURLY, input: { a: [1] }, project: "books", tags: { kind: "scheduled" } });
    await clock.advance(60 * MINUTE - 1);
    expect(fired()).toEqual([]);
    await clock.advance(1);
    expect(fired()).toEqual(["hourly~60"]);
    await clock.advance("2h");
    expect(fired()).toEqual(["hourly~60", "hourly~120", "hourly~180"]);
    expect(firedAt()).toEqual([60, 120, 180]);
    expect(engine.started[0]).toMatchObject({
      workflow: "report",
      input: { a: [1] },
      project: "books",
      tags: { kind: "scheduled" },
    });
    expect(engine.calls).toBe(3);
  });

  test("shows how far it came, and what is next in its time zone", async () => {
    const { clock, open, beginning } = await world();
    const schedules = await open();
    await schedules.put({ ...HOURLY, cron: "30 6 * * *", timeZone: "Asia/Kathmandu" });
    await clock.advance("1d");
    const six = beginning + 45 * MINUTE;
    expect(await schedules.get("hourly")).toMatchObject({
      next: [1, 2, 3, 4, 5].map((day) => six + day * 1_440 * MINUTE),
      state: { lastDue: six, lastExecution: `hourly~${six}`, lastError: null, misfires: null, skipped: 0 },
    });
  });

  test("is tried again after faults and passing refusals, later each time, and is not lost", async () => {
    const { clock, engine, faults, fired, open } = await world();
    const schedules = await open();
    await schedules.put(HOURLY);
    const down = reject("store_unavailable", "the store is down");
    engine.troubles.push(new Error("no connection"), down, new Error("no connection"));
    await clock.advance(60 * MINUTE);
    expect(fired()).toEqual([]);
    await clock.advance("5s");
    expect(fired()).toEqual(["hourly~60"]);
    expect(faults.map(({ message }) => message)).toEqual([
      "no connection",
      "the store is down",
      "no connection",
    ]);
    expect(engine.calls).toBe(4);
  });

  test("goes on after a refusal, which is kept until a start succeeds", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const schedules = await open();
    await schedules.put(HOURLY);
    engine.troubles.push(reject("invalid_input", "input: must be an object"));
    await clock.advance("1h");
    expect(await schedules.get("hourly")).toMatchObject({
      state: {
        lastDue: null,
        lastExecution: null,
        after: beginning + 60 * MINUTE,
        lastError: {
          code: "invalid_input",
          message: "input: must be an object",
          due: beginning + 60 * MINUTE,
        },
      },
    });
    // It is found by its state, after any other schedule.
    await schedules.put({ ...HOURLY, id: "another" });
    const failing = { q: "failing", cursor: "another", limit: 5 };
    expect(unwrap(await schedules.list(failing)).data.map(({ id }) => id)).toEqual(["hourly"]);
    await schedules.remove("another");
    await clock.advance("1h");
    expect(fired()).toEqual(["hourly~120"]);
    expect(await schedules.get("hourly")).toMatchObject({ state: { lastError: null } });
    expect(unwrap(await schedules.list(failing)).data).toEqual([]);
  });

  test("tells a refusal once, until its reason is another", async () => {
    const { clock, engine, faults, open } = await world();
    const schedules = await open();
    await schedules.put(HOURLY);
    const no = reject("invalid_input", "input: must be an object");
    engine.troubles.push(no, no, reject("not_found", "there is no workflow report"), no);
    await clock.advance("4h");
    expect(faults.map(({ message }) => message)).toEqual([
      "schedule hourly could not start report: input: must be an object (invalid_input)",
      "schedule hourly could not start report: there is no workflow report (not_found)",
      "schedule hourly could not start report: input: must be an object (invalid_input)",
    ]);
  });

  test("stops when it is closed", async () => {
    const { clock, fired, open } = await world();
    const schedules = await open();
    await schedules.put(HOURLY);
    await schedules.close();
    await clock.advance("3h");
    expect(fired()).toEqual([]);
    expect(await schedules.pause("hourly")).toMatchObject({ code: "not_ready" });
  });
});

describe("due times missed while nothing ran", () => {
  test.each([
    ["fireOnce", ["ten~10", "ten~50", "ten~60"], [10, 55, 60], { missed: 4, fired: 1 }],
    ["skip", ["ten~10", "ten~60"], [10, 60], { missed: 4, fired: 0 }],
    [
      "all",
      ["ten~10", "ten~20", "ten~30", "ten~40", "ten~50", "ten~60"],
      null,
      { missed: 4, fired: 4, left: 996 },
    ],
  ])("%s", async (misfire, expected, at, misfires) => {
    const { clock, fired, firedAt, open, beginning } = await world();
    const first = await open();
    await first.put({ ...TEN, misfire });
    await clock.advance("12m");
    await first.close();
    await clock.advance("43m");
    const schedules = await open();
    await clock.advance("5m");
    expect(fired()).toEqual(expected);
    if (at !== null) expect(firedAt()).toEqual(at);
    expect(await schedules.get("ten")).toMatchObject({
      state: {
        misfires: { ...misfires, first: beginning + 20 * MINUTE, last: beginning + 50 * MINUTE },
        lastDue: beginning + 60 * MINUTE,
      },
    });
  });

  test("all: one after the other, with a pause, and at most 1,000", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const first = await open();
    await first.put({ ...TEN, cron: "* * * * *", misfire: "all" });
    await first.close();
    await clock.advance("1d");
    const schedules = await open();
    await clock.advance("50s");
    expect(fired().length).toBeLessThanOrEqual(501);
    expect(await schedules.get("ten")).toMatchObject({
      state: { misfires: { missed: 1_000, first: beginning + MINUTE, last: beginning + 1_439 * MINUTE } },
    });
    await clock.advance("55s");
    expect(fired().slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, i) => `ten~${i + 1}`));
    expect(fired().slice(1_000)).toEqual(["ten~1440", "ten~1441"]);
    const times = engine.started.map(({ at }) => at);
    expect(times.slice(1, 1_000).every((at, i) => at - (times[i] as number) >= 100)).toBe(true);
    expect(await schedules.get("ten")).toMatchObject({
      state: { dropped: 439, after: beginning + 1_441 * MINUTE },
    });
  });

  test("schedules that were not read for a while count the missed firings as missed", async () => {
    const { clock, engine, fired, open } = await world();
    const schedules = await open();
    await schedules.put({ ...TEN, cron: "* * * * *" });
    engine.troubles.push(...Array.from({ length: 15 }, () => new Error("no connection")));
    await clock.advance("8m");
    // The first is finished; of those that came meanwhile, the newest.
    const [first, second] = fired();
    expect(first).toBe("ten~1");
    expect(second).not.toBe("ten~2");
    expect(new Set(fired()).size).toBe(fired().length);
    expect(fired().at(-1)).toBe("ten~8");
  });
});

describe("while the last execution is open", () => {
  test("allow: starts beside it", async () => {
    const { clock, fired, open } = await world();
    await (await open()).put(TEN);
    await clock.advance("30m");
    expect(fired()).toEqual(["ten~10", "ten~20", "ten~30"]);
  });

  test("skip: the due time passes", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const schedules = await open();
    await schedules.put({ ...TEN, overlap: "skip" });
    await clock.advance("35m");
    expect(fired()).toEqual(["ten~10"]);
    expect(await schedules.get("ten")).toMatchObject({ state: { skipped: 2 } });
    engine.end(`ten~${beginning + 10 * MINUTE}`);
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10", "ten~40"]);
  });

  test("queue: one waits for the end, later ones pass", async () => {
    const { clock, engine, fired, firedAt, open, beginning } = await world();
    const schedules = await open();
    await schedules.put({ ...TEN, overlap: "queue" });
    await clock.advance("43m");
    expect(fired()).toEqual(["ten~10"]);
    expect(await schedules.get("ten")).toMatchObject({
      state: { queued: beginning + 20 * MINUTE, skipped: 2, after: beginning + 40 * MINUTE },
    });
    engine.end(`ten~${beginning + 10 * MINUTE}`);
    await clock.settle();
    await clock.advance(1);
    expect(fired()).toEqual(["ten~10", "ten~20"]);
    expect(firedAt()[1]).toBe(43);
    engine.end(`ten~${beginning + 20 * MINUTE}`);
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10", "ten~20", "ten~50"]);
    expect(engine.watchers.size).toBe(0);
  });

  test("queue: what waits survives a restart, also if the end came while nothing ran", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const first = await open();
    await first.put({ ...TEN, overlap: "queue", misfire: "skip" });
    await clock.advance("25m");
    await first.close();
    expect(engine.watchers.size).toBe(0);
    engine.end(`ten~${beginning + 10 * MINUTE}`);
    await clock.advance("10m");
    await open();
    await clock.advance("1m");
    expect(fired()).toEqual(["ten~10", "ten~20"]);
  });

  test("queue and all: each of those missed waits for its turn", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const first = await open();
    await first.put({ ...TEN, overlap: "queue", misfire: "all" });
    await first.close();
    await clock.advance("35m");
    const schedules = await open();
    await clock.advance("1s");
    expect(fired()).toEqual(["ten~10"]);
    for (const due of [10, 20, 30]) {
      engine.end(`ten~${beginning + due * MINUTE}`);
      await clock.advance("1s");
    }
    expect(fired()).toEqual(["ten~10", "ten~20", "ten~30"]);
    expect(await schedules.get("ten")).toMatchObject({ state: { skipped: 0, queued: null } });
  });
});
