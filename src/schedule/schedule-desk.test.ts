// The desk over a memory store, with a clock that is moved by hand and an engine that only remembers.
import { afterEach, describe, expect, test } from "vitest";
import { isRejection, type Rejection, reject, unwrap } from "../std/rejection.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { checkSchedule, encode, newState } from "./schedule.ts";
import { ScheduleDesk } from "./schedule-desk.ts";
import type { ScheduledStart, ScheduleEngine } from "./schedule-runner.ts";

const MINUTE = 60_000;

/** Executions by id, with the time of their start; those in `open` have not ended. */
class Executions implements ScheduleEngine {
  readonly started: (ScheduledStart & { readonly at: number })[] = [];
  readonly #ids = new Set<string>();
  readonly open = new Set<string>();
  readonly watchers = new Map<string, () => void>();
  /** What the next starts meet instead of success. */
  readonly troubles: (Error | Rejection)[] = [];
  calls = 0;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  async start(request: ScheduledStart): Promise<Rejection | { id: string }> {
    this.calls++;
    const trouble = this.troubles.shift();
    if (trouble instanceof Error) throw trouble;
    if (trouble !== undefined) return trouble;
    if (!this.#ids.has(request.id)) {
      this.#ids.add(request.id);
      this.started.push({ ...request, at: this.#clock.now() });
      this.open.add(request.id);
    }
    return { id: request.id };
  }

  async isOpen(execution: string): Promise<boolean> {
    return this.open.has(execution);
  }

  async exists(execution: string): Promise<boolean> {
    return this.#ids.has(execution);
  }

  onEnd(execution: string, ended: () => void): () => void {
    this.watchers.set(execution, ended);
    return () => void this.watchers.delete(execution);
  }

  end(execution: string): void {
    this.open.delete(execution);
    this.watchers.get(execution)?.();
  }
}

const opened: ScheduleDesk[] = [];
afterEach(async () => {
  for (const desk of opened.splice(0)) await desk.close();
});

async function world() {
  const clock = new VirtualClock();
  const tables = new MemoryTables();
  const engine = new Executions(clock);
  const faults: Error[] = [];
  const beginning = clock.now();
  const open = async (): Promise<ScheduleDesk> => {
    const store = new MemoryStore(tables);
    await store.open();
    await store.putDefinition("report", "hash", "{}");
    const desk = await ScheduleDesk.open({
      clock,
      store,
      start: (request) => engine.start(request),
      isOpen: (execution) => engine.isOpen(execution),
      exists: (execution) => engine.exists(execution),
      onEnd: (execution, ended) => engine.onEnd(execution, ended),
      onFault: (fault) => faults.push(fault),
    });
    opened.push(desk);
    return desk;
  };
  /** Ids of what was started, with minutes since the beginning for due times. */
  const fired = (): string[] =>
    engine.started.map(({ id }) => {
      const [schedule, due] = id.split("~");
      return `${schedule}~${(Number(due) - beginning) / MINUTE}`;
    });
  /** Minutes since the beginning at which the starts came. */
  const firedAt = (): number[] => engine.started.map(({ at }) => (at - beginning) / MINUTE);
  return { clock, engine, faults, fired, firedAt, open, beginning, tables };
}

const HOURLY = { id: "hourly", workflow: "report", cron: "0 * * * *" };
const TEN = { id: "ten", workflow: "report", cron: "*/10 * * * *" };

describe("firing", () => {
  test("starts at each due time, never before, with what the schedule says", async () => {
    const { clock, engine, fired, firedAt, open } = await world();
    const desk = await open();
    await desk.put({ ...HOURLY, input: { a: [1] }, project: "books", tags: { kind: "scheduled" } });
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
    const desk = await open();
    await desk.put({ ...HOURLY, cron: "30 6 * * *", timeZone: "Asia/Kathmandu" });
    await clock.advance("1d");
    const six = beginning + 45 * MINUTE;
    expect(await desk.get("hourly")).toMatchObject({
      next: [1, 2, 3, 4, 5].map((day) => six + day * 1_440 * MINUTE),
      state: { lastDue: six, lastExecution: `hourly~${six}`, lastError: null, misfires: null, skipped: 0 },
    });
  });

  test("is tried again after faults and passing refusals, later each time, and is not lost", async () => {
    const { clock, engine, faults, fired, open } = await world();
    const desk = await open();
    await desk.put(HOURLY);
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
    const desk = await open();
    await desk.put(HOURLY);
    engine.troubles.push(reject("invalid_input", "input: must be an object"));
    await clock.advance("1h");
    expect(await desk.get("hourly")).toMatchObject({
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
    await clock.advance("1h");
    expect(fired()).toEqual(["hourly~120"]);
    expect(await desk.get("hourly")).toMatchObject({ state: { lastError: null } });
  });

  test("stops when it is closed", async () => {
    const { clock, fired, open } = await world();
    const desk = await open();
    await desk.put(HOURLY);
    await desk.close();
    await clock.advance("3h");
    expect(fired()).toEqual([]);
    expect(await desk.pause("hourly")).toMatchObject({ code: "not_ready" });
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
    const desk = await open();
    await clock.advance("5m");
    expect(fired()).toEqual(expected);
    if (at !== null) expect(firedAt()).toEqual(at);
    expect(await desk.get("ten")).toMatchObject({
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
    const desk = await open();
    await clock.advance("50s");
    expect(fired().length).toBeLessThanOrEqual(501);
    expect(await desk.get("ten")).toMatchObject({
      state: { misfires: { missed: 1_000, first: beginning + MINUTE, last: beginning + 1_439 * MINUTE } },
    });
    await clock.advance("55s");
    expect(fired().slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, i) => `ten~${i + 1}`));
    expect(fired().slice(1_000)).toEqual(["ten~1440", "ten~1441"]);
    const times = engine.started.map(({ at }) => at);
    expect(times.slice(1, 1_000).every((at, i) => at - (times[i] as number) >= 100)).toBe(true);
    expect(await desk.get("ten")).toMatchObject({
      state: { dropped: 439, after: beginning + 1_441 * MINUTE },
    });
  });

  test("a desk that could not look for a while counts what it missed as missed", async () => {
    const { clock, engine, fired, open } = await world();
    const desk = await open();
    await desk.put({ ...TEN, cron: "* * * * *" });
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
    const desk = await open();
    await desk.put({ ...TEN, overlap: "skip" });
    await clock.advance("35m");
    expect(fired()).toEqual(["ten~10"]);
    expect(await desk.get("ten")).toMatchObject({ state: { skipped: 2 } });
    engine.end(`ten~${beginning + 10 * MINUTE}`);
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10", "ten~40"]);
  });

  test("queue: one waits for the end, later ones pass", async () => {
    const { clock, engine, fired, firedAt, open, beginning } = await world();
    const desk = await open();
    await desk.put({ ...TEN, overlap: "queue" });
    await clock.advance("43m");
    expect(fired()).toEqual(["ten~10"]);
    expect(await desk.get("ten")).toMatchObject({
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
    const desk = await open();
    await clock.advance("1s");
    expect(fired()).toEqual(["ten~10"]);
    for (const due of [10, 20, 30]) {
      engine.end(`ten~${beginning + due * MINUTE}`);
      await clock.advance("1s");
    }
    expect(fired()).toEqual(["ten~10", "ten~20", "ten~30"]);
    expect(await desk.get("ten")).toMatchObject({ state: { skipped: 0, queued: null } });
  });
});

describe("the desk", () => {
  test("pauses and resumes; what passed meanwhile does not fire", async () => {
    const { clock, fired, open, beginning } = await world();
    const desk = await open();
    await desk.put(TEN);
    await clock.advance("15m");
    expect(await desk.pause("ten")).toMatchObject({ next: [], state: { paused: true } });
    await clock.advance("30m");
    expect(await desk.resume("ten")).toMatchObject({
      next: [50, 60, 70, 80, 90].map((minute) => beginning + minute * MINUTE),
      state: { paused: false },
    });
    await clock.advance("10m");
    expect(fired()).toEqual(["ten~10", "ten~50"]);
  });

  test("runs one now, also when paused, and never under the id of a due time", async () => {
    const { clock, engine, open } = await world();
    const desk = await open();
    await desk.put({ ...TEN, overlap: "skip" });
    await desk.pause("ten");
    const now = clock.now();
    expect(await desk.runNow("ten")).toEqual({ execution: `ten~${now + 1}`, existed: false });
    expect(await desk.runNow("ten")).toEqual({ execution: `ten~${now + 2}`, existed: false });
    await desk.resume("ten");
    await clock.advance("10m");
    expect(engine.started.map(({ id }) => id)).toEqual([`ten~${now + 1}`, `ten~${now + 2}`]);
    expect(await desk.get("ten")).toMatchObject({ state: { skipped: 1 } });
  });

  test("runs once for each key, and what ran last stays so when a key comes again", async () => {
    const { engine, open } = await world();
    const desk = await open();
    await desk.put({ ...TEN, overlap: "skip" });
    const first = await desk.runNow("ten", "k");
    expect(first).toMatchObject({ existed: false });
    const other = await desk.runNow("ten", "l");
    const plain = await desk.runNow("ten");
    expect(await desk.runNow("ten", "k")).toEqual({ ...first, existed: true });
    expect(await desk.runNow("ten", "l")).toEqual({ ...other, existed: true });
    expect(engine.started).toHaveLength(3);
    expect(await desk.get("ten")).toMatchObject({
      state: { lastExecution: (plain as { execution: string }).execution },
    });
  });

  test("a run that is refused is told, and nothing is kept", async () => {
    const { engine, open } = await world();
    const desk = await open();
    await desk.put(TEN);
    engine.troubles.push(reject("invalid_input", "no"));
    expect(await desk.runNow("ten")).toMatchObject({ code: "invalid_input" });
    expect(await desk.get("ten")).toMatchObject({ state: { lastExecution: null } });
  });

  test("changes a schedule: new times begin now, other changes leave them", async () => {
    const { clock, fired, open } = await world();
    const desk = await open();
    expect(await desk.put(TEN)).toMatchObject({ created: true });
    await clock.advance("5m");
    expect(await desk.put({ ...TEN, cron: "*/4 * * * *" })).toMatchObject({ created: false });
    await clock.advance("4m");
    expect(fired()).toEqual(["ten~8"]);
    await desk.put({ ...TEN, cron: "*/4 * * * *", input: 7 });
    expect(await desk.get("ten")).toMatchObject({ input: 7, state: { lastExecution: expect.any(String) } });
    await clock.advance("3m");
    expect(fired()).toEqual(["ten~8", "ten~12"]);
  });

  test("removes a schedule, which then never fires", async () => {
    const { clock, fired, open } = await world();
    const desk = await open();
    await desk.put(TEN);
    expect(await desk.remove("ten")).toBeNull();
    await clock.advance("1h");
    expect(fired()).toEqual([]);
    for (const refused of [
      await desk.remove("ten"),
      await desk.get("ten"),
      await desk.pause("ten"),
      await desk.resume("ten"),
      await desk.runNow("ten"),
    ])
      expect(refused).toMatchObject({ code: "not_found" });
  });

  test("lists pages that end early where inputs are large", async () => {
    const { open } = await world();
    const desk = await open();
    for (let n = 0; n < 12; n++) await desk.put({ ...TEN, id: `s${10 + n}`, input: "x".repeat(900_000) });
    const sizes: number[] = [];
    let cursor: string | undefined;
    do {
      const page = unwrap(await desk.list({ limit: 1_000, ...(cursor === undefined ? {} : { cursor }) }));
      sizes.push(page.data.length);
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(sizes).toEqual([5, 5, 2]);
  });

  test("lists in pages, by project and workflow", async () => {
    const { open } = await world();
    const desk = await open();
    for (let n = 0; n < 450; n++) {
      await desk.put({ ...TEN, id: `s${String(n).padStart(3, "0")}`, project: n % 3 === 0 ? "a" : "b" });
    }
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await desk.list({ project: "a", limit: 40, ...(cursor === undefined ? {} : { cursor }) });
      if (isRejection(page)) throw new Error(page.message);
      seen.push(...page.data.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(seen).toEqual(Array.from({ length: 150 }, (_, i) => `s${String(i * 3).padStart(3, "0")}`));
    expect(await desk.list({ workflow: "other" })).toEqual({ data: [], next: null });
    expect(await desk.list({ limit: 0 })).toMatchObject({ code: "invalid_input", path: "limit" });
    expect(await desk.list({ project: "?" })).toMatchObject({ code: "invalid_input", path: "project" });
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
    const desk = await open();
    await clock.advance("4h");
    expect(engine.started).toEqual([]);
    await clock.advance("2h");
    expect(engine.started).toHaveLength(10_000);
    expect(engine.started.every(({ id, at }) => id.endsWith(`~${at}`))).toBe(true);
    await desk.close();
  });
});
