// Values that PostgreSQL itself cannot read, one of several in each read: the others are read, and the torn one says why.
import { open } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { DamagedData } from "../../../src/kernel/journal/damage.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { StoredHead, StoreInfo } from "../../../src/store/store.ts";
import {
  commit,
  endedHead,
  entry,
  headOf,
  logRow,
  start,
  step,
} from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { MAKE_TEAR, tear } from "../../fixtures/store/torn-values.ts";

const IDS = Array.from({ length: 9 }, (_, i) => `e${i}`);
/** The one whose values are torn. */
const TORN = "e4";
/** As PostgreSQL says it. */
const WHY = /the database cannot read it.*missing chunk/;

let database: TestDatabase;
let store: PostgresStore;
let info: StoreInfo;
let schema: string;
beforeAll(async () => {
  database = await TestDatabase.make();
  await database.query(MAKE_TEAR);
}, 120_000);
afterAll(async () => {
  await database.query("DROP FUNCTION IF EXISTS public.tear");
  await database.remove();
});

beforeEach(async () => {
  schema = database.newSchema();
  store = new PostgresStore({
    ...{ url: database.url, nodeUrl: "http://node", schema, partitions: 1, leaseMs: 3_600_000 },
  });
  info = await openWhole(store);
  onTestFinished(() => store.close({ clean: false }));
  const writes = IDS.map((id) =>
    start(id, {
      entries: [entry(1), entry(2), entry(3)],
      chain: `chain-${id}-3`,
      head: headOf(id, { tags: { customer: id } }),
      mail: [{ id: `to-${id}`, to: id, body: `{"for":"${id}"}` }],
      logs: [logRow([1], { attempt: `${id}-a` }), logRow([1], { attempt: `${id}-b` })],
      deadLetters: [{ seq: 2, tasks: [1, 2] }],
    }),
  );
  await commit(store, info, writes);
});

async function damage(table: string, column: string, where: string): Promise<void> {
  const [row] = await database.query<{ torn: number }>(tear(`${schema}.${table}`, column, where));
  expect(row?.torn).toBe(1);
}

const ofTorn = () => `e = (SELECT e FROM ${schema}.executions WHERE id = '${TORN}')`;

test("a row of a journal: its execution has the rows around it, the others are loaded", async () => {
  const before = await store.load(IDS);
  await damage("journal", "body", `${ofTorn()} AND seq = 2`);
  const after = await store.load([...IDS, "nobody"]);
  expect(after[IDS.length]).toBe(null);
  for (const [i, id] of IDS.entries()) if (id !== TORN) expect(after[i]).toEqual(before[i]);
  const torn = { ...entry(2), body: "", damage: expect.stringMatching(WHY) };
  expect(after[4]).toEqual({ ...before[4], entries: [entry(1), torn, entry(3)] });
  expect(await store.readJournal({ execution: TORN, from: 1 })).toEqual([entry(1), torn, entry(3)]);
  expect(await store.readJournal({ execution: TORN, from: 3 })).toEqual([entry(3)]);
  expect(await store.readJournal({ execution: TORN, from: 2, rowsMax: 1, chains: true })).toEqual([
    { ...torn, chain: null },
  ]);
});

test("a snapshot: its execution is loaded from the whole journal", async () => {
  const snapshot = { seq: 4, foldVersion: 1, chain: `chain-${TORN}-4`, body: "snapshot" };
  await commit(store, info, [step(TORN, 3, { snapshot })]);
  expect((await store.load([TORN]))[0]).toMatchObject({ snapshot, entries: [] });
  await damage("snapshots", "body", ofTorn());
  const [, , , , torn] = await store.load(IDS);
  expect(torn).toMatchObject({ snapshot: null, entries: [entry(1), entry(2), entry(3), entry(4)] });
});

