// The examples as users run them: workers in Python and TypeScript at a real broker, the engine on both stores.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ExampleFixture, hasPika, runPython } from "../../fixtures/broker/example-fixture.ts";
import { openTestBroker } from "../../fixtures/broker/rabbitmq-server-fixture.ts";
import { effort } from "../../fixtures/long.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

const isPika = hasPika();
const TEXT = "to be or not to be that is the question ".repeat(30).trim();
const WORDS = TEXT.split(" ").length;
const LINES = Array.from({ length: 40 }, (_, i) => ({ article: `a${i}`, count: i }));

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
  const broker = await openTestBroker();
  await broker.remove();
}, 180_000);
afterAll(() => database.remove());

/** A store that nobody else uses. */
async function storeOf(kind: "sqlite" | "postgres"): Promise<string> {
  if (kind === "sqlite") {
    const path = mkdtempSync(join(tmpdir(), "rondo-amqp-"));
    onTestFinished(() => rmSync(path, { recursive: true, force: true, maxRetries: 5 }));
    return `file:${path}`;
  }
  return database.newDatabase();
}

test.skipIf(!isPika).each(["SIGINT", "SIGTERM"] as const)(
  "the worker in Python ends on %s also while the broker is away",
  async (signal) => {
    const child = runPython({ RONDO_BROKER: "amqp://guest:guest@127.0.0.1:1/" });
    for await (const line of createInterface({ input: child.stderr as NodeJS.ReadableStream }))
      if (line.includes("the broker is away")) break;
    child.kill(signal);
    expect(await once(child, "exit")).toEqual([0, null]);
  },
);

const isLong = effort({ usual: 0, long: 1 }) === 1;

describe.each(["sqlite", "postgres"] as const)("the engine on %s", (kind) => {
  // Each worker is tried over one of the stores; with RONDO_TEST_LONG=1 over both.
  const isPythons = isPika && (isLong || kind === "sqlite");
  const isOurs = isLong || kind === "postgres";

  test.runIf(isPythons)(
    "the worker in Python enumerates, processes, does a command and returns; SIGTERM ends it with exit code 0",
    async () => {
      const fixture = await ExampleFixture.open(await storeOf(kind));
      const child = await fixture.python();
      const handle = await fixture.server.rondo.start("letters", { text: TEXT });
      expect(await handle.result({ timeout: 100_000 })).toEqual({ words: WORDS });
      const { phases } = await handle.describe();
      expect(phases[0]?.handlers[0]).toMatchObject({ total: WORDS, done: WORDS });
      child.kill("SIGTERM");
      expect(await once(child, "exit")).toEqual([0, null]);
      await until(
        "nothing of the visit is left at the broker",
        async () => (await fixture.visitQueues()).length === 0,
      );
      expect(fixture.faults).toEqual([]);
    },
    90_000,
  );

  test.runIf(isPythons)(
    "the worker in Python goes on after its connections were closed",
    async () => {
      const fixture = await ExampleFixture.open(await storeOf(kind));
      await fixture.python();
      const handle = await fixture.server.rondo.start("letters", { text: TEXT });
      await until(
        "some are done",
        async () => ((await handle.describe()).phases[0]?.handlers[0]?.done ?? 0) > 5,
      );
      await fixture.broker.management.closeConnections(fixture.broker.vhost);
      expect(await handle.result({ timeout: 100_000 })).toEqual({ words: WORDS });
    },
    90_000,
  );

  test.runIf(isOurs)(
    "the worker of rondo worker --broker does the same, and ends with exit code 0",
    async () => {
      const fixture = await ExampleFixture.open(await storeOf(kind));
      const worker = await fixture.worker("amqp/orders.ts");
      const handle = await fixture.server.rondo.start("orders", { lines: LINES });
      expect(await handle.result({ timeout: 100_000 })).toEqual({ reserved: LINES.length });
      worker.kill("SIGTERM");
      expect(await worker.ended).toMatchObject({ code: 0 });
      await until(
        "nothing of the visit is left at the broker",
        async () => (await fixture.visitQueues()).length === 0,
      );
      expect(fixture.faults).toEqual([]);
    },
    90_000,
  );

  test.runIf(isOurs)(
    "a worker that is killed loses nothing: another does its tasks",
    async () => {
      const fixture = await ExampleFixture.open(await storeOf(kind));
      const first = await fixture.worker("amqp/orders.ts");
      const many = Array.from({ length: 2_000 }, (_, i) => ({ article: `a${i}`, count: i }));
      const handle = await fixture.server.rondo.start("orders", { lines: many });
      await until(
        "some are done",
        async () => ((await handle.describe()).phases[0]?.handlers[0]?.done ?? 0) > 50,
      );
      first.kill("SIGKILL");
      await fixture.worker("amqp/orders.ts");
      expect(await handle.result({ timeout: 100_000 })).toEqual({ reserved: many.length });
    },
    90_000,
  );
});
