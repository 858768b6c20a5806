// Every kind of state store keeps the same promises, against the real thing: a database, Redis, HTTP.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { EmbeddedState } from "../../../src/commands/state/embedded-state.ts";
import { HttpState } from "../../../src/commands/state/http-state.ts";
import { PostgresState } from "../../../src/commands/state/postgres-state.ts";
import { RedisState } from "../../../src/commands/state/redis-state.ts";
import type { NewEntry, StatePlace, StateStore } from "../../../src/commands/state/state-store.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { DaprStub } from "../../fixtures/broker/dapr-stub-fixture.ts";
import { RedisServer } from "../../fixtures/broker/redis-server-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

let database: TestDatabase;
let redis: RedisServer;
let dapr: DaprStub;
beforeAll(async () => {
  [database, redis, dapr] = await Promise.all([TestDatabase.make(), RedisServer.make(), DaprStub.make()]);
}, 120_000);
afterAll(async () => {
  dapr?.close();
  await Promise.all([database?.remove(), redis?.remove()]);
});

const faults: Error[] = [];
const onFault = (fault: Error): void => void faults.push(fault);
const CALL = { timeoutMs: 60_000 };
let places = 0;
const newPlace = (): StatePlace => ({ store: `store-${++places}`, key: "project-x", partition: "p" });
const entry = (at: number, execution: string, more: Partial<NewEntry> & { seq?: number } = {}): NewEntry => ({
  value: JSON.stringify({ at, execution }),
  project: "project-x",
  version: { at, execution, seq: more.seq ?? 5 },
  ...more,
});

async function embedded(store: Store): Promise<StateStore> {
  await store.open();
  onTestFinished(() => store.close({ clean: true }));
  return new EmbeddedState(store);
}
const kinds: [kind: string, make: () => StateStore | Promise<StateStore>][] = [
  ["embedded in memory", () => embedded(new MemoryStore())],
  ["embedded in a directory", () => embedded(openSqliteStore({ directory: temporaryDirectory() }))],
  [
    "embedded in a database",
    () => {
      const schema = database.newSchema();
      return embedded(new PostgresStore({ url: database.url, schema, nodeUrl: "http://state.invalid" }));
    },
  ],
  [
    "postgres",
    () =>
      new PostgresState(
        { kind: "postgres", url: database.url, table: `public.state_${process.pid}` },
        onFault,
      ),
  ],
  ["redis", () => new RedisState({ kind: "redis", url: redis.url }, onFault)],
  ["http", () => new HttpState({ kind: "http", url: dapr.url }, "statestore")],
];

describe.each(kinds)("a state store, %s,", (kind, make) => {
  async function open(): Promise<StateStore> {
    const store = await make();
    onTestFinished(() => store.close());
    return store;
  }

  test("gives back what was put, each place for itself", async () => {
    const store = await open();
    const base = newPlace();
    // Behind HTTP a store is named by the configuration, not by the place.
    const others = kind === "http" ? [] : [{ ...base, store: `${base.store}x` }];
    const all = [
      base,
      { ...base, partition: null },
      { ...base, partition: "q:r" },
      { ...base, partition: "q", key: "r:project-x" },
      { ...base, key: 'odd / ? # % " \\ : é \u{1F600}' },
      { ...base, key: "k".repeat(500), partition: "p".repeat(500) },
      { ...base, key: `${"k".repeat(499)}l`, partition: "p".repeat(500) },
      ...others,
    ].map((place, i) => ({ ...place, ...(kind === "http" ? { key: `${base.store} ${place.key}` } : {}), i }));
    for (const { i, ...place } of all) {
      expect(await store.get(place, CALL)).toBeNull();
      expect(await store.put(place, entry(i, "e"), CALL)).toBe("stored");
    }
    for (const { i, ...place } of all)
      expect(await store.get(place, CALL)).toEqual({
        value: JSON.stringify({ at: i, execution: "e" }),
        project: "project-x",
        version: { at: i, execution: "e", seq: 5 },
      });
  });

  test.each(["null", "[1,2]", '"text"', "{}", '{"a":{"b":[null,true,1.5,"\\u0000 é \\ud83d\\ude00"]}}'])(
    "keeps the value %s",
    async (value) => {
      const store = await open();
      const place = { ...newPlace(), key: `value ${value}`.slice(0, 20) };
      await store.put(place, entry(1, "e", { value }), CALL);
      const found = await store.get(place, CALL);
      expect(JSON.parse(found?.value ?? "missing")).toEqual(JSON.parse(value));
    },
  );

  test("is not changed by a repeat, nor by a write that is older", async () => {
    const store = await open();
    const place = { ...newPlace(), key: "order" };
    const put = (at: number, execution: string, seq: number) =>
      store.put(place, entry(at, execution, { seq, value: JSON.stringify([at, execution, seq]) }), CALL);
    expect(await put(10, "b", 7)).toBe("stored");
    expect(await put(10, "b", 7)).toBe("same");
    expect(await put(9, "c", 99)).toBe("newer");
    expect(await put(10, "a", 99)).toBe("newer");
    expect(await put(10, "b", 6)).toBe("newer");
    // Bytewise: "B" is before "b", "b-" after "b", whatever a language says.
    expect(await put(10, "B", 8)).toBe("newer");
    expect((await store.get(place, CALL))?.value).toBe('[10,"b",7]');
    expect(await put(10, "b", 100)).toBe("stored");
    expect(await put(10, "b", 20)).toBe("newer");
    expect(await put(10, "c", 1)).toBe("stored");
    expect(await put(1_794_700_800_000, "a", 1)).toBe("stored");
    expect(await put(999, "z", 1)).toBe("newer");
    expect((await store.get(place, CALL))?.version).toEqual({
      at: 1_794_700_800_000,
      execution: "a",
      seq: 1,
    });
  });

  test("keeps what belongs to another project", async () => {
    const store = await open();
    const place = { ...newPlace(), key: "foreign" };
    await store.put(place, entry(1, "a"), CALL);
    expect(await store.put(place, entry(2, "b", { project: "project-y" }), CALL)).toBe("foreign");
    expect(await store.get(place, CALL)).toMatchObject({ project: "project-x", version: { at: 1 } });
  });

  test("ends with the newest of many writes at the same time", async () => {
    const store = await open();
    const place = { ...newPlace(), key: "many" };
    const order = [3, 7, 1, 8, 2, 6, 4, 5];
    const verdicts = await Promise.all(order.map((at) => store.put(place, entry(at, "e"), CALL)));
    expect(new Set(verdicts).size).toBeLessThanOrEqual(2);
    expect(verdicts[order.indexOf(8)]).toBe("stored");
    expect((await store.get(place, CALL))?.version?.at).toBe(8);
  });
});

