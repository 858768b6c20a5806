// The schedules of several nodes over one store: the owner of a schedule fires it, and every node can change it.
import { afterEach, describe, expect, test } from "vitest";
import { isRejection, unwrap } from "../std/rejection.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import type { ScheduledStart } from "./schedule-runner.ts";
import type { SchedulePage } from "./schedule-store.ts";
import { Schedules } from "./schedules.ts";

const MINUTE = 60_000;
const TEN = { id: "ten", workflow: "report", cron: "*/10 * * * *" };

const opened: Schedules[] = [];
afterEach(async () => {
  for (const schedules of opened.splice(0)) await schedules.close();
});

async function world() {
  const clock = new VirtualClock();
  const store = new MemoryStore();
  await store.open();
  await store.putDefinition("report", "hash", "{}");
  const beginning = clock.now();
  /** Every start that was asked for, with the node that asked. */
  const asked: string[] = [];
  const existing = new Set<string>();
  const open = new Set<string>();
  const owner = { name: "b" };
  const listeners = new Set<() => void>();
  const faults: Error[] = [];
  /** Documents that were written, with the node that wrote each. */
  const writes: string[] = [];
  /** What happens while a start is under way. */
  const meanwhile: (() => Promise<unknown> | void)[] = [];
  const nameOf = (id: string): string =>
    id.replace(/~(\d+)$/, (_, due: string) => `~${(Number(due) - beginning) / MINUTE}`);
  const node = async (name: string): Promise<Schedules> => {
    const schedules = await Schedules.open({
      clock,
      store: {
        getDocument: (...document) => store.getDocument(...document),
        listDocuments: (...query) => store.listDocuments(...query),
        getDefinition: (by) => store.getDefinition(by),
        putDocument: (kind, id, body) => {
          writes.push(`${name} ${id}`);
          return store.putDocument(kind, id, body);
        },
      },
      isMine: () => owner.name === name,
      onMoved: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      start: async ({ id }: ScheduledStart) => {
        asked.push(`${name} ${nameOf(id)}`);
        await meanwhile.shift()?.();
        existing.add(id);
        open.add(id);
        return { id };
      },
      isOpen: async (id) => open.has(id),
      exists: async (id) => existing.has(id),
      onEnd: () => () => undefined,
      onFault: (fault) => void faults.push(fault),
    });
    opened.push(schedules);
    return schedules;
  };
  const move = (to: string): void => {
    owner.name = to;
    for (const listener of listeners) listener();
  };
  const [a, b] = [await node("a"), await node("b")];
  return { clock, store, asked, open, faults, meanwhile, move, writes, a, b };
}

