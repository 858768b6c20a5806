// An id whose executions continue again and again, while retention deletes the old ones.
import { flow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/std/clock.ts";
import { effort } from "../fixtures/long.ts";
import { type Api, STORES, serve, until } from "../fixtures/server/api-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

const TIMES = effort({ usual: 60, long: 1_000 });
const MINUTE_MS = 60_000;

/** Adds up its signals, continues after each of them, and ends with "close". */
const account = flow("account", async ({ waitFor, continueAs }, { sum }: { sum: number }) => {
  const { name, value } = await waitFor("booking", { signal: ["add", "close"] });
  return name === "close" ? sum : continueAs({ sum: sum + Number(value) });
});

/** A clock whose minutes are short: retention deletes what has ended again and again while the chain goes on. */
function hastyClock(): Clock {
  const clock = systemClock();
  return {
    ...clock,
    now: () => clock.now(),
    after: (ms, run) => clock.after(ms >= MINUTE_MS ? 20 : ms, run),
  };
}

const idsOf = async (api: Api): Promise<string[]> =>
  ((await api.get("/v1/executions?limit=100")).body["data"] as unknown as { id: string }[]).map(
    ({ id }) => id,
  );

const stores: readonly (readonly [
  string,
  () => string | Promise<string> | ReturnType<(typeof STORES)[number][1]>,
])[] = [...STORES, ["PostgreSQL", async () => (await TestDatabase.make()).newDatabase()]];

describe.each(stores)("over a %s store", (_, store) => {
  test("old executions of an id are deleted, the bare id means the newest, and the first one goes last", async () => {
    const api = await serve({ store: await store(), clock: hastyClock(), retentionMs: 200 });
    api.rondo.serve(account);
    await using client = connect({ url: api.url });
    const ann = await client.start(account, { sum: 0 }, { id: "ann" });
    for (let n = 1; n <= TIMES; n++) await ann.signal("add", n, { id: `s${n}` });
    const newest = `ann~${TIMES + 1}`;
    await until(async () => (await ann.describe()).id === newest);
    expect(await ann.describe()).toMatchObject({ status: "running", continues: `ann~${TIMES}` });
    expect((await api.get("/v1/executions/ann")).body).toMatchObject({ id: newest });
    expect((await api.get("/v1/executions/ann/why")).body).toMatchObject({ id: newest });
    await until(async () => (await idsOf(api)).length === 2);
    expect(await idsOf(api)).toEqual([newest, "ann"]);
    expect((await api.get("/v1/executions?top=true")).body["data"]).toMatchObject([
      { id: newest },
      { id: "ann" },
    ]);
    expect((await api.get("/v1/executions?detail=full")).body["data"]).toMatchObject([
      { id: newest, continues: `ann~${TIMES}` },
      { id: "ann", continuedAs: "ann~2" },
    ]);
    expect(await client.execution("ann~1").describe()).toMatchObject({
      status: "done",
      continuedAs: "ann~2",
    });
    await expect(client.execution("ann~2").describe()).rejects.toMatchObject({ code: "not_found" });
    // A repeat of an old signal is known to the newest one.
    await ann.signal("add", 1, { id: `s${TIMES}` });
    const result = ann.result();
    await ann.signal("close");
    expect(await result).toBe((TIMES * (TIMES + 1)) / 2);
    await until(async () => (await idsOf(api)).length === 0);
    expect(api.faults).toEqual([]);
  });
});
