import { expect, test } from "vitest";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { AuditLog } from "./audit-log.ts";

const entry = (target: string, project: string | null = null) => ({
  who: "jo",
  role: "admin",
  action: "test",
  target,
  project,
});

async function world() {
  const store = new MemoryStore();
  await store.open();
  const clock = new VirtualClock();
  const faults: Error[] = [];
  return {
    store,
    clock,
    faults,
    log: new AuditLog({ store, clock, onFault: (fault) => void faults.push(fault) }),
  };
}

const targets = async (log: AuditLog, max = 1_000, project: string | null = null): Promise<string[]> =>
  (await log.list({ cursor: null, max, project })).data.map(({ target }) => target);

test("what comes together is stored together, and read newest first", async () => {
  const { store, clock, log } = await world();
  const noted = [1, 2, 3].map((n) => log.note(entry(`t${n}`)));
  await clock.advance(1);
  await Promise.all(noted);
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(1);
  const next = log.note(entry("t4"));
  await clock.advance(1);
  await next;
  expect(await targets(log)).toEqual(["t4", "t3", "t2", "t1"]);
});

test("pages go through documents and into them, without a gap or a repeat", async () => {
  const { clock, log } = await world();
  for (let batch = 0; batch < 7; batch++) {
    for (let n = 0; n < 5; n++) void log.note(entry(`${batch}.${n}`, n % 2 === 0 ? "books" : "music"));
    await clock.advance(10);
  }
  for (const project of [null, "books"]) {
    const all = await targets(log, 1_000, project);
    expect(all).toHaveLength(project === null ? 35 : 21);
    const found: string[] = [];
    for (let cursor: string | null = null; ; ) {
      const page = await log.list({ cursor, max: 4, project });
      found.push(...page.data.map(({ target }) => target));
      cursor = page.next;
      if (cursor === null) break;
    }
    expect(found).toEqual(all);
  }
});

test("what the store refuses is told, kept, and stored later", async () => {
  const { store, clock, log, faults } = await world();
  const { putDocument } = store;
  store.putDocument = () => Promise.reject(new Error("disk full"));
  const first = log.note(entry("a"));
  await clock.advance(1);
  await first;
  expect(faults).toHaveLength(1);
  store.putDocument = putDocument;
  await clock.advance(2_000);
  expect(await targets(log)).toEqual(["a"]);
});

test("entries that no request waits for are gathered into one document, and a list has them at once", async () => {
  const { store, clock, log } = await world();
  for (const target of ["a", "b"]) {
    log.noteLater(entry(target));
    await clock.advance(10);
  }
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(0);
  const listed = targets(log);
  await clock.advance(0);
  expect(await listed).toEqual(["b", "a"]);
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(1);
  log.noteLater(entry("c"));
  await clock.advance(100);
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(2);
});

test("a full batch of entries does not wait for more", async () => {
  const { store, clock, log } = await world();
  for (let n = 0; n < 500; n++) log.noteLater(entry(`${n}`));
  await clock.advance(1);
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(1);
});

test("gathered entries that the store refuses are stored later", async () => {
  const { store, clock, log, faults } = await world();
  const { putDocument } = store;
  store.putDocument = () => Promise.reject(new Error("disk full"));
  log.noteLater(entry("a"));
  await clock.advance(200);
  expect(faults).toHaveLength(1);
  store.putDocument = putDocument;
  await clock.advance(1_000);
  expect(await store.listDocuments("audit", { max: 10 })).toHaveLength(1);
});

test("closing stores what is left", async () => {
  const { clock, log } = await world();
  void log.note(entry("a"));
  const closing = log.close();
  await clock.advance(1);
  await closing;
  expect(await targets(log)).toEqual(["a"]);
});
