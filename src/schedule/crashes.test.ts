// Schedules through crashes, faults and time without a process, at any point: whatever happens, a due time fires at
// most once, never early, and none is lost but by the policy that says so.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Clock } from "../std/clock.ts";
import { unwrap } from "../std/rejection.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { CronTimes } from "./cron-times.ts";
import { Schedules, type SchedulesOptions } from "./schedules.ts";

/** The state that survives the death of a process. */
interface World {
  readonly clock: VirtualClock;
  readonly tables: MemoryTables;
  /** Start times by execution. */
  readonly executions: Map<string, number>;
  /** How long an execution is open. */
  readonly openMs: number;
}

/** How a life goes: which of its calls fails, and at which it dies, before or after the call's effect. */
interface Life {
  readonly failing: readonly number[];
  readonly dies: number;
  readonly isAfterEffect: boolean;
  readonly upSeconds: number;
  readonly downSeconds: number;
}

/** A process: once it has died, none of its calls comes back and none of its timers rings. */
class Process {
  readonly #world: World;
  readonly #life: Life;
  #calls = 0;
  #isDead = false;
  diedAt = Number.POSITIVE_INFINITY;

  constructor(world: World, life: Life) {
    this.#world = world;
    this.#life = life;
  }

  async open(): Promise<Schedules> {
    const { executions, clock, openMs, tables } = this.#world;
    const memory = new MemoryStore(tables);
    await memory.open();
    const store: SchedulesOptions["store"] = {
      putDocument: (...args) => this.#call(() => memory.putDocument(...args)),
      getDocument: (...args) => this.#call(() => memory.getDocument(...args)),
      listDocuments: (...args) => memory.listDocuments(...args),
      getDefinition: async () => ({ hash: "", body: "{}" }),
    };
    const isOpen = (execution: string): boolean =>
      clock.now() < (executions.get(execution) ?? Number.NEGATIVE_INFINITY) + openMs;
    return Schedules.open({
      clock: this.#clock(),
      store,
      start: ({ id }) =>
        this.#call(async () => {
          if (!executions.has(id)) executions.set(id, clock.now());
          return { id };
        }),
      exists: async (execution) => executions.has(execution),
      isOpen: (execution) => this.#call(async () => isOpen(execution)),
      onEnd: (execution, ended) =>
        this.#clock().after((executions.get(execution) ?? 0) + openMs - clock.now(), ended),
    });
  }

  kill(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    this.diedAt = this.#world.clock.now();
  }

  #clock(): Clock {
    const { clock } = this.#world;
    const ifAlive = (run: () => void) => () => {
      if (!this.#isDead) run();
    };
    return {
      now: () => clock.now(),
      after: (ms, run) => clock.after(ms, ifAlive(run)),
      soon: (run) => clock.soon(ifAlive(run)),
    };
  }

  async #call<T>(effect: () => Promise<T>): Promise<T> {
    const n = ++this.#calls;
    const { dies, failing, isAfterEffect } = this.#life;
    if (this.#isDead || (n === dies && !isAfterEffect)) return this.#hang();
    if (failing.includes(n)) throw new Error("a fault");
    const result = await effect();
    return n === dies ? this.#hang() : result;
  }

  #hang<T>(): Promise<T> {
    this.kill();
    return new Promise<T>(() => undefined);
  }
}

const lives = fc.array(
  fc.record({
    failing: fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 6 }),
    dies: fc.integer({ min: 1, max: 80 }),
    isAfterEffect: fc.boolean(),
    upSeconds: fc.integer({ min: 1, max: 900 }),
    downSeconds: fc.integer({ min: 0, max: 400 }),
  }),
  { maxLength: 5 },
);
const UNBROKEN: Life = { failing: [], dies: 0, isAfterEffect: false, upSeconds: 300, downSeconds: 0 };

interface Told {
  readonly fired: Map<number, number>;
  /** When each life began and ended. */
  readonly spans: readonly (readonly [from: number, to: number])[];
  readonly createdAt: number;
  readonly end: number;
  readonly state: { readonly skipped: number; readonly queued: number | null };
}

async function live(spec: object, course: readonly Life[], openMs: number): Promise<Told> {
  const world: World = {
    clock: new VirtualClock(),
    tables: new MemoryTables(),
    executions: new Map(),
    openMs,
  };
  const { clock } = world;
  const first = await new Process(world, UNBROKEN).open();
  await first.put({ id: "s", workflow: "w", ...spec });
  await first.close();
  const createdAt = clock.now();
  const spans: [number, number][] = [];
  let state: Told["state"] | null = null;
  for (const life of [...course, UNBROKEN]) {
    const process = new Process(world, life);
    const from = clock.now();
    const schedules = await process.open();
    await clock.advance(life.upSeconds * 1_000);
    if (life === UNBROKEN) state = (unwrap(await schedules.get("s")) as { state: Told["state"] }).state;
    process.kill();
    spans.push([from, process.diedAt]);
    await clock.advance(life.downSeconds * 1_000);
  }
  const fired = new Map([...world.executions].map(([id, at]) => [Number(id.split("~")[1]), at]));
  return { fired, spans, createdAt, end: clock.now(), state: state as Told["state"] };
}

