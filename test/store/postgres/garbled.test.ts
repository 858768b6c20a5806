// Bytes of PostgreSQL's answers are changed on their way: the connection is given up, the process goes on, and what is read
// is right, is a fault, or shows that it is damaged.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { DamagedData } from "../../../src/kernel/journal/damage.ts";
import { decodeEntry, encodeEntries, UnknownVersion } from "../../../src/kernel/journal/journal-entry.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { type JournalRow, StoreFault } from "../../../src/store/store.ts";
import { effort } from "../../fixtures/long.ts";
import { commit, start } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";

const READS = effort({ usual: 300, long: 3_000 });

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

/** Passes bytes on; when it is told to, one byte of the next answer is another one. */
class GarblingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #random = new SeededRandom("garbled bytes");
  isGarbling = false;
  garbled = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async to(target: URL): Promise<GarblingProxy> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new GarblingProxy(server);
    server.on("connection", (near) => proxy.#join(near, connect(Number(target.port), target.hostname)));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #join(near: Socket, far: Socket): void {
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => near.write(this.#change(bytes)));
  }

  #change(bytes: Buffer): Buffer {
    if (!this.isGarbling) return bytes;
    this.isGarbling = false;
    this.garbled++;
    const at = this.#random.below(bytes.length);
    const changed = Buffer.from(bytes);
    changed[at] = this.#random.below(256);
    return changed;
  }
}

test(`${READS} answers with a changed byte each: a fault, the truth, or a row that says that it is damaged`, async () => {
  const proxy = await GarblingProxy.to(new URL(database.url));
  onTestFinished(() => proxy.close());
  const url = new URL(database.url);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  const store = new PostgresStore({
    ...{ url: String(url), nodeUrl: "http://node", schema: database.newSchema(), partitions: 1 },
    ...{ leaseMs: 3_600_000, timeoutMs: 300 },
  });
  const info = await openWhole(store);
  onTestFinished(() => store.close({ clean: false }));
  const event = { kind: "signalled", signal: "s", id: "1", data: "x" } as const;
  const entries = encodeEntries(
    Array.from({ length: 20 }, (_, i) => ({ seq: i + 1, at: 5, event })),
    "e1",
  );
  await commit(store, info, [start("e1", { entries })]);
  const right = await store.readJournal({ execution: "e1", from: 1 });
  const ends: Record<string, number> = {};
  const wrong: unknown[] = [];
  for (let i = 0; i < READS; i++) {
    proxy.isGarbling = true;
    const end = await store.readJournal({ execution: "e1", from: 1 }).then(
      (rows) => judge(rows, right),
      (thrown: unknown) => (thrown instanceof StoreFault && thrown.retryable ? "fault" : thrown),
    );
    if (typeof end === "string") ends[end] = (ends[end] ?? 0) + 1;
    else wrong.push(end);
    proxy.isGarbling = false;
    // The next one is well, so that no five are garbled in a row.
    expect(judge(await store.readJournal({ execution: "e1", from: 1 }), right)).toBe("right");
  }
  expect(wrong).toEqual([]);
  expect(proxy.garbled).toBe(READS);
  expect(ends["fault"]).toBeGreaterThan(0);
  expect(ends["damaged"]).toBeGreaterThan(0);
}, 600_000);

function isReadable(row: JournalRow): boolean {
  try {
    return decodeEntry(row).length > 0;
  } catch (thrown) {
    if (thrown instanceof DamagedData || thrown instanceof UnknownVersion) return false;
    throw thrown;
  }
}

function judge(rows: readonly JournalRow[], right: readonly JournalRow[]): unknown {
  if (JSON.stringify(rows) === JSON.stringify(right)) return "right";
  if (!rows.every(isReadable)) return "damaged";
  const [shown, whole] = [JSON.stringify(rows), JSON.stringify(right)];
  const at = [...shown].findIndex((one, i) => one !== whole[i]);
  return { shown: shown.slice(at - 30, at + 60), whole: whole.slice(at - 30, at + 60) };
}
