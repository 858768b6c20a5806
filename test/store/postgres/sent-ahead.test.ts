// Commits that are sent while the database still runs the one before: whatever happens to the connection, a commit that is said to be
// written is written, and its answer is its own.
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { SeededRandom } from "../../../src/std/random.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { type ExecutionWrite, fenceOf } from "../../../src/store/store.ts";
import { VirtualClock } from "../../../src/testing/virtual-clock.ts";
import { effort } from "../../fixtures/long.ts";
import { start, step } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

const ROUNDS = effort({ usual: 40, long: 400 });
const BIND_COMPLETE = 0x32;
const READY = 0x5a;
const SYNC = 0x53;
const CLOSE = 0x43;
/** The bytes of a Sync message. */
const SYNC_BYTES = 5;

let database: TestDatabase;

beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

type Change = (bytes: Buffer) => Buffer;

/** Passes bytes between the store and the database, and changes them or holds them back. */
class Proxy {
  up: Change = (bytes) => bytes;
  down: Change = (bytes) => bytes;
  /** An answer that has this text is passed on only up to its ReadyForQuery; null if nothing is held back. */
  holdAfter: string | null = null;
  #held: { readonly parts: Buffer[]; readonly write: (bytes: Buffer) => void } | null = null;

  get isHolding(): boolean {
    return this.#held !== null;
  }

  release(): void {
    const held = this.#held;
    this.#held = null;
    for (const part of held?.parts ?? []) held?.write(part);
  }

  async listen(target: URL): Promise<number> {
    const server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        one.setNoDelay(true);
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
      }
      near.on("data", (bytes) => far.write(this.up(bytes)));
      far.on("data", (bytes) => this.#answer(bytes, (part) => near.write(part)));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void server.close());
    return (server.address() as AddressInfo).port;
  }

  #answer(bytes: Buffer, write: (bytes: Buffer) => void): void {
    if (this.#held !== null) return void this.#held.parts.push(bytes);
    const at = this.holdAfter === null ? -1 : bytes.indexOf(this.holdAfter);
    if (at < 0) return write(this.down(bytes));
    const ready = bytes.indexOf(Buffer.from([READY, 0, 0, 0, 5]), at);
    const end = ready < 0 ? bytes.length : ready;
    this.holdAfter = null;
    write(bytes.subarray(0, end));
    this.#held = { parts: [bytes.subarray(end)], write };
  }
}

async function setUp(
  options: { clock?: VirtualClock; timeoutMs?: number; query?: Record<string, string> } = {},
) {
  const { query = {}, ...own } = options;
  const schema = database.newSchema();
  const proxy = new Proxy();
  const url = new URL(database.url);
  url.port = String(await proxy.listen(new URL(database.url)));
  url.hostname = "127.0.0.1";
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const store = new PostgresStore({
    ...{ url: String(url), nodeUrl: "http://n", schema, partitions: 1, leaseMs: 3_600_000, timeoutMs: 5_000 },
    ...own,
  });
  const fence = fenceOf(await openWhole(store));
  onTestFinished(() => store.close({ clean: false }));
  const verdicts: Record<string, string> = {};
  const commit = async (name: string, ...writes: ExecutionWrite[]): Promise<void> => {
    verdicts[name] = await store.commit({ fence, writes }).then(
      ({ kind }) => kind,
      () => "fault",
    );
  };
  const rows = async (id: string): Promise<number> => {
    const sql = `SELECT count(j.e)::int AS n FROM ${schema}.executions x JOIN ${schema}.journal j USING (e) WHERE id = $1`;
    return (await database.query(sql, [id]))[0]?.["n"] as number;
  };
  /** Makes the next step of these executions wait, until the returned function is called. */
  const hold = async (...ids: string[]): Promise<() => Promise<unknown>> => {
    const client = await database.client();
    onTestFinished(() => client.end());
    const sql = `SELECT e, 2, 1, 1, 'x', 'x' FROM ${schema}.executions WHERE id IN ('${ids.join("','")}')`;
    await client.query(`BEGIN; INSERT INTO ${schema}.journal (e, seq, count, at, chain, body) ${sql}`);
    return () => client.query("ROLLBACK");
  };
  /** Evaluates an expression for the process of each commit that waits for a lock; returns how many there are. */
  const waiting = async (sql: string): Promise<number> => {
    const from = `FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND NOT l.granted`;
    const where = "WHERE a.datname = current_database() AND application_name LIKE 'rondo commits%'";
    return (await database.query(`SELECT ${sql} ${from} ${where}`)).length;
  };
  const untilOneWaits = (): Promise<void> =>
    until("a commit waits for a lock", async () => (await waiting("a.pid")) > 0);
  return { commit, verdicts, rows, hold, waiting, untilOneWaits, proxy };
}

/** Two executions in a commit are written by the large statement, one by a small one; each is prepared when it is first used. */
const pair = (n: number): ExecutionWrite[] => [start(`a${n}`), start(`b${n}`)];
const steps = (n: number): ExecutionWrite[] => [step(`a${n}`, 1), step(`b${n}`, 1)];

async function prepared(commit: (name: string, ...writes: ExecutionWrite[]) => Promise<void>): Promise<void> {
  for (const n of [1, 2, 3]) await commit("prepared", ...pair(n));
}

