// Retention over a memory store, with a clock that is moved by hand.
import { describe, expect, test } from "vitest";
import { commit, endedHead, start } from "../../test/fixtures/store/example-writes.ts";
import { KEPT, number, object } from "../std/decode.ts";
import { jsonForm } from "../store/document-form.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { StoreFault } from "../store/store.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { EventLog, listEvents } from "../triggers/event-log.ts";
import { ExpiredDocuments } from "./expired-documents.ts";
import { Retention, type RetentionOptions } from "./retention.ts";

const DAY = 86_400_000;

async function world(options: Partial<RetentionOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore();
  const info = await store.open();
  const pages: number[] = [];
  const faults: Error[] = [];
  const retention = new Retention({
    clock,
    store,
    purge: async (ids) => {
      pages.push(ids.length);
      await store.purge(ids);
    },
    onFault: (fault) => faults.push(fault),
    ...options,
  });
  /** Stores executions that ended this many days before the start of the test. */
  const ended = async (days: readonly number[], prefix = "e"): Promise<void> => {
    const now = clock.now();
    const writes = days.map((ago, i) =>
      start(`${prefix}${i}`, { head: endedHead(`${prefix}${i}`, now - ago * DAY) }),
    );
    await commit(store, info, writes);
  };
  const left = async (): Promise<string[]> =>
    (await store.listHeads({}, { before: null, max: 10_000 })).map(({ id }) => id).sort();
  return { clock, store, info, retention, pages, faults, ended, left };
}

test("what ended longer ago than the retention is forgotten within a minute, what is open or younger stays", async () => {
  const { clock, store, info, retention, ended, left, pages } = await world();
  await ended([31, 29, 30.5, 1]);
  await commit(store, info, [start("open")]);
  await clock.advance("59s");
  expect(await left()).toEqual(["e0", "e1", "e2", "e3", "open"]);
  await clock.advance("1s");
  expect(await left()).toEqual(["e1", "e3", "open"]);
  await clock.advance("1d");
  expect(await left()).toEqual(["e3", "open"]);
  expect(pages).toEqual([2, 1]);
  await retention.close();
});

test.each([[0], [Number.POSITIVE_INFINITY]])(
  "a retention of %s keeps every execution, but not old events",
  async (retentionMs) => {
    const { clock, store, ended, left, retention } = await world({ retentionMs });
    await ended([10_000]);
    const at = clock.now();
    await new EventLog(store).keep({
      at,
      execution: "event~1",
      name: "n",
      id: "1",
      project: "p",
      isMatched: false,
    });
    await clock.advance("2h");
    expect(await left()).toEqual(["e0"]);
    expect((await listEvents(store, { unmatched: true, limit: 10 })).data).toEqual([]);
    await retention.close();
  },
);

test("a round does a bounded number of pages, and the next goes on soon", async () => {
  const { clock, retention, ended, left, pages } = await world({ retentionMs: DAY });
  for (let n = 0; n < 11; n++)
    await ended(
      Array.from({ length: 1_000 }, () => 2),
      `${n}-`,
    );
  await clock.advance("61s");
  expect(pages).toEqual(Array.from({ length: 20 }, () => 500));
  expect(await left()).toHaveLength(1_000);
  await clock.advance("2s");
  expect(await left()).toEqual([]);
  expect(pages).toHaveLength(22);
  await retention.close();
});

test("executions that cannot be forgotten yet are asked for again, without a storm", async () => {
  const asked: number[] = [];
  const { clock, retention, ended } = await world({ purge: (ids) => void asked.push(ids.length) });
  await ended([40, 50]);
  await clock.advance("5m");
  expect(asked).toEqual([2, 2, 2, 2, 2]);
  await ended(
    Array.from({ length: 1_000 }, () => 40),
    "many",
  );
  await clock.advance("3m");
  expect(asked.slice(5)).toEqual([500, 500]);
  await retention.close();
});

test("the audit log is kept as long as executions", async () => {
  const { clock, store, retention } = await world({ retentionMs: 2 * DAY });
  const id = (ago: number, n: number): string =>
    `${String(clock.now() - ago * DAY).padStart(15, "0")}-${String(n).padStart(6, "0")}`;
  for (let n = 0; n < 1_200; n++) await store.putDocument("audit", id(3, n), "[]");
  await store.putDocument("audit", id(1, 1), "[]");
  await store.putDocument("setting", id(3, 1), "{}");
  await clock.advance("62s");
  expect(await store.listDocuments("audit", { max: 9 })).toEqual([
    { id: expect.stringMatching(/-000001$/), body: "[]" },
  ]);
  expect(await store.listDocuments("setting", { max: 9 })).toHaveLength(1);
  await retention.close();
});

