// Damaged rows: the execution is damaged and says so; nothing else of the node is touched. Virtual time, memory store.
import { describe, expect, test } from "vitest";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { parseDefinition } from "../../kernel/definition/parse-definition.ts";
import { compilePlan } from "../../kernel/definition/plan.ts";
import { checkedEntry, type Entry } from "../../kernel/journal/journal-entry.ts";
import type { Grant } from "../../protocol/work.ts";
import { unwrap } from "../../std/rejection.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import {
  type LoadedExecution,
  type Store,
  type StoredMailboxMessage,
  StoreFault,
} from "../../store/store.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { Engine } from "../driver.ts";
import { dropDamaged } from "./damages.ts";

/** Changes that the store makes to rows when they are read. */
interface Damages {
  loaded?: (loaded: LoadedExecution) => LoadedExecution;
  letter?: (message: StoredMailboxMessage) => StoredMailboxMessage;
  /** The answers of commits are lost. */
  losesAnswers?: boolean;
}

async function open(
  tables: MemoryTables,
  damages: Damages,
  settings = {},
  lettersFrom: Promise<void> = Promise.resolve(),
) {
  const clock = new VirtualClock();
  const inner = new MemoryStore(tables);
  const store = new Proxy<Store>(inner, {
    get: (target, name) => {
      const method = Reflect.get(target, name, target) as
        | ((...given: unknown[]) => Promise<unknown>)
        | undefined;
      // Some methods of a store are optional.
      if (method === undefined) return undefined;
      return async (...given: unknown[]) => {
        const answer = await Reflect.apply(method, target, given);
        if (name === "load" && damages.loaded !== undefined)
          return (answer as (LoadedExecution | null)[]).map((one) => one && damages.loaded?.(one));
        if (name === "commit" && damages.losesAnswers === true)
          throw new StoreFault("the answer is lost", { retryable: true, nothingWritten: false });
        if (name === "scanMail") await lettersFrom;
        if (name === "scanMail" && damages.letter !== undefined)
          return (answer as StoredMailboxMessage[]).map(damages.letter);
        return answer;
      };
    },
  });
  const faults: string[] = [];
  const stops: Error[] = [];
  const engine = await Engine.open({
    store,
    clock,
    settings,
    onFault: ({ message }) => faults.push(message),
    onStop: (reason) => stops.push(reason),
  });
  await clock.settle();
  return { engine, clock, store, faults, stops };
}

type Opened = Awaited<ReturnType<typeof open>>;

async function start({ engine, store, clock }: Opened, id: string, phases: unknown = [phase("a")]) {
  const plan = compilePlan(unwrap(parseDefinition({ name: "w", phases })));
  await store.putDefinition("w", plan.hash, JSON.stringify(plan.definition));
  const message = {
    ...{ kind: "start" as const, execution: id, id: `start ${id}`, workflow: "w", hash: plan.hash },
    ...{ project: "default", input: "null", tags: {} },
  };
  const { answer } = await engine.send(id, message, { plan, fresh: false });
  await clock.settle();
  return answer;
}

const claimsOf = ({ items }: Grant) =>
  items.map(({ number, attempt, claim }) => `${number}.${attempt}.${claim}`);

const control = { id: "c1", by: "jo", reason: null };

/** One letter of a row is another one: it is found by the row's checksum, as the databases do. */
function flipped(entry: Entry, execution: string): Entry {
  return checkedEntry({ ...entry, body: entry.body.replace("phase.started", "phase.stasted") }, execution);
}

const damageOf = (id: string) => (loaded: LoadedExecution) =>
  loaded.head.id === id ? { ...loaded, entries: loaded.entries.map((entry) => flipped(entry, id)) } : loaded;