/** All due times of the course. */
function dueTimes(cron: string, from: number, to: number): number[] {
  const times = unwrap(CronTimes.parse(cron, "UTC"));
  const due: number[] = [];
  for (let at = times.next(from); at !== null && at <= to; at = times.next(at)) due.push(at);
  return due;
}

const crons = fc.constantFrom("*/7 * * * * *", "*/30 * * * * *", "* * * * *", "5,6,50 * * * * *");
const RUNS = { numRuns: 80 };

/** What holds always: only due times fire, never early, and none twice (they are the keys of a map of starts). */
function expectDueAndNotEarly(told: Told, due: readonly number[]): void {
  const known = new Set(due);
  for (const [at, startedAt] of told.fired) {
    expect(known.has(at)).toBe(true);
    expect(startedAt).toBeGreaterThanOrEqual(at);
  }
}

test("all: every due time fires", async () => {
  await fc.assert(
    fc.asyncProperty(crons, lives, async (cron, course) => {
      const told = await live({ cron, misfire: "all" }, course, 0);
      const due = dueTimes(cron, told.createdAt, told.end);
      expectDueAndNotEarly(told, due);
      expect([...told.fired.keys()].sort((a, b) => a - b)).toEqual(due);
    }),
    RUNS,
  );
});

test("fireOnce: a due time that does not fire came while nothing ran, and the newest of those fired", async () => {
  await fc.assert(
    fc.asyncProperty(crons, lives, async (cron, course) => {
      const told = await live({ cron, misfire: "fireOnce" }, course, 0);
      const due = dueTimes(cron, told.createdAt, told.end);
      expectDueAndNotEarly(told, due);
      const newestBefore = (moment: number): number => due.findLast((one) => one < moment) ?? 0;
      for (const at of due.filter((one) => !told.fired.has(one))) {
        // A later process found the due time missed and fired a newer one; no process was running to fire it in time.
        const isOutdone = told.spans.some(
          ([from]) => newestBefore(from) > at && told.fired.has(newestBefore(from)),
        );
        expect(isOutdone).toBe(true);
        expect(told.spans.some(([from, to]) => from <= at && at + 60_000 < to)).toBe(false);
      }
      const last = told.spans.at(-1) as readonly [number, number];
      if (newestBefore(last[0]) > 0) expect(told.fired.has(newestBefore(last[0]))).toBe(true);
    }),
    RUNS,
  );
});

test("skip: what came while nothing ran does not fire, all else does", async () => {
  await fc.assert(
    fc.asyncProperty(crons, lives, async (cron, course) => {
      const told = await live({ cron, misfire: "skip" }, course, 0);
      const due = dueTimes(cron, told.createdAt, told.end);
      expectDueAndNotEarly(told, due);
      for (const at of due) {
        const span = told.spans.find(([from, to]) => from <= at && at <= to);
        if (span === undefined) expect(told.fired.has(at)).toBe(false);
        else if (at + 60_000 < span[1]) expect(told.fired.has(at)).toBe(true);
      }
    }),
    RUNS,
  );
});

test("no overlap, skip or queue: never two open at a time, and what was queued fires in the end", async () => {
  await fc.assert(
    fc.asyncProperty(
      crons,
      lives,
      fc.record({
        overlap: fc.constantFrom("skip", "queue"),
        misfire: fc.constantFrom("fireOnce", "all", "skip"),
      }),
      fc.integer({ min: 1_000, max: 100_000 }),
      async (cron, course, policy, openMs) => {
        const told = await live({ cron, ...policy }, course, openMs);
        expectDueAndNotEarly(told, dueTimes(cron, told.createdAt, told.end));
        const starts = [...told.fired.values()].sort((a, b) => a - b);
        starts.forEach((at, i) => {
          if (i > 0) expect(at - (starts[i - 1] as number)).toBeGreaterThanOrEqual(openMs);
        });
        // In 300 s without faults the schedule fired; a due time that is queued now waits for the execution that is open now.
        expect(told.end - (starts.at(-1) ?? 0)).toBeLessThanOrEqual(openMs + 61_000);
        if (told.state.queued !== null) expect(told.end - (starts.at(-1) ?? 0)).toBeLessThan(openMs);
      },
    ),
    RUNS,
  );
});
