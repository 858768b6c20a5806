// Schedules over a memory store, with a clock that is moved by hand and an engine that only remembers.
import { describe, expect, test } from "vitest";
import { MINUTE, world } from "../../test/fixtures/server/schedule-fixture.ts";
import { isRejection, type RondoError, reject, unwrap } from "../std/rejection.ts";
import { checkSchedule, encode, newState } from "./schedule.ts";
import type { SchedulePage } from "./schedule-store.ts";

const HOURLY = { id: "hourly", workflow: "report", cron: "0 * * * *" };
const TEN = { id: "ten", workflow: "report", cron: "*/10 * * * *" };

describe("schedules", () => {
  test("pauses and resumes; what passed meanwhile does not fire", async () => {
    const { clock, fired, open, beginning } = await world();
    const schedules = await open();
    await schedules.put(TEN);
    await clock.advance("15m");
    expect(await schedules.pause("ten")).toMatchObject({ next: [], state: { paused: true } });
    await clock.advance("30m");
    expect(await schedules.resume("ten")).toMatchObject({
      next: [50, 60, 70, 80, 90].map((minute) => beginning + minute * MINUTE),
      state: { paused: false },
    });
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10", "ten~50"]);
  });

  test("runs one now, also when paused, and never under the id of a due time", async () => {
    const { clock, engine, open } = await world();
    const schedules = await open();
    await schedules.put({ ...TEN, overlap: "skip" });
    await schedules.pause("ten");
    const now = clock.now();
    expect(await schedules.runNow("ten")).toEqual({ execution: `ten~${now + 1}`, existed: false });
    expect(await schedules.runNow("ten")).toEqual({ execution: `ten~${now + 2}`, existed: false });
    await schedules.resume("ten");
    await clock.advance("10m");
    expect(engine.started.map(({ id }) => id)).toEqual([`ten~${now + 1}`, `ten~${now + 2}`]);
    expect(await schedules.get("ten")).toMatchObject({ state: { skipped: 1 } });
  });

  test("a start without an answer is given up, and later requests do not wait for it", async () => {
    const { clock, engine, open } = await world();
    const schedules = await open();
    await schedules.put(TEN);
    engine.troubles.push("silence");
    const silent = schedules.runNow("ten", "k").then(
      () => "started",
      (thrown: RondoError) => thrown.code,
    );
    const later = schedules.runNow("ten", "l");
    await clock.advance("30s");
    expect(await silent).toBe("timeout");
    expect(await later).toMatchObject({ existed: false });
    expect(await schedules.runNow("ten", "k")).toMatchObject({ existed: false });
    expect(engine.started).toHaveLength(2);
  });

  test("runs once for each key, and what ran last stays so when a key comes again", async () => {
    const { engine, open } = await world();
    const schedules = await open();
    await schedules.put({ ...TEN, overlap: "skip" });
    const first = await schedules.runNow("ten", "k");
    expect(first).toMatchObject({ existed: false });
    const other = await schedules.runNow("ten", "l");
    const plain = await schedules.runNow("ten");
    expect(await schedules.runNow("ten", "k")).toEqual({ ...first, existed: true });
    expect(await schedules.runNow("ten", "l")).toEqual({ ...other, existed: true });
    expect(engine.started).toHaveLength(3);
    expect(await schedules.get("ten")).toMatchObject({
      state: { lastExecution: (plain as { execution: string }).execution },
    });
  });

  test("fills a past range: one for each due time without an execution, and nothing twice", async () => {
    const { clock, engine, fired, open, beginning } = await world();
    const schedules = await open();
    await schedules.put(TEN);
    await clock.advance("20m");
    expect(fired()).toEqual(["ten~10", "ten~20"]);
    const range = { from: beginning - 30 * MINUTE, to: beginning + 15 * MINUTE };
    const wanted = { due: 5, existed: 1, missing: 4 };
    expect(await schedules.backfill("ten", { ...range, dryRun: true })).toEqual({ ...wanted, started: 0 });
    expect(engine.started).toHaveLength(2);
    expect(await schedules.backfill("ten", { ...range, dryRun: false })).toEqual({ ...wanted, started: 4 });
    expect(await schedules.backfill("ten", { ...range, dryRun: false })).toMatchObject({ started: 0 });
    expect(engine.started).toHaveLength(6);
    // The schedule itself goes on where it was.
    expect(await schedules.get("ten")).toMatchObject({ state: { lastDue: beginning + 20 * MINUTE } });
    for (const wrong of [
      { from: beginning, to: beginning + 99 * MINUTE },
      { from: beginning, to: beginning - 1 },
    ])
      expect(await schedules.backfill("ten", { ...wrong, dryRun: true })).toMatchObject({
        code: "invalid_input",
      });
    const long = { from: beginning - 10_000 * MINUTE, to: beginning, dryRun: true };
    expect(await schedules.backfill("ten", long)).toMatchObject({ code: "too_large" });
  });

  test("a run that is refused is told, and nothing is kept", async () => {
    const { engine, open } = await world();
    const schedules = await open();
    await schedules.put(TEN);
    engine.troubles.push(reject("invalid_input", "no"));
    expect(await schedules.runNow("ten")).toMatchObject({ code: "invalid_input" });
    expect(await schedules.get("ten")).toMatchObject({ state: { lastExecution: null } });
  });

  test("changes a schedule: new times begin now, other changes leave them", async () => {
    const { clock, fired, open } = await world();
    const schedules = await open();
    expect(await schedules.put(TEN)).toMatchObject({ created: true });
    await clock.advance("5m");
    expect(await schedules.put({ ...TEN, cron: "*/4 * * * *" })).toMatchObject({ created: false });
    await clock.advance("4m");
    expect(fired()).toEqual(["ten~8"]);
    await schedules.put({ ...TEN, cron: "*/4 * * * *", input: 7 });
    expect(await schedules.get("ten")).toMatchObject({
      input: 7,
      state: { lastExecution: expect.any(String) },
    });
    await clock.advance("3m");
    expect(fired()).toEqual(["ten~8", "ten~12"]);
  });

  test("removes a schedule, which then never fires", async () => {
    const { clock, fired, open } = await world();
    const schedules = await open();
    await schedules.put(TEN);
    expect(await schedules.remove("ten")).toBeNull();
    await clock.advance("1h");
    expect(fired()).toEqual([]);
    for (const refused of [
      await schedules.remove("ten"),
      await schedules.get("ten"),
      await schedules.pause("ten"),
      await schedules.resume("ten"),
      await schedules.runNow("ten"),
    ])
      expect(refused).toMatchObject({ code: "not_found" });
  });

  test("lists pages that end early where inputs are large", async () => {
    const { open } = await world();
    const schedules = await open();
    for (let n = 0; n < 12; n++)
      await schedules.put({ ...TEN, id: `s${10 + n}`, input: "x".repeat(900_000) });
    const sizes: number[] = [];
    let cursor: string | undefined;
    do {
      const page: SchedulePage = unwrap(
        await schedules.list({ limit: 1_000, ...(cursor === undefined ? {} : { cursor }) }),
      );
      sizes.push(page.data.length);
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(sizes).toEqual([5, 5, 2]);
  });

  test("lists in pages, by project and workflow", async () => {
    const { open } = await world();
    const schedules = await open();
    for (let n = 0; n < 450; n++) {
      await schedules.put({ ...TEN, id: `s${String(n).padStart(3, "0")}`, project: n % 3 === 0 ? "a" : "b" });
    }
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await schedules.list({
        project: "a",
        limit: 40,
        ...(cursor === undefined ? {} : { cursor }),
      });
      if (isRejection(page)) throw new Error(page.message);
      seen.push(...page.data.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(seen).toEqual(Array.from({ length: 150 }, (_, i) => `s${String(i * 3).padStart(3, "0")}`));
    expect(await schedules.list({ workflow: "other" })).toEqual({ data: [], next: null });
    // By words, of which each schedule contains all.
    await schedules.pause("s444");
    const idsOf = async (q: string): Promise<string[]> =>
      unwrap(await schedules.list({ q, limit: 100 })).data.map(({ id }) => id);
    expect(await idsOf("S44")).toEqual(Array.from({ length: 10 }, (_, i) => `s44${i}`));
    expect(await idsOf(" s44  PAUSED")).toEqual(["s444"]);
    expect(await idsOf("s44 failing")).toEqual([]);
    expect(await schedules.list({ limit: 0 })).toMatchObject({ code: "invalid_input", path: "limit" });
    expect(await schedules.list({ project: "?" })).toMatchObject({ code: "invalid_input", path: "project" });
  });

  test.each([
    [null, "invalid_input", "schedule"],
    [{ ...TEN, every: "5m" }, "unknown_field", "every"],
    [{ ...TEN, id: "7up" }, "invalid_input", "id"],
    [{ ...TEN, id: "a~b" }, "invalid_input", "id"],
    [{ ...TEN, id: "a".repeat(61) }, "invalid_input", "id"],
    [{ ...TEN, workflow: "no such name" }, "invalid_input", "workflow"],
    [{ ...TEN, workflow: "unknown" }, "not_found", "workflow"],
    [{ ...TEN, cron: "nonsense" }, "invalid_input", "cron"],
    [{ ...TEN, timeZone: "Nowhere" }, "invalid_input", "timeZone"],
    [{ ...TEN, misfire: "fire" }, "invalid_input", "misfire"],
    [{ ...TEN, overlap: null }, "invalid_input", "overlap"],
    [{ ...TEN, project: "a b" }, "invalid_input", "project"],
    [{ ...TEN, tags: { a: 1 } }, "invalid_input", "tags.a"],
    [{ ...TEN, input: { a: Number.NaN } }, "not_storable", "input.a"],
  ])("refuses %j", async (data, code, path) => {
    const { open } = await world();
    expect(await (await open()).put(data)).toMatchObject({ kind: "rejection", code, path });
  });

  test("an id of 60 characters makes ids of executions", async () => {
    const { clock, fired, open } = await world();
    const id = "a".repeat(60);
    await (await open()).put({ ...TEN, id });
    await clock.advance("10m");
    expect(fired()).toEqual([`${id}~10`]);
  });

  test("10,000 schedules wait with one timer, and fire together", { timeout: 120_000 }, async () => {
    const { clock, engine, open, tables, beginning } = await world();
    for (let n = 0; n < 10_000; n++) {
      const spec = unwrap(checkSchedule({ ...HOURLY, id: `s${n}`, cron: `${n % 60} 5 * * *` }));
      const times = { createdAt: beginning, updatedAt: beginning, state: newState(beginning) };
      tables.putDocument("schedule", spec.id, encode({ ...spec, ...times }));
    }
    const schedules = await open();
    await clock.advance("4h");
    expect(engine.started).toEqual([]);
    await clock.advance("2h");
    expect(engine.started).toHaveLength(10_000);
    expect(engine.started.every(({ id, at }) => id.endsWith(`~${at}`))).toBe(true);
    await schedules.close();
  });
});

describe("a damaged schedule", () => {
  const NEWER = JSON.stringify({ v: 9, id: "bad" });
  const BODIES = ['{"v":1,"id":"bad",', "null", "5", "[]", '{"v":1,"id":"bad","cron":5}', NEWER];

  test.each(BODIES)("is listed with what to do, and the others run (%s)", async (body) => {
    const { clock, fired, faults, open, tables } = await world();
    await (await open()).put(TEN);
    tables.putDocument("schedule", "bad", body);
    const schedules = await open();
    expect(faults.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^schedule bad is damaged and starts nothing: .*rondo schedules rm bad/),
    ]);
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10"]);
    expect(await schedules.list()).toMatchObject({
      data: [{ id: "ten" }],
      damaged: [{ id: "bad", hint: expect.stringContaining("create schedule bad again, or delete it") }],
    });
    expect(await schedules.list({ workflow: "report" })).not.toHaveProperty("damaged");
    for (const refused of [schedules.get("bad"), schedules.pause("bad"), schedules.runNow("bad")])
      expect(await refused).toMatchObject({ code: "wrong_status", message: expect.stringContaining("bad") });
  });

  test.each(["bad", "bad state", "bad run"])("begins anew when it is put again (%s)", async (document) => {
    const { clock, fired, open, tables } = await world();
    await (await open()).put({ ...TEN, id: "bad" });
    tables.putDocument("schedule", document, "{");
    const schedules = await open();
    await clock.advance("20m");
    expect(await schedules.get("bad")).toMatchObject({ code: "wrong_status" });
    expect(await schedules.put({ ...TEN, id: "bad" })).toMatchObject({ created: true });
    const before = fired().length;
    await clock.advance("10m");
    expect(fired().slice(before)).toEqual(["bad~30"]);
    expect(await schedules.list()).toEqual({ data: [expect.objectContaining({ id: "bad" })], next: null });
  });

  test("can be deleted", async () => {
    const { open, tables } = await world();
    const schedules = await open();
    tables.putDocument("schedule", "bad", "{");
    expect(await schedules.remove("bad")).toBeNull();
    expect(await schedules.list()).toEqual({ data: [], next: null });
    expect(await schedules.get("bad")).toMatchObject({ code: "not_found" });
  });

  test("is on one page of a list", async () => {
    const { open, tables } = await world();
    const schedules = await open();
    for (const id of ["a", "c", "e"]) await schedules.put({ ...TEN, id });
    for (const id of ["b", "d", "f"]) tables.putDocument("schedule", id, "{");
    const pages = [];
    for (let cursor: string | undefined = ""; cursor !== undefined; ) {
      const page: SchedulePage = unwrap(
        await schedules.list({ limit: 1, ...(cursor === "" ? {} : { cursor }) }),
      );
      pages.push([page.data.map(({ id }) => id), (page.damaged ?? []).map(({ id }) => id)]);
      cursor = page.next ?? undefined;
    }
    expect(pages).toEqual([
      [["a"], []],
      [["c"], ["b"]],
      [["e"], ["d", "f"]],
    ]);
  });
});