describe("a damaged row", () => {
  async function restarted(damages: Damages, settings = {}): Promise<Opened> {
    const tables = new MemoryTables();
    const first = await open(tables, {}, settings);
    await start(first, "e1");
    await start(first, "e2");
    await first.engine.close();
    return open(tables, damages, settings);
  }

  test("makes its execution damaged, in lists and views, and nothing else", async () => {
    const r = await restarted({ loaded: damageOf("e1") });
    const granted: Grant[] = [];
    const link = { accept: (grant: Grant) => void granted.push(grant), cancel: () => {} };
    r.engine.join("w1", link, { serves: [{ use: "w.a" }], capacity: 5, local: true });
    await r.clock.settle();
    expect(granted.map(({ execution }) => execution)).toEqual(["e2"]);
    expect(await r.engine.inspect("e1")).toMatchObject({
      view: { id: "e1", status: "damaged", workflow: "w", damage: { table: "journal", row: 1 } },
      why: expect.stringContaining(
        "journal row 1 of execution e1 cannot be read: the checksum of the row is wrong",
      ),
    });
    const heads = await r.store.listHeads({ status: "damaged" }, { before: null, max: 10 });
    expect(heads.map(({ id, want, finishedAt }) => [id, want, finishedAt])).toEqual([
      ["e1", "nothing", null],
    ]);
    expect(heads[0]?.error).toContain("journal row 1 of execution e1");
    expect(r.faults).toHaveLength(1);
    expect(await r.engine.inspect("e2")).toMatchObject({ view: { status: "running" } });
    expect(r.stops).toEqual([]);
  });

  test("that the store cannot read beside the journal makes its execution damaged too", async () => {
    const damage = { table: "opened", execution: "e1", row: "e1", why: "a page is lost" };
    const r = await restarted({
      loaded: (loaded) => (loaded.head.id === "e1" ? { ...loaded, entries: [], damage } : loaded),
    });
    expect(await r.engine.inspect("e1")).toMatchObject({
      view: {
        id: "e1",
        status: "damaged",
        workflow: "w",
        damage: { table: "opened", why: "a page is lost" },
      },
      why: expect.stringContaining("opened row e1 of execution e1 cannot be read: a page is lost"),
    });
    expect(await r.engine.inspect("e2")).toMatchObject({ view: { status: "running" } });
    const heads = await r.store.listHeads({ status: "damaged" }, { before: null, max: 10 });
    expect(heads.map(({ id, want }) => [id, want])).toEqual([["e1", "nothing"]]);
    expect(r.faults).toHaveLength(1);
  });

  test("has whoever wants to change the execution told what to do", async () => {
    const r = await restarted({ loaded: damageOf("e1") });
    const { answer } = await r.engine.send("e1", { kind: "cancel", ...control });
    expect(answer).toMatchObject({ code: "wrong_status", hint: expect.stringContaining("rondo drop") });
    expect(await start(r, "e1")).toMatchObject({ code: "wrong_status" });
  });

  test("that only one read finds is no damage", async () => {
    let isRead = false;
    const r = await restarted({
      loaded: (loaded) => {
        const first = !isRead && loaded.head.id === "e1";
        if (first) isRead = true;
        return first ? damageOf("e1")(loaded) : loaded;
      },
    });
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "running" } });
    expect(isRead).toBe(true);
    expect(r.faults).toEqual([]);
  });

  test("that is mended lets the execution go on, and its head says so", async () => {
    const damages: Damages = { loaded: damageOf("e1") };
    const r = await restarted(damages);
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "damaged" } });
    await r.clock.settle();
    delete damages.loaded;
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "running" } });
    await r.clock.settle();
    expect(await r.store.countHeads({})).toEqual({ running: 2 });
  });

  test("that is mended where attempts were given out: these are waited for, and not given out again under their claims", async () => {
    const damages: Damages = {};
    const r = await open(new MemoryTables(), damages, { suspectMs: 5_000 });
    const granted: Grant[] = [];
    const lost: string[] = [];
    const link = {
      accept: (grant: Grant) => void granted.push(grant),
      cancel: (_: unknown, why: string) => void lost.push(why),
    };
    r.engine.join("w1", link, { serves: [{ use: "w.a" }], capacity: 5, local: true });
    await start(r, "e1");
    expect(granted.map(claimsOf)).toEqual([["0.1.0"]]);

    damages.losesAnswers = true;
    damages.loaded = damageOf("e1");
    void r.engine.send("e1", { kind: "signal", id: "s1", signal: "x", data: "1" });
    await r.clock.settle();
    damages.losesAnswers = false;
    await r.clock.advance(100);
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "damaged" } });
    expect(lost).toEqual(["lost"]);

    delete damages.loaded;
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "running" } });
    await r.clock.advance(4_000);
    expect(granted).toHaveLength(1);
    await r.clock.advance(60_000);
    expect(granted.map(claimsOf)).toEqual([["0.1.0"], [expect.stringMatching(/^0\.1\.[1-9]/)]]);
  });

  test("of what has ended keeps the execution from being purged, until it is mended", async () => {
    const tables = new MemoryTables();
    const first = await open(tables, {});
    await start(first, "e1");
    await first.engine.send("e1", { kind: "cancel", ...control });
    await first.clock.settle();
    const ended = ({ store }: Opened) => store.listEnded({ finishedBefore: Infinity, max: 9 });
    expect(await ended(first)).toEqual(["e1"]);
    await first.engine.close();
    const damages: Damages = { loaded: damageOf("e1") };
    const r = await open(tables, damages);
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "damaged", finishedAt: null } });
    await r.clock.settle();
    expect(await ended(r)).toEqual([]);
    await r.store.purge(["e1"]);
    expect(await r.store.countHeads({})).toEqual({ damaged: 1 });
    delete damages.loaded;
    expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "cancelled" } });
    await r.clock.settle();
    expect(await ended(r)).toEqual(["e1"]);
  });

  test("in the middle leaves what is before it to be seen", async () => {
    const r = await restarted({
      loaded: (loaded) => {
        const [entry] = loaded.entries as [Entry];
        const next = { ...entry, seq: entry.seq + entry.count, damage: "it is not what was written" };
        return loaded.head.id === "e1" ? { ...loaded, entries: [entry, next] } : loaded;
      },
    });
    expect(await r.engine.inspect("e1")).toMatchObject({
      view: {
        status: "damaged",
        revision: 3,
        damage: { row: 4 },
        phases: [{ name: "a", status: "running" }],
      },
    });
  });

  test("that is missing is damage too", async () => {
    const r = await restarted({
      loaded: (loaded) => (loaded.head.id === "e1" ? { ...loaded, entries: [] } : loaded),
    });
    expect(await r.engine.inspect("e1")).toMatchObject({
      view: { damage: { row: 1, why: "it is missing" } },
    });
    expect(await r.engine.inspect("e2")).toMatchObject({ view: { status: "running" } });
  });
});

