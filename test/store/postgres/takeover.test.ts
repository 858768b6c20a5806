// Takeovers raced against the commits of the former owner, which goes on writing as if nothing had happened. Each row
// says in which epoch it was written: after a takeover there must be none of an epoch before it.
import assert from "node:assert/strict";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { PHASES_IN_JOURNAL } from "../../../src/store/postgres/migrations/commit-functions.ts";
import { LOCK } from "../../../src/store/postgres/one-row.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { fenceOf, type StoreInfo } from "../../../src/store/store.ts";
import { ByteProxy } from "../../fixtures/faults/byte-proxy-fixture.ts";
import { PARTITIONS, startIn } from "../../fixtures/store/cluster-node-fixture.ts";
import { entry, start, step } from "../../fixtures/store/example-writes.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";

const TAKEOVERS = 24;
const WAIT = { timeout: 60_000, interval: 0 };

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

class Node {
  readonly store: PostgresStore;
  #info: StoreInfo = { generation: "", key: "", partitions: 0, owned: [] };
  #end = 0;
  written = 0;
  refused = 0;
  /** Refusals of its very first write after a takeover: somebody else has written meanwhile. */
  disturbed = 0;
  incarnation = "";
  readonly #schema: string;
  readonly #way: Way;

  constructor(schema: string, nodeUrl: string, way: Way) {
    this.#schema = schema;
    this.#way = way;
    this.store = new PostgresStore({ url: database.url, nodeUrl, schema, partitions: 1 });
    onTestFinished(() => this.store.close({ clean: false }));
  }

  get epoch(): number {
    return this.#info.owned[0]?.epoch ?? 0;
  }

  async open(): Promise<void> {
    this.#info = await this.store.open();
    await this.store.renew();
  }