test("tags: heads are listed, scanned and loaded, the torn one without tags", async () => {
  const options = { before: null, max: 99 };
  const lists = () =>
    Promise.all([
      store.listHeads({}, options),
      store.listHeads({ workflow: "orders" }, options),
      store.listHeads({ project: "default" }, options),
      store.scanWork({ after: {}, each: 99, partitions: null }),
    ]);
  const before = await lists();
  await damage("executions", "tags", `id = '${TORN}'`);
  const expected = before.map((heads) =>
    heads.map((head) => (head.id === TORN ? { ...head, tags: {} } : head)),
  );
  expect(await lists()).toEqual(expected);
  expect(await store.headsOf(before[0].map(({ order }) => order))).toEqual(expected[0]);
  const loaded = await store.load(IDS);
  expect(loaded.map((one) => one?.head.tags)).toEqual(IDS.map((id) => (id === TORN ? {} : { customer: id })));
  expect(loaded.every((one) => one?.entries.length === 3)).toBe(true);
  // The head can be written anew.
  const head = before[0][4] as StoredHead;
  expect(head.id).toBe(TORN);
  expect(await store.putDerived({ head, timers: null, opened: null, end: 3 })).toBe(true);
  expect(await lists()).toEqual(before);
});

test("a message: it says that it is damaged, the others are delivered", async () => {
  await damage("letters", "body", `recipient = '${TORN}'`);
  const letters = await store.scanMail({ after: 0, max: 99, partitions: null });
  expect(letters.map(({ to, body, damage: why }) => [to, body, why])).toEqual(
    IDS.map((id) =>
      id === TORN ? [id, "", expect.stringMatching(WHY)] : [id, `{"for":"${id}"}`, undefined],
    ),
  );
});

test("log lines and dead letters: the others are shown", async () => {
  await damage("logs", "body", `${ofTorn()} AND attempt = '${TORN}-a'`);
  const logs = await store.readLogs({ execution: TORN, after: 0, rowsMax: 99 });
  expect(logs.map(({ attempt, lines }) => [attempt, lines[0]?.text])).toEqual([
    [`${TORN}-a`, expect.stringMatching(WHY)],
    [`${TORN}-b`, "line 1"],
  ]);
  await damage("dead_letters", "tasks", ofTorn());
  const options = { before: null, max: 99 };
  const [all, ofProject, ofExecution] = await Promise.all([
    store.listDeadLetters({}, options),
    store.listDeadLetters({ project: "default" }, options),
    store.listDeadLetters({ execution: TORN }, options),
  ]);
  const expected = [...IDS].reverse().map((id) => [id, id === TORN ? [] : [1, 2]]);
  expect(all.map(({ execution, tasks }) => [execution, tasks])).toEqual(expected);
  expect(ofProject).toEqual(all);
  expect(ofExecution.map(({ execution, tasks }) => [execution, tasks])).toEqual([[TORN, []]]);
});

test("a document is damaged, others of its kind are listed, and it can be put again", async () => {
  for (const id of IDS) await store.putDocument("schedule", id, `"${id}"`);
  await damage("documents", "body", `kind = 'schedule' AND id = '${TORN}'`);
  await expect(store.getDocument("schedule", TORN)).rejects.toThrow(DamagedData);
  const listed = await store.listDocuments("schedule", { max: 99 });
  expect(listed.map(({ id, damage: why }) => [id, why])).toEqual(
    IDS.map((id) => [id, id === TORN ? expect.stringMatching(WHY) : undefined]),
  );
  expect(await store.swapDocument("schedule", TORN, { was: `"${TORN}"`, body: `"new"` })).toBe(false);
  await store.putDocument("schedule", TORN, `"new"`);
  expect(await store.getDocument("schedule", TORN)).toBe(`"new"`);
});