test("a damaged snapshot is passed over: the journal has everything", async () => {
  const tables = new MemoryTables();
  const first = await open(tables, {}, { snapshotRows: 1 });
  await start(first, "e1");
  for (const kind of ["pause", "resume", "pause"] as const)
    await first.engine.send("e1", { kind, ...control, id: `${kind} ${Math.random()}` });
  await first.engine.close();
  let snapshots = 0;
  const r = await open(tables, {
    loaded: (loaded) => {
      if (loaded.snapshot === null) return loaded;
      snapshots++;
      const body = loaded.snapshot.body.replace("default", "defbult");
      return { ...loaded, snapshot: { ...loaded.snapshot, body } };
    },
  });
  expect(await r.engine.inspect("e1")).toMatchObject({ view: { status: "paused", project: "default" } });
  expect(snapshots).toBeGreaterThan(0);
  expect(r.faults).toEqual([]);
});

test("a damaged letter makes its receiver damaged, and is left where it is", async () => {
  const tables = new MemoryTables();
  const first = await open(tables, {});
  await start(first, "e1");
  await start(first, "e2");
  await first.engine.close();
  tables.post([{ id: "l1", to: "e1", body: '{"kind":"child","pha' }]);
  const r = await open(tables, {});
  await r.clock.settle();
  expect(await r.engine.inspect("e1")).toMatchObject({
    view: { status: "damaged", damage: { table: "letters", row: "l1" } },
  });
  expect(await r.engine.inspect("e2")).toMatchObject({ view: { status: "running" } });
  expect(r.stops).toEqual([]);
  expect(await r.store.scanMail({ after: 0, max: 9, partitions: null })).toHaveLength(1);
  await r.engine.close();
  // The next engine must scan the mail before it treats the execution as repaired.
  let isScanned = (): void => {};
  const scanned = new Promise<void>((resolve) => {
    isScanned = resolve;
  });
  const next = await open(tables, {}, {}, scanned);
  const inspected = next.engine.inspect("e1");
  await next.clock.settle();
  expect(await next.store.countHeads({})).toEqual({ damaged: 1, running: 1 });
  isScanned();
  expect(await inspected).toMatchObject({ view: { status: "damaged", damage: { table: "letters" } } });
  await next.clock.settle();
  expect([next.faults, next.stops]).toEqual([[], []]);
  await next.engine.close();
  await finish(await open(tables, {}));
});

test("the parent of a damaged child that is dropped hears of it at once", async () => {
  const tables = new MemoryTables();
  const first = await open(tables, {});
  const child = compilePlan(unwrap(parseDefinition({ name: "kid", phases: [phase("a")] })));
  await first.store.putDefinition("kid", child.hash, JSON.stringify(child.definition));
  await start(first, "p", [{ name: "kids", handlers: { kids: { workflow: "kid" } } }]);
  const [kid] = await first.store.listHeads({ workflow: "kid" }, { before: null, max: 10 });
  const id = kid?.id ?? "";
  await first.engine.send(id, { kind: "pause", ...control });
  await first.engine.close();
  // The first row, which names the parent, is readable.
  const damage = (entry: Entry) =>
    checkedEntry({ ...entry, body: entry.body.replace("paused", "payssd") }, id);
  const loaded = (one: LoadedExecution) =>
    one.head.id === id ? { ...one, entries: one.entries.map(damage) } : one;
  const r = await open(tables, { loaded });
  const damaged = unwrap(await r.engine.inspect(id));
  expect(damaged.view.status).toBe("damaged");
  expect(await dropDamaged(r, damaged.view)).toBeNull();
  await r.clock.settle();
  expect(await r.engine.inspect("p")).toMatchObject({ view: { status: "failed" } });
});

async function finish(r: Opened): Promise<void> {
  expect(await r.store.dropDamaged("e1", null)).toBe(true);
  expect(await r.store.scanMail({ after: 0, max: 9, partitions: null })).toEqual([]);
  expect(await r.engine.inspect("e1")).toMatchObject({ code: "not_found" });
  expect(await start(r, "e1")).toMatchObject({ kind: "applied" });
}