describe("postgres", () => {
  test("makes its table once, however many begin, and leaves values that people can read", async () => {
    const table = `made_${process.pid}`;
    const stores = Array.from(
      { length: 4 },
      () => new PostgresState({ kind: "postgres", url: database.url, table }, onFault),
    );
    onTestFinished(async () => {
      for (const store of stores) await store.close();
      await database.query(`DROP TABLE ${table}`);
    });
    const place = { store: "s", key: "k", partition: null };
    await Promise.all(stores.map((store, i) => store.put(place, entry(i, "e"), CALL)));
    expect(await database.query(`SELECT value::json->>'at' AS at, execution FROM ${table}`)).toEqual([
      { at: "3", execution: "e" },
    ]);
  });

  test("whose table is taken away makes it again with the next try", async () => {
    const table = `taken_${process.pid}`;
    const store = new PostgresState({ kind: "postgres", url: database.url, table }, onFault);
    onTestFinished(() => store.close());
    await store.put(newPlace(), entry(1, "e"), CALL);
    await database.query(`DROP TABLE ${table}`);
    await expect(store.put(newPlace(), entry(2, "e"), CALL)).rejects.toMatchObject({ code: "42P01" });
    expect(await store.put(newPlace(), entry(2, "e"), CALL)).toBe("stored");
    await database.query(`DROP TABLE ${table}`);
  });

  test("that cannot be reached is a fault", async () => {
    const store = new PostgresState({ kind: "postgres", url: "postgres://x@127.0.0.1:1/x" }, onFault);
    onTestFinished(() => store.close());
    await expect(store.get(newPlace(), CALL)).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});

describe("redis", () => {
  test("that is killed is a fault, and is found again when it is back, with what it had", async () => {
    const own = await RedisServer.own();
    const told: Error[] = [];
    const store = new RedisState({ kind: "redis", url: own.url, prefix: "mine" }, (fault) =>
      told.push(fault),
    );
    onTestFinished(async () => {
      await store.close();
      await own.remove();
    });
    const place = newPlace();
    await store.put(place, entry(1, "e"), CALL);
    await own.kill();
    await expect(store.put(place, entry(2, "e"), { timeoutMs: 500 })).rejects.toBeInstanceOf(Error);
    await own.start();
    await expect
      .poll(() => store.put(place, entry(2, "e"), CALL).catch(() => null), { timeout: 60_000 })
      .toMatch(/stored|same/);
    expect(await store.get(place, CALL)).toMatchObject({ version: { at: 2 } });
    expect(told).toHaveLength(1);
  });

  test("that is gone keeps nobody from closing", async () => {
    const own = await RedisServer.own();
    onTestFinished(() => own.remove());
    const told: Error[] = [];
    const store = new RedisState({ kind: "redis", url: own.url }, (fault) => told.push(fault));
    await store.put(newPlace(), entry(1, "e"), CALL);
    await own.kill();
    await expect.poll(() => told.length, { timeout: 60_000 }).toBe(1);
    await store.close();
  });

  test("that is not there is a fault; one without the package says what to install", async () => {
    const absent = new RedisState({ kind: "redis", url: "redis://127.0.0.1:1" }, onFault);
    onTestFinished(() => absent.close());
    await expect(absent.get(newPlace(), CALL)).rejects.toThrow("ECONNREFUSED");
    const missing = new RedisState({ kind: "redis", url: redis.url }, onFault, () =>
      Promise.reject(new Error("Cannot find package 'redis'")),
    );
    await expect(missing.get(newPlace(), CALL)).rejects.toMatchObject({
      name: "RondoError",
      message: expect.stringContaining("npm install redis"),
    });
    await missing.close();
  });
});

describe("http", () => {
  async function open(settings: object = {}) {
    const stub = await DaprStub.make();
    const store = new HttpState({ kind: "http", url: stub.url, ...settings }, "statestore-discovery");
    onTestFinished(async () => {
      await store.close();
      stub.close();
    });
    return { stub, store };
  }
  const place: StatePlace = { store: "statestore-discovery", key: "project-x", partition: "project-x" };

  test("is asked in the shape of Dapr's state API", async () => {
    const { stub, store } = await open({ token: "secret" });
    await store.put(place, entry(7, "e", { value: '{"a":1}' }), CALL);
    await store.put(place, entry(8, "e", { value: "[2]" }), CALL);
    const url = "/v1.0/state/statestore-discovery";
    const mark = (at: number) => ({ version: `00000000000000${at}/e/000000000005`, project: "project-x" });
    const item = (value: unknown, etag?: string) => ({
      key: "project-x",
      value,
      ...(etag === undefined ? {} : { etag }),
      options: { concurrency: "first-write", consistency: "strong" },
      metadata: { partitionKey: "project-x" },
    });
    const get = `${url}/project-x?consistency=strong&metadata.partitionKey=project-x`;
    const token = "secret";
    expect(stub.requests).toEqual([
      { method: "GET", url: get, token, body: null },
      { method: "POST", url, token, body: [item({ a: 1, __rondo__: mark(7) })] },
      { method: "GET", url: get, token, body: null },
      {
        method: "POST",
        url,
        token,
        body: [item({ value: [2], __rondo__: { ...mark(8), wrapped: true } }, "1")],
      },
    ]);
    expect(await store.get(place, CALL)).toMatchObject({ value: "[2]", version: { at: 8 } });
  });

  test("takes another name for the store, and replaces what others wrote before", async () => {
    const { stub, store } = await open({ store: "other" });
    stub.values.set("other|project-x|project-x", { value: { foreign: true }, etag: 0 });
    expect(await store.get(place, CALL)).toEqual({ value: '{"foreign":true}', version: null, project: null });
    expect(await store.put(place, entry(1, "e"), CALL)).toBe("stored");
    expect(await store.get(place, CALL)).toMatchObject({ version: { at: 1 } });
  });

  test("reads again when another was quicker", async () => {
    const { stub, store } = await open();
    let conflicts = 0;
    stub.instead = ({ method }) => (method === "POST" && conflicts++ < 2 ? 409 : null);
    expect(await store.put(place, entry(1, "e"), CALL)).toBe("stored");
    expect(stub.requests.map(({ method }) => method).join(" ")).toBe("GET POST GET POST GET POST");
    stub.instead = ({ method }) => (method === "POST" ? 412 : null);
    await expect(store.put(place, entry(2, "e"), CALL)).rejects.toMatchObject({ isFinal: false });
  });

  test.each([
    [500, false],
    [503, false],
    [429, false],
    [401, false],
    [400, true],
    [302, true],
  ])("that answers %i may be tried again: %j is final", async (status, isFinal) => {
    const { stub, store } = await open();
    stub.instead = () => status;
    await expect(store.put(place, entry(1, "e"), CALL)).rejects.toMatchObject({
      isFinal,
      message: expect.stringContaining(`answered with status ${status}: instead`),
    });
  });

  test("that has no ETags is not written to twice", async () => {
    const { stub, store } = await open();
    stub.givesEtags = false;
    await store.put(place, entry(1, "e"), CALL);
    await expect(store.put(place, entry(2, "e"), CALL)).rejects.toMatchObject({ isFinal: true });
    expect(await store.get(place, CALL)).toMatchObject({ version: { at: 1 } });
  });
});
