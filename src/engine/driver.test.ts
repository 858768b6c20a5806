// The driver: performs what the node asks for, backs off when the store fails, stops when it must. Virtual time.
import { describe, expect, test } from "vitest";
import { phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { parseDefinition } from "../kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import type { Beat, Grant, ReportedAttempt } from "../protocol/work.ts";
import { unwrap } from "../std/rejection.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import { type Store, StoreFault } from "../store/store.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { Engine, type WorkerLink } from "./driver.ts";

interface Rig {
  readonly engine: Engine;
  readonly clock: VirtualClock;
  readonly store: Store;
  readonly faults: Error[];
  readonly stops: Error[];
  /** Errors that the next calls of a method throw, before it does anything. */
  readonly failing: Map<keyof Store, Error[]>;
}

async function rig(tables = new MemoryTables(), clock = new VirtualClock()): Promise<Rig> {
  const failing = new Map<keyof Store, Error[]>();
  const inner = new MemoryStore(tables);
  const store = new Proxy<Store>(inner, {
    get(target, name) {
      const method = Reflect.get(target, name, target) as
        | ((...given: unknown[]) => Promise<unknown>)
        | undefined;
      // Some methods of a store are optional.
      if (method === undefined) return undefined;
      return async (...given: unknown[]) => {
        const error = failing.get(name as keyof Store)?.shift();
        if (error !== undefined) throw error;
        return Reflect.apply(method, target, given);
      };
    },
  });
  const faults: Error[] = [];
  const stops: Error[] = [];
  const engine = await Engine.open({
    store,
    clock,
    onFault: (fault) => faults.push(fault),
    onStop: (reason) => stops.push(reason),
  });
  await clock.settle();
  return { engine, clock, store, faults, stops, failing };
}

const down = () => new StoreFault("the disk is full", { retryable: true, nothingWritten: true });

async function start(
  { engine, store }: Rig,
  id: string,
  phases: unknown = [phase("a")],
): Promise<{ kind: string }> {
  const plan: Plan = compilePlan(unwrap(parseDefinition({ name: "w", phases })));
  await store.putDefinition("w", plan.hash, JSON.stringify(plan.definition));
  const message = {
    kind: "start" as const,
    execution: id,
    workflow: "w",
    hash: plan.hash,
    project: "default",
    input: "null",
    tags: {},
  };
  return (await engine.send(id, message, { plan, fresh: false })).answer;
}

describe("a store that fails", () => {
  test("for a while: commits wait, longer each time, and then go on; nobody is told wrong", async () => {
    const r = await rig();
    r.failing.set("commit", [down(), down(), down()]);
    const answer = start(r, "e1");
    await r.clock.settle();
    expect(r.faults).toHaveLength(1);
    const waits: number[] = [];
    for (let i = 0; i < 3; i++) {
      const before = r.clock.now();
      waits.push(r.clock.nextAt - before);
      await r.clock.advance(r.clock.nextAt - before);
    }
    expect(waits).toEqual([50, 100, 200]);
    expect(await answer).toMatchObject({ kind: "applied" });
    expect(r.faults).toHaveLength(3);
    expect(r.stops).toHaveLength(0);
    await r.engine.close();
  });

  test("in reading: reads are tried again until they succeed", async () => {
    const tables = new MemoryTables();
    const before = await rig(tables);
    await start(before, "e1");
    await before.engine.close();
    const r = await rig(tables);
    r.failing.set("load", [down(), down()]);
    const inspected = r.engine.inspect("e1");
    await r.clock.advance("10s");
    expect(await inspected).toMatchObject({ view: { id: "e1", status: "running" } });
    await r.engine.close();
  });

  test("for good: the engine stops and says so to everyone who waits, and to those who come later", async () => {
    const r = await rig();
    r.failing.set("commit", [new StoreFault("fsync failed", { retryable: false, nothingWritten: false })]);
    const answer = start(r, "e1");
    const inspected = r.engine.inspect("e2");
    expect(await answer).toMatchObject({ kind: "rejection", code: "not_ready" });
    expect(await inspected).toMatchObject({ kind: "rejection", code: "not_found" });
    expect(r.stops.map(({ message }) => message)).toEqual(["fsync failed"]);
    expect(await start(r, "e3")).toMatchObject({ kind: "rejection", code: "not_ready" });
  });

  test("with a bug: the engine stops, nothing is swallowed", async () => {
    const r = await rig();
    r.failing.set("commit", [new TypeError("x is not a function")]);
    await start(r, "e1");
    expect(r.stops).toHaveLength(1);
    expect(r.stops[0]).toBeInstanceOf(TypeError);
  });
});

test("another owner of the store stops the engine", async () => {
  const tables = new MemoryTables();
  const r = await rig(tables);
  tables.open();
  expect(await start(r, "e1")).toMatchObject({ kind: "rejection", code: "not_ready" });
  expect(r.stops.map(({ message }) => message)).toEqual([
    expect.stringContaining("no longer owns its store"),
  ]);
  expect(tables.load(["e1"])).toEqual([null]);
});

test("a close waits for commits that are under way, and is clean if no attempt is open", async () => {
  const tables = new MemoryTables();
  const r = await rig(tables);
  const answers = Array.from({ length: 20 }, (_, i) => start(r, `e${i}`));
  await Promise.resolve();
  await Promise.resolve();
  await r.engine.close();
  const kept = (await Promise.all(answers)).map(({ kind }, i) =>
    kind === "applied" ? tables.load([`e${i}`])[0] !== null : true,
  );
  expect(kept).toEqual(answers.map(() => true));
  expect(tables.open().owned[0]?.uncleanEpoch).toBe(0);
});

test("a close with open attempts is not clean", async () => {
  const tables = new MemoryTables();
  const r = await rig(tables);
  const grants: Grant[] = [];
  r.engine.join(
    "w1",
    { accept: (grant) => grants.push(grant), cancel: () => {} },
    { serves: [{ use: "w.a" }], capacity: 1, local: true },
  );
  await start(r, "e1");
  await r.clock.settle();
  expect(grants).toHaveLength(1);
  expect(r.engine.openLeases).toBe(1);
  await r.engine.close();
  expect(tables.open().owned[0]?.uncleanEpoch).toBe(1);
});

test("watchers are told of every commit, of the end, and of a stop", async () => {
  const r = await rig();
  const seen: [number, unknown][] = [];
  const stop = r.engine.watch("e1", (seq, end) => seen.push([seq, end]));
  r.engine.watch("e2", (seq, end) => seen.push([seq, end]));
  await start(r, "e1", [{ name: "a" }]);
  await r.clock.settle();
  expect(seen).toEqual([[4, { status: "done", output: null, view: expect.any(Function) }]]);
  stop();
  await r.engine.close();
  expect(seen.at(-1)).toEqual([-1, "stopped"]);
  expect(seen).toHaveLength(2);
});

test("an execution whose definition is gone is damaged, named, and harms nobody else", async () => {
  const tables = new MemoryTables();
  const first = await rig(tables);
  await start(first, "e1");
  await first.engine.close();
  const r = await rig(tables);
  r.failing.set("getDefinition", []);
  const broken = new Proxy<Store>(r.store, {
    get: (target, name) =>
      name === "getDefinition" ? async () => null : (Reflect.get(target, name) as unknown),
  });
  const clock = new VirtualClock();
  const faults: string[] = [];
  await r.engine.close();
  const engine = await Engine.open({ store: broken, clock, onFault: ({ message }) => faults.push(message) });
  expect(await engine.inspect("e1")).toMatchObject({
    view: { status: "damaged", damage: { table: "definitions" } },
    why: expect.stringMatching(
      / Register the definition again .* then: rondo audit --repair e1; or restore it /,
    ),
  });
  expect(faults[0]).toContain("execution e1 is damaged; other executions continue");
  const other = { engine, clock, store: broken, faults: [], stops: [], failing: new Map() };
  expect(await start(other, "e2", [{ name: "only" }])).toMatchObject({ kind: "applied" });
  await engine.close();
});

describe("what the driver does for servers and remote workers", () => {
  const KID = compilePlan(unwrap(parseDefinition({ name: "kid", phases: [phase("a")] })));
  const remote = { serves: [{ use: "w.a" }], capacity: 10, local: false };

  /** Where an attempt of a grant belongs, as reports say it. */
  function attemptOf({
    execution,
    phase: name,
    visit,
    handler,
    round,
    epoch,
    items,
  }: Grant): ReportedAttempt {
    const [{ number, attempt, claim } = { number: 0, attempt: 0, claim: 0 }] = items;
    return { execution, phase: name, visit, handler, round, epoch, task: number, attempt, claim };
  }

  /** A rig with a remote worker that has claimed the one task of "e1". */
  async function claimed(link: Partial<WorkerLink> = {}): Promise<Rig & { grants: Grant[]; lost: Beat[] }> {
    const r = await rig();
    const grants: Grant[] = [];
    const lost: Beat[] = [];
    r.engine.join(
      "w1",
      { accept: (grant) => grants.push(grant), cancel: (beats) => lost.push(...beats), ...link },
      { ...remote, asks: link.ask !== undefined },
    );
    r.engine.claim("w1", 1);
    await start(r, "e1");
    await r.clock.settle();
    return { ...r, grants, lost };
  }

  test("a child waits for its workflow until a definition is stored, and is found by its name", async () => {
    const r = await rig();
    await start(r, "e1", [{ name: "c", handlers: { c: { workflow: "kid" } } }]);
    await r.clock.settle();
    expect(await r.engine.inspect("e1")).toMatchObject({
      why: '"c" waits for a workflow: there is none with the name "kid".',
    });
    await r.store.putDefinition("kid", KID.hash, JSON.stringify(KID.definition));
    r.engine.definitionStored("kid");
    await r.clock.settle();
    const grants: Grant[] = [];
    r.engine.join(
      "w1",
      { accept: (grant) => grants.push(grant), cancel: () => {} },
      { ...remote, local: true },
    );
    await r.clock.settle();
    expect(grants.map(({ workflow }) => workflow)).toEqual(["kid"]);
    const [grant] = grants as [Grant];
    const { task, attempt, claim, ...place } = attemptOf(grant);
    const outcome = { status: "done", payload: "null" } as const;
    const receipts = [{ task, attempt, claim, ms: 1, outcome }];
    expect(await r.engine.report("w1", [{ kind: "receipts", ...place, receipts }])).toEqual([["accepted"]]);
    await r.clock.settle();
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "done" } });
    await r.engine.close();
  });

  test("watchers of logs are told after every commit with lines, until they stop", async () => {
    const r = await claimed();
    let told = 0;
    const stop = r.engine.watchLogs("e1", () => told++);
    const lines = (n: number) => [{ n, at: 1, level: "info", text: `line ${n}` }];
    const log = (n: number) =>
      r.engine.report("w1", [{ kind: "logs", ...attemptOf(r.grants[0] as Grant), lines: lines(n) }]);
    expect(await log(1)).toEqual([["accepted"]]);
    expect(told).toBe(1);
    stop();
    await log(2);
    expect(told).toBe(1);
    const rows = await r.store.readLogs({ execution: "e1", after: 0, rowsMax: 9 });
    expect(rows.flatMap((row) => row.lines.map(({ text }) => text))).toEqual(["line 1", "line 2"]);
    await r.engine.close();
  });

  test.each([true, false])(
    "a silent worker is asked, and its word counts once (it vouches: %s)",
    async (vouches) => {
      const asked: (readonly Beat[])[] = [];
      const r = await claimed({
        ask: async (beats) => {
          asked.push(beats);
          return vouches ? beats : [];
        },
      });
      const { task, attempt, claim, ...place } = attemptOf(r.grants[0] as Grant);
      await r.engine.report("w1", [{ kind: "started", ...place, attempts: [{ task, attempt, claim }] }]);
      await r.clock.advance("40s");
      expect(asked).toEqual([[{ ...place, attempts: [{ task, attempt, claim }] }]]);
      expect(r.lost).toHaveLength(vouches ? 0 : 1);
      await r.clock.advance("40s");
      expect([asked.length, r.lost.length]).toEqual([1, 1]);
      await r.engine.close();
    },
  );

  test("a purge forgets what is over, and a fault of the store is not the end", async () => {
    const r = await rig();
    await start(r, "e1", [{ name: "only" }]);
    await start(r, "e2");
    r.failing.set("purge", [down()]);
    r.engine.purge(["e1", "e2"]);
    await r.clock.settle();
    expect([r.faults.length, r.stops.length]).toEqual([1, 0]);
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "done" } });
    await r.clock.settle();
    r.engine.purge(["e1", "e2"]);
    await r.clock.settle();
    expect(await r.engine.inspect("e1")).toMatchObject({ code: "not_found" });
    expect(await r.engine.inspect("e2")).toMatchObject({ view: { status: "running" } });
    await r.engine.close();
  });

  test("a beat for what it no longer has is answered with a cancel, and a worker that left gets nothing", async () => {
    const r = await claimed();
    const { task, attempt, claim, ...place } = attemptOf(r.grants[0] as Grant);
    r.engine.beat("w1", [{ ...place, attempts: [{ task, attempt: attempt + 5, claim }] }]);
    expect(r.lost).toMatchObject([{ attempts: [{ task, attempt: attempt + 5, claim }] }]);
    r.engine.leave("w1");
    await r.clock.settle();
    expect(r.engine.overview()).toMatchObject({ workers: [], leases: 1 });
    await start(r, "e2");
    await r.clock.settle();
    expect(r.grants).toHaveLength(1);
    await r.engine.close();
  });
});

test("turns set a timer only if the node must be woken earlier than before, or if the clock has jumped", async () => {
  class CountingClock extends VirtualClock {
    timers = 0;
    jumped = 0;
    override after(ms: number, run: () => void): () => void {
      this.timers++;
      return super.after(ms, run);
    }
    stepped(): number {
      return this.jumped;
    }
  }
  const clock = new CountingClock();
  const r = await rig(new MemoryTables(), clock);
  await start(r, "e1", [{ name: "nap", handlers: { wait: { sleep: "30s" } } }]);
  await clock.settle();
  const before = clock.timers;
  const turn = async (): Promise<void> => {
    await start(r, "e1", [{ name: "nap", handlers: { wait: { sleep: "30s" } } }]);
    await clock.settle();
  };
  for (let i = 0; i < 5; i++) await turn();
  expect(clock.timers).toBe(before);
  clock.jumped = 1;
  await turn();
  expect(clock.timers).toBeGreaterThan(before);
  await clock.advance("30s");
  expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "done" } });
  await r.engine.close();
});