test("a definition is not what was put, until it is put again", async () => {
  const body = JSON.stringify({ name: "w", filler: "x".repeat(16_000) });
  await store.putDefinition("w", "h", body);
  await damage("definitions", "body", "hash = 'h'");
  for (const by of [{ hash: "h" }, { newestOf: "w" }])
    expect(await store.getDefinition(by)).toEqual({ hash: "h", body: "" });
  const [row] = await database.query<{ n: number }>(
    `SELECT octet_length(body) AS n FROM ${schema}.definitions WHERE hash = 'h'`,
  );
  // PostgreSQL compares values of the same length only.
  const again = "x".repeat(row?.n ?? 0);
  await store.putDefinition("w", "h", again);
  expect(await store.getDefinition({ newestOf: "w" })).toEqual({ hash: "h", body: again });
});

test("torn tags stop neither the search index nor a purge", async () => {
  await damage("executions", "tags", `id = '${TORN}'`);
  await store.clearIndex();
  const behind = new PostgresStore({ url: database.url, nodeUrl: "http://other", schema, searchBehindMs: 0 });
  await behind.open();
  onTestFinished(() => behind.close({ clean: false }));
  while (await behind.indexSome());
  const found = async (term: string) =>
    (await store.findOrders({ text: term, terms: [term], ids: [], workflow: "" }, { before: 99, max: 99 }))
      .orders.length;
  expect(await found("#aaaaaaaa")).toBe(IDS.length);
  await commit(
    store,
    info,
    IDS.map((id) => step(id, 3, { head: endedHead(id, 5) })),
  );
  await store.purge(IDS);
  expect(await store.listHeads({}, { before: null, max: 99 })).toEqual([]);
  expect(await found("#aaaaaaaa")).toBe(0);
});

test("a page of heads and one of journals: those that are in them are damaged, the others are loaded", async () => {
  const server = await PostgresServer.make();
  onTestFinished(() => server.remove());
  const options = { url: server.url, nodeUrl: "http://node", partitions: 1, leaseMs: 3_600_000 };
  let own = new PostgresStore(options);
  const owned = await openWhole(own);
  // A page has room for a few of them only.
  const tags = { filler: "x".repeat(1_500) };
  const large = (id: string) =>
    start(id, { entries: [entry(1, `"${id.repeat(800)}"`)], head: headOf(id, { tags }) });
  await commit(own, owned, IDS.map(large));
  await own.close({ clean: false });
  const query = async (sql: string) => {
    const client = await TestDatabase.of(server).client();
    try {
      return (await client.query<{ id: string; file: string }>(sql)).rows;
    } finally {
      await client.end();
    }
  };
  const inPage = async (table: string, page: number) => {
    const where = `(t.ctid::text::point)[0] = ${page}`;
    const found = await query(
      `SELECT x.id FROM rondo.${table} t JOIN rondo.executions x ON x.e = t.e WHERE ${where}`,
    );
    return found.map(({ id }) => id);
  };
  const pages = { executions: 0, journal: 1 };
  const heads = await inPage("executions", pages.executions);
  const rows = await inPage("journal", pages.journal);
  const files = await query(
    "SELECT t AS id, pg_relation_filepath('rondo.' || t) AS file FROM (VALUES ('executions'), ('journal')) AS v (t)",
  );
  await server.stop("fast");
  for (const { id, file } of files) {
    const handle = await open(join(server.data, file), "r+");
    await handle.write(Buffer.alloc(64, 0xa5), 0, 64, pages[id as keyof typeof pages] * 8_192);
    await handle.close();
  }
  await server.start();
  own = new PostgresStore(options);
  await own.open();
  onTestFinished(() => own.close({ clean: false }));
  const loaded = await own.load(IDS);
  const shown = loaded.map((one) => [
    one?.head.id,
    one?.damage?.table ?? (one?.entries.some(({ damage: why }) => why !== undefined) ? "journal" : "none"),
  ]);
  expect(shown).toEqual(
    IDS.map((id) => [id, heads.includes(id) ? "executions" : rows.includes(id) ? "journal" : "none"]),
  );
  expect(new Set(shown.map(([, table]) => table))).toEqual(new Set(["executions", "journal", "none"]));
});