test("a fault of the store is told, and the next round does the work", async () => {
  let failures = 2;
  const { clock, retention, ended, left, faults, store } = await world({
    purge: async (ids) => {
      if (failures-- > 0) throw new StoreFault("disk full", { retryable: true, nothingWritten: true });
      await store.purge(ids);
    },
  });
  await ended([40]);
  await clock.advance("2m");
  expect(await left()).toEqual(["e0"]);
  expect(faults.map(({ message }) => message)).toEqual(["disk full", "disk full"]);
  await clock.advance("1m");
  expect(await left()).toEqual([]);
  await retention.close();
});

test("after close nothing is forgotten", async () => {
  const { clock, retention, ended, left } = await world();
  await ended([40]);
  await retention.close();
  await clock.advance("5m");
  expect(await left()).toEqual(["e0"]);
});

test("a node forgets its own, behind any number of others' that stay", async () => {
  const { clock, retention, ended, left, pages } = await world({ isMine: (id) => id.startsWith("own") });
  await ended(
    Array.from({ length: 1_700 }, () => 50),
    "others",
  );
  await ended(
    Array.from({ length: 700 }, () => 40),
    "own",
  );
  await clock.advance("70s");
  expect(pages).toEqual([500, 200]);
  expect(await left()).toHaveLength(1_700);
  await retention.close();
});

describe("definitions that are made for executions", () => {
  const generated = { prefix: "made-", includes: (name: string) => /^made-\d+$/.test(name) };
  const names = async (store: MemoryStore) =>
    (await store.listDefinitions({ after: "", max: 5_000 })).map(({ name }) => name);
  const endedOf = (id: string, workflow: string, at: number) =>
    start(id, { head: { ...endedHead(id, at), workflow } });

  test("go an hour or so after the last execution of them, whatever else there is", async () => {
    const { clock, store, info, retention } = await world({ generated });
    for (const name of ["made-1", "made-2", "made-x", "mine"])
      await store.putDefinition(name, `h ${name}`, name);
    await store.putDefinition("made-1", "h other", "other");
    await store.putDocument("replaced-definition", "made-1 h made-1", "{}");
    const now = clock.now();
    await commit(store, info, [endedOf("e1", "made-1", now - 31 * DAY), endedOf("e2", "made-2", now - DAY)]);
    await clock.advance("30m");
    expect(await names(store)).toEqual(["made-1", "made-2", "made-x", "mine"]);
    await clock.advance("2h");
    expect(await names(store)).toEqual(["made-2", "made-x", "mine"]);
    expect(await store.getDefinition({ hash: "h made-1" })).toBe(null);
    expect(await store.listDocuments("replaced-definition", { max: 9 })).toEqual([]);
    await clock.advance("31d");
    expect(await names(store)).toEqual(["made-x", "mine"]);
    await retention.close();
  });

  test("stay if somebody begins with one just when it is dropped", async () => {
    const { clock, store, info, retention } = await world({ generated });
    await store.putDefinition("made-1", "h", "body");
    const drop = store.dropDefinition.bind(store);
    store.dropDefinition = async (name, hash) => {
      await drop(name, hash);
      await commit(store, info, [endedOf("e1", "made-1", clock.now())]);
    };
    await clock.advance("3h");
    expect(await store.getDefinition({ newestOf: "made-1" })).toEqual({ hash: "h", body: "body" });
    await retention.close();
  });

  test("are looked at a few at a time, all of them in the end", async () => {
    const { clock, store, retention } = await world({ generated });
    for (let i = 0; i < 1_000; i++) await store.putDefinition(`made-${i}`, `h${i}`, "body");
    let looked = 0;
    const list = store.listHeads.bind(store);
    store.listHeads = (...args) => {
      looked++;
      return list(...args);
    };
    await clock.advance("61s");
    expect(looked).toBeLessThanOrEqual(200);
    await clock.advance("3h");
    expect(await names(store)).toEqual([]);
    await retention.close();
  });
});

test("documents that have expired are deleted within an hour; damaged ones and others stay", async () => {
  const { clock, store, retention } = await world();
  const form = jsonForm<{ until: number }>("signal-place", object({ until: number }, KEPT));
  const expired = new ExpiredDocuments({ clock, store, forms: [form], onFault: () => undefined });
  const now = clock.now();
  await store.putDocument(form.kind, "old", JSON.stringify({ until: now + 1 }));
  await store.putDocument(form.kind, "young", JSON.stringify({ until: now + 2 * DAY }));
  await store.putDocument(form.kind, "damaged", "{");
  const left = async () => (await store.listDocuments(form.kind, { max: 10 })).map(({ id }) => id);
  await clock.advance("59m");
  expect(await left()).toEqual(["damaged", "old", "young"]);
  await clock.advance("1m");
  expect(await left()).toEqual(["damaged", "young"]);
  await clock.advance("3d");
  expect(await left()).toEqual(["damaged"]);
  await expired.close();
  await retention.close();
});