test("a statement that is not prepared is not overtaken by a prepared one", async () => {
  const { commit, verdicts, rows, hold, waiting, untilOneWaits, proxy } = await setUp();
  await commit("prepared", start("e1"), start("e2"));
  await commit("prepared", start("e3"));
  const release = await hold("e1", "e3");
  const all = [commit("first", step("e1", 1), step("e2", 1))];
  await untilOneWaits();
  all.push(commit("not prepared", step("e3", 1)));
  await nextTurn();
  all.push(commit("overtaking", start("n1")));
  await nextTurn();
  proxy.holdAfter = "C57014";
  await waiting("pg_cancel_backend(a.pid)");
  await until("the end of the answer is held back", async () => proxy.isHolding);
  for (let turn = 0; turn < 10; turn++) await nextTurn();
  proxy.release();
  await untilOneWaits();
  await waiting("pg_terminate_backend(a.pid)");
  await release();
  await Promise.all(all);
  expect(verdicts).toMatchObject({ first: "fault", "not prepared": "fault" });
  expect(await rows("e3")).toBe(1);
  expect(await rows("n1")).toBe(verdicts["overtaking"] === "ok" ? 1 : 0);
}, 60_000);

test("an answer that ends too early is not followed by the answer of the next commit", async () => {
  const { commit, verdicts, rows, hold, untilOneWaits, proxy } = await setUp();
  await prepared(commit);
  const [first, second] = [await hold("a1"), await hold("a2")];
  const all = [commit("first", ...steps(1))];
  await untilOneWaits();
  all.push(commit("second", ...steps(2)));
  await nextTurn();
  proxy.down = (bytes) => {
    if (bytes[0] !== BIND_COMPLETE) return bytes;
    proxy.down = (next) => next;
    const changed = Buffer.from(bytes);
    changed[0] = READY;
    return changed;
  };
  await first();
  await Promise.all(all);
  await commit("next", ...pair(4));
  await second();
  expect(verdicts).toMatchObject({ first: "fault", second: "fault", next: "ok" });
  expect(await rows("a2")).toBe(1);
}, 60_000);

test("a request without its end does not swallow the next commit", async () => {
  const { commit, verdicts, rows, proxy } = await setUp();
  await prepared(commit);
  proxy.up = (bytes) => {
    const sync = bytes.length - SYNC_BYTES;
    if (bytes[sync] !== SYNC || !bytes.includes("chain-a1-2")) return bytes;
    proxy.up = (next) => next;
    const changed = Buffer.from(bytes);
    changed[sync] = CLOSE;
    return changed;
  };
  const all = [commit("1", ...steps(1))];
  for (const n of [2, 3]) {
    await nextTurn();
    all.push(commit(`${n}`, ...steps(n)));
  }
  await Promise.all(all);
  for (const n of [1, 2, 3]) if (verdicts[n] === "ok") expect([n, await rows(`a${n}`)]).toEqual([n, 2]);
}, 60_000);

test("the time limit of a commit that is sent ahead begins when the one before has ended", async () => {
  const clock = new VirtualClock();
  const { commit, verdicts, hold, untilOneWaits } = await setUp({ clock, timeoutMs: 1_500 });
  await prepared(commit);
  const [first, second] = [await hold("a1"), await hold("a2")];
  const one = commit("first", ...steps(1));
  await untilOneWaits();
  const other = commit("second", ...steps(2));
  await nextTurn();
  await clock.advance(1_000);
  await first();
  await one;
  await untilOneWaits();
  await clock.advance(1_000);
  await second();
  await other;
  expect(verdicts).toMatchObject({ first: "ok", second: "ok" });
}, 60_000);

test("with a query_timeout in the URL, a commit waits for the answer to the one before", async () => {
  const { commit, verdicts, rows, hold, untilOneWaits, proxy } = await setUp({
    query: { query_timeout: "60000" },
  });
  await prepared(commit);
  const release = await hold("a1");
  const one = commit("first", ...steps(1));
  await untilOneWaits();
  let isSent = false;
  proxy.up = (bytes) => {
    isSent ||= bytes.includes("chain-a2-2");
    return bytes;
  };
  const other = commit("second", ...steps(2));
  for (let turn = 0; turn < 10; turn++) await nextTurn();
  expect(isSent).toBe(false);
  await release();
  await Promise.all([one, other]);
  expect(isSent).toBe(true);
  expect(verdicts).toMatchObject({ first: "ok", second: "ok" });
  expect(await rows("a2")).toBe(2);
}, 60_000);

test("whichever byte of an answer or of the end of a request is changed, what is said to be written is written", async () => {
  const { commit, verdicts, rows, proxy } = await setUp({ timeoutMs: 300 });
  await prepared(commit);
  await commit("prepared", start("c1"));
  await commit("prepared", step("c1", 1));
  const random = new SeededRandom("bytes of commits that are sent ahead");
  for (let round = 0; round < ROUNDS; round++) {
    let skip = random.below(4);
    const change = (bytes: Buffer, from: number): Buffer => {
      if (skip-- > 0) return bytes;
      proxy.up = proxy.down = (next) => next;
      const changed = Buffer.from(bytes);
      const at = from + random.below(bytes.length - from);
      changed[at] = (bytes[at] as number) ^ (1 << random.below(8));
      return changed;
    };
    if (random.below(3) > 0) proxy.down = (bytes) => change(bytes, 0);
    else
      proxy.up = (bytes) =>
        bytes.at(-SYNC_BYTES) === SYNC ? change(bytes, Math.max(0, bytes.length - 15)) : bytes;
    const ids = Array.from({ length: 6 }, (_, n) => `x${round}-${n}`);
    const all = ids.map(async (id, n) => {
      for (let turn = 0; turn < n; turn++) await nextTurn();
      await commit(id, ...(random.below(2) === 0 ? [start(id)] : [start(id), start(`${id}b`)]));
    });
    await Promise.all(all);
    proxy.up = proxy.down = (next) => next;
    for (const id of ids) if (verdicts[id] === "ok") expect([id, await rows(id)]).toEqual([id, 1]);
  }
}, 400_000);