  async take(): Promise<void> {
    this.incarnation = (await this.store.renew()).incarnation;
    this.#info = { ...this.#info, owned: await this.store.take([0]) };
    assert.equal(this.#info.owned.length, 1);
    const last = (await this.store.readJournal({ execution: "a", from: 1 })).at(-1);
    this.#end = last === undefined ? 0 : last.seq + last.count - 1;
  }

  /** Writes one event. Answers whether the store took it. */
  async write(): Promise<boolean> {
    const entries = [entry(this.#end + 1, String(this.epoch))];
    const changes = { entries, timersCleared: this.#way === "in columns" ? ["none"] : [] };
    const write = this.#end === 0 ? start("a", changes) : step("a", this.#end, changes);
    const verdict = await this.store.commit({ fence: fenceOf(this.#info), writes: [write] });
    if (verdict.kind === "fenced") {
      this.refused++;
      return false;
    }
    this.#end++;
    this.written++;
    return true;
  }

  /** Writes one event after the other, until one is refused. */
  async writeOn(): Promise<void> {
    if (!(await this.write())) this.disturbed++;
    else while (await this.write());
  }

  /** Ends its lease, which it does not notice. */
  async lapse(): Promise<void> {
    await database.query(`UPDATE ${this.#schema}.nodes SET lease_until = 0 WHERE incarnation = $1`, [
      this.incarnation,
    ]);
  }
}

/** How many rows are of an epoch before that of a row before them. */
function staleIn(epochs: readonly number[]): number {
  let newest = 0;
  return epochs.filter((epoch) => {
    newest = Math.max(newest, epoch);
    return epoch < newest;
  }).length;
}

/** How a commit is written: by a statement for one row of one execution, or by the function for everything else. */
type Way = "as one row" | "in columns";
const WAYS: readonly Way[] = ["as one row", "in columns"];

interface Stall {
  readonly way: Way;
  /** The SQL call that the commit waits for between the fence and its writes. */
  readonly call: string;
  /** Whether the commit still locks the partition. */
  readonly locked: boolean;
}

/** Makes commits wait between the fence and the writes. */
async function stall(schema: string, { way, call, locked }: Stall): Promise<void> {
  const sql = way === "in columns" ? stalledFunction(call, locked) : stalledRow(call);
  await database.query(`SET search_path TO ${schema}; ${sql}`);
  if (way === "as one row" && !locked) withoutLock();
}

/** The function for commits, with a wait after its fence. */
function stalledFunction(call: string, locked: boolean): string {
  const lock = "PERFORM pg_advisory_xact_lock_shared(p_lock, partition) FROM unnest(touched) AS partition;";
  const fence = "refused := check_fence_1(p_generation, p_owner, touched, p_epochs, taken);";
  expect(PHASES_IN_JOURNAL).toContain(lock);
  expect(PHASES_IN_JOURNAL).toContain(fence);
  return PHASES_IN_JOURNAL.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    .replace(fence, `${fence} PERFORM ${call};`)
    .replace(lock, locked ? lock : "");
}

/** A trigger that waits with the row of a statement whose fence has let it pass. */
function stalledRow(call: string): string {
  return `
    CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM ${call}; RETURN NEW; END $$;
    CREATE TRIGGER stall BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION stall()`;
}

/** Lets the statements for one row run after one that locks nothing, until the test ends. */
function withoutLock(): void {
  const { text } = LOCK;
  expect(text).toContain("pg_advisory_xact_lock_shared($1::int, $2::int)");
  Object.assign(LOCK, { text: "SELECT $1::int, $2::int" });
  onTestFinished(() => void Object.assign(LOCK, { text }));
}

async function openNodes(schema: string, way: Way): Promise<[Node, Node]> {
  const nodes: [Node, Node] = [new Node(schema, "http://a", way), new Node(schema, "http://b", way)];
  for (const node of nodes) await node.open();
  return nodes;
}

/** Lets takeovers go back and forth between two nodes that write. Answers their rows, and how often a new owner was refused. */
async function race(way: Way) {
  const schema = database.newSchema();
  const nodes = await openNodes(schema, way);
  await stall(schema, { way, call: "pg_sleep(0.004)", locked: true });
  await nodes[0].take();
  let writing = nodes[0].writeOn();
  let lastBefore = 0;
  for (let round = 0; round < TAKEOVERS; round++) {
    const [former, next] = round % 2 === 0 ? nodes : ([nodes[1], nodes[0]] as const);
    const before = former.written;
    await vi.waitUntil(() => former.written > before || former.refused > round / 2, WAIT);
    await former.lapse();
    await next.take();
    const formerWriting = writing;
    lastBefore = next.written;
    writing = next.writeOn();
    await formerWriting;
  }
  const last = nodes[TAKEOVERS % 2] as Node;
  await vi.waitUntil(() => last.written > lastBefore || last.disturbed > 0, WAIT);
  await last.store.release([0], { clean: true });
  await writing;
  const rows = await nodes[0].store.readJournal({ execution: "a", from: 1 });
  const written = nodes.reduce((sum, node) => sum + node.written, 0);
  return { rows, written, disturbed: nodes.reduce((sum, node) => sum + node.disturbed, 0) };
}

/** The advisory lock that commits wait for between the fence and their writes, while the test holds it. */
const GATE = 20_261_118;

/** Lets another node take the partition while a commit of its owner is between the fence and its writes. */
async function takeDuringCommit({ way, locked }: { way: Way; locked: boolean }) {
  const schema = database.newSchema();
  const [former, next] = await openNodes(schema, way);
  await former.take();
  await former.write();
  await stall(schema, { way, call: `pg_advisory_xact_lock_shared(${GATE})`, locked });
  const gate = await database.client();
  onTestFinished(() => gate.end());
  await gate.query(`SELECT pg_advisory_lock(${GATE})`);
  const { rows: self } = await gate.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const isBlockedBy = async (pid: number | undefined): Promise<number | null> => {
    const waiting = await database.query<{ pid: number }>(
      "SELECT pid FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND $1 = ANY (pg_blocking_pids(pid))",
      [pid],
    );
    return waiting[0]?.pid ?? null;
  };

  const late = former.write();
  const writer = await vi.waitUntil(() => isBlockedBy(self[0]?.pid), WAIT);
  await former.lapse();
  const taking = next.take();
  if (locked) await vi.waitUntil(() => isBlockedBy(writer), WAIT);
  else await taking;
  await gate.query(`SELECT pg_advisory_unlock(${GATE})`);
  const isLateWritten = await late;
  await taking;
  return { isLateWritten, isNextWritten: await next.write(), isFormerWritten: await former.write() };
}

test.each(WAYS)(
  "a former owner that writes %s writes nothing after a takeover, however often they race",
  async (way) => {
    const { rows, written, disturbed } = await race(way);
    expect(rows.map(({ seq }) => seq)).toEqual(Array.from({ length: written }, (_, i) => i + 1));
    expect(staleIn(rows.map(({ body }) => Number(body)))).toBe(0);
    expect(disturbed).toBe(0);
  },
);

test.each(WAYS)("a takeover waits for a commit %s that has passed the fence", async (way) => {
  expect(await takeDuringCommit({ way, locked: true })).toEqual({
    isLateWritten: true,
    isNextWritten: true,
    isFormerWritten: false,
  });
});

test.each(WAYS)(
  "without the lock of its partition, a commit %s would be written after the takeover and refuse the new owner",
  async (way) => {
    expect(await takeDuringCommit({ way, locked: false })).toMatchObject({
      isLateWritten: true,
      isNextWritten: false,
    });
  },
);

test.each(WAYS)("a commit %s that has waited for a takeover sees it, and writes nothing", async (way) => {
  const schema = database.newSchema();
  const [former] = await openNodes(schema, way);
  await former.take();
  await former.write();
  const taking = await database.client();
  onTestFinished(() => taking.end());
  await taking.query("BEGIN");
  const { rows } = await taking.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  await taking.query(
    `SELECT pg_advisory_xact_lock(('${schema}.partitions'::regclass::oid::bigint & 2147483647)::int, 0)`,
  );
  const late = former.write();
  await vi.waitUntil(async () => {
    const waiting = await database.query(
      "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND $1 = ANY (pg_blocking_pids(pid))",
      [rows[0]?.pid],
    );
    return waiting.length > 0;
  }, WAIT);
  // The takeover is stored after the commit has been sent, and ends the wait.
  await taking.query(`UPDATE ${schema}.partitions SET epoch = epoch + 1, owner = 'another'`);
  await taking.query("COMMIT");
  expect(await late).toBe(false);
});

test.each(WAYS)("a node that goes silent while it sends a large row %s holds no partition", async (way) => {
  const schema = database.newSchema();
  const proxy = await ByteProxy.start(database.url);
  onTestFinished(() => proxy.close());
  const url = new URL(database.url);
  url.hostname = "127.0.0.1";
  url.port = new URL(proxy.url).port;
  const former = new PostgresStore({ url: String(url), nodeUrl: "http://a", schema, partitions: 1 });
  const next = new PostgresStore({ url: database.url, nodeUrl: "http://b", schema, timeoutMs: 3_000 });
  const { generation } = await former.open();
  const { incarnation } = await former.renew();
  const fence = fenceOf({ generation, owned: await former.take([0]) });
  await former.commit({ fence, writes: [start("a")] });
  await former.commit({ fence, writes: [step("a", 1)] });
  // The beginning of the row arrives. The connection stays open, and the rest never comes.
  proxy.stallAfter(100_000);
  const changes = {
    entries: [entry(3, "x".repeat(2_000_000))],
    timersCleared: way === "in columns" ? ["none"] : [],
  };
  const late = former.commit({ fence, writes: [step("a", 2, changes)] });
  const isLate = late.then(
    () => false,
    () => true,
  );
  await vi.waitUntil(() => proxy.swallowed > 0, WAIT);
  await database.query(`UPDATE ${schema}.nodes SET lease_until = 0 WHERE incarnation = $1`, [incarnation]);
  await next.open();
  onTestFinished(() => next.close({ clean: false }));
  await next.renew();
  expect(await next.take([0])).toMatchObject([{ partition: 0, epoch: 2 }]);
  proxy.close();
  expect(await isLate).toBe(true);
  await former.close({ clean: false }).catch(() => {});
});

test("a lease lapses by the database's clock, and then what the node had is taken by another", async () => {
  const schema = database.newSchema();
  const options = { url: database.url, schema, partitions: PARTITIONS };
  const brief = new PostgresStore({ ...options, nodeUrl: "http://brief", leaseMs: 3_000 });
  const other = new PostgresStore({ ...options, nodeUrl: "http://other" });
  const { generation } = await brief.open();
  await other.open();
  for (const store of [brief, other]) onTestFinished(() => store.close({ clean: false }));
  const { leaseUntil } = await brief.renew();
  const owned = await brief.take([0, 1, 2, 3]);
  expect(owned).toHaveLength(4);
  await other.renew();
  expect(await other.take([0, 1])).toEqual([]);
  const gone = await vi.waitUntil(
    async () => {
      const membership = await other.renew();
      return membership.nodes.length === 1 ? membership : null;
    },
    { timeout: 60_000 },
  );
  expect(gone.now).toBeGreaterThanOrEqual(leaseUntil);
  expect(await other.take([0, 1])).toMatchObject([
    { partition: 0, epoch: 2, uncleanEpoch: 1 },
    { partition: 1, epoch: 2, uncleanEpoch: 1 },
  ]);
  const late = await brief.commit({
    fence: fenceOf({ generation, owned }),
    writes: [startIn(0), startIn(2)],
  });
  expect(late).toEqual({ kind: "ok", exists: [], fenced: [0] });
});