describe("a schedule", () => {
  test("put at one node is fired once, by the node that has it", async () => {
    const { clock, a, b, asked } = await world();
    await a.put(TEN);
    await clock.advance("30m");
    expect(asked).toEqual(["b ten~10", "b ten~20", "b ten~30"]);
    for (const schedules of [a, b])
      expect(await schedules.get("ten")).toMatchObject({ state: { paused: false } });
    expect(await a.list()).toEqual(await b.list());
  });

  test("is changed, paused, resumed and removed at any node, and its owner knows within seconds", async () => {
    const { clock, a, b, asked } = await world();
    await a.put(TEN);
    await clock.advance("10m");
    await a.put({ ...TEN, cron: "*/3 * * * *" });
    await clock.advance("5m");
    expect(asked).toEqual(["b ten~10", "b ten~12", "b ten~15"]);
    await a.pause("ten");
    await clock.advance("15m");
    expect(asked).toHaveLength(3);
    await a.resume("ten");
    await clock.advance("3m");
    expect(asked.slice(3)).toEqual(["b ten~33"]);
    expect(await a.remove("ten")).toBeNull();
    await clock.advance("1h");
    expect(asked).toHaveLength(4);
    expect(isRejection(await b.get("ten"))).toBe(true);
    // A schedule that is created again has no history.
    await a.put(TEN);
    expect(await b.get("ten")).toMatchObject({ state: { lastDue: null, lastExecution: null } });
    await clock.advance("10m");
    expect(asked.slice(4)).toEqual(["b ten~100"]);
  });

  test("that is paused at one node while another fires it stays paused", async () => {
    const { clock, a, b, asked, meanwhile } = await world();
    await a.put({ ...TEN, overlap: "queue" });
    meanwhile.push(() => a.pause("ten"));
    await clock.advance("30m");
    expect(asked).toEqual(["b ten~10"]);
    for (const schedules of [a, b])
      expect(await schedules.get("ten")).toMatchObject({ next: [], state: { paused: true, starting: null } });
  });

  test("is fired by its new owner at once when it moves, with what was missed by the rule", async () => {
    const { clock, a, asked, move, meanwhile, writes } = await world();
    await a.put(TEN);
    await a.put({ ...TEN, id: "all", misfire: "all" });
    await clock.advance("10m");
    // For a while, no node owns the schedules.
    move("");
    await clock.advance("35m");
    expect(asked.toSorted()).toEqual(["b all~10", "b ten~10"]);
    move("a");
    await clock.advance("1s");
    expect(asked.slice(2).toSorted()).toEqual(["a all~20", "a all~30", "a all~40", "a ten~40"]);
    // If a schedule moves while it fires, the new owner records the firing; the former owner writes nothing any more.
    const written = writes.length;
    meanwhile.push(() => move("b"));
    await clock.advance("5m");
    expect(asked.slice(6).toSorted()).toEqual(["a all~50", "a ten~50", "b all~50", "b ten~50"]);
    expect(writes.slice(written).toSorted()).toEqual(["b all state", "b ten state"]);
  });

  test("a short absence is no misfire: what came due meanwhile fires, late", async () => {
    const { clock, a, asked, move } = await world();
    await a.put({ ...TEN, misfire: "skip" });
    await clock.advance("595s");
    move("");
    await clock.advance("15s");
    move("a");
    await clock.advance("1s");
    expect(asked).toEqual(["a ten~10"]);
  });
});

describe("a run by hand", () => {
  test("works at any node, is seen at all, and no due time overlaps with it", async () => {
    const { clock, a, b, asked, open } = await world();
    await a.put({ ...TEN, overlap: "skip" });
    await clock.advance("9m");
    const { execution } = unwrap(await a.runNow("ten"));
    expect(execution).toMatch(/^ten~\d+-[0-9a-z]+$/);
    expect(await b.get("ten")).toMatchObject({ state: { lastExecution: execution } });
    await clock.advance("2m");
    expect(asked).toEqual([`a ${execution}`]);
    expect(await a.get("ten")).toMatchObject({ state: { skipped: 1, lastExecution: execution } });
    open.clear();
    await clock.advance("9m");
    expect(asked.slice(1)).toEqual(["b ten~20"]);
    expect(await a.get("ten")).toMatchObject({
      state: { lastExecution: expect.stringMatching(/^ten~\d+$/) },
    });
  });

  test("under one key is started once, whichever node is asked", async () => {
    const { a, b, asked } = await world();
    await a.put(TEN);
    const first = unwrap(await a.runNow("ten", "k"));
    expect(await b.runNow("ten", "k")).toEqual({ ...first, existed: true });
    expect(asked).toHaveLength(1);
  });
});

test("many schedules are found behind each other, with what belongs to each", async () => {
  const { clock, a, b, asked } = await world();
  const ids = Array.from({ length: 450 }, (_, i) => `s${String(i).padStart(3, "0")}`);
  for (const id of ids) await a.put({ ...TEN, id });
  await a.put({ ...TEN, id: "s001-more" });
  await clock.advance("10m");
  expect(new Set(asked).size).toBe(451);
  const found: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: SchedulePage = unwrap(await b.list({ limit: 99, ...(cursor === "" ? {} : { cursor }) }));
    found.push(...page.data.filter(({ state }) => state.lastDue !== null).map(({ id }) => id));
    cursor = page.next;
  }
  expect(found).toEqual([...ids, "s001-more"].sort());
});

test("a store that fails while others are looked for is asked again", async () => {
  const { clock, store, a, asked, faults } = await world();
  const read = store.getDocument.bind(store);
  await a.put(TEN);
  store.getDocument = async () => {
    throw new Error("no store");
  };
  await clock.advance("5s");
  store.getDocument = read;
  expect(faults.length).toBeGreaterThan(0);
  await clock.advance("10m");
  expect(asked).toEqual(["b ten~10"]);
});
