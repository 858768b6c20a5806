// A network that swallows bytes and says nothing of it, between a real worker and a real server: connections stay open, and
// nothing comes. The worker notices it by itself, within its heartbeat, and finds its way back.
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { ByteProxy } from "../fixtures/faults/byte-proxy-fixture.ts";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { expectWell } from "../fixtures/faults/open-fault-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let bench: FaultFixture;

beforeAll(async () => {
  bench = await FaultFixture.open();
});

afterEach(() => bench.dismiss());

afterAll(async () => {
  try {
    await expectWell(bench);
  } finally {
    await bench.close();
  }
});

async function openProxy(): Promise<ByteProxy> {
  const proxy = await ByteProxy.start(bench.url);
  onTestFinished(() => proxy.close());
  return proxy;
}

test("connections that become black holes while the worker idles: it claims over new ones, and does what comes", async () => {
  const proxy = await openProxy();
  const worker = await bench.worker({ url: proxy.url });
  for (let round = 0; round < 2; round++) {
    await bench.ended(await bench.startTasks({ tasks: 2 }));
    proxy.swallow();
    await bench.ended(await bench.startTasks({ tasks: 2 }));
  }
  expect(worker.hasEnded).toBe(false);
});

test("a receipt that is swallowed is sent again, and counts once", async () => {
  const proxy = await openProxy();
  await bench.worker({ url: proxy.url });
  const id = await bench.startTasks({ tasks: 1, hold: { 0: ["end"] } });
  await bench.ledger.seen({ what: "held", execution: id });
  proxy.swallow();
  const before = proxy.swallowed;
  bench.openGate(id, 0, "end");
  await until("something is swallowed", () => proxy.swallowed > before);
  await bench.ended(id);
  expect(await bench.eventsOf(id, "tasks.settled")).toHaveLength(1);
});

test("a worker with two ways to the server, both black holes, is registered once one of them is well", async () => {
  const [first, second] = [await openProxy(), await openProxy()];
  for (const proxy of [first, second]) proxy.isHole = true;
  const worker = bench.hire({ url: `${first.url},${second.url}` });
  await until("both are tried", () => first.swallowed > 0 && second.swallowed > 0);
  second.isHole = false;
  await worker.line(/^worker .* serves /);
  await bench.ended(await bench.startTasks({ tasks: 2 }));
  // The way that works fails and the other one is well: the worker changes over.
  second.isHole = true;
  first.isHole = false;
  second.swallow();
  await bench.ended(await bench.startTasks({ tasks: 2 }));
  expect(worker.hasEnded).toBe(false);
});
