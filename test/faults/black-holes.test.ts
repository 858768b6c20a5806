// A network that swallows bytes and says nothing of it, between a real worker and a real server: connections stay open, and
// nothing comes. The worker notices it by itself, within its heartbeat, and finds its way back.
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { ByteProxy } from "../fixtures/faults/byte-proxy-fixture.ts";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { expectWell } from "../fixtures/faults/open-fault-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let fixture: FaultFixture;

beforeAll(async () => {
  fixture = await FaultFixture.open();
});

afterEach(() => fixture.dismiss());

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    await fixture.close();
  }
});

async function openProxy(): Promise<ByteProxy> {
  const proxy = await ByteProxy.start(fixture.url);
  onTestFinished(() => proxy.close());
  return proxy;
}

test("connections that become black holes while the worker idles: it claims over new ones, and does what comes", async () => {
  const proxy = await openProxy();
  const worker = await fixture.worker({ url: proxy.url });
  for (let round = 0; round < 2; round++) {
    await fixture.ended(await fixture.startTasks({ tasks: 2 }));
    proxy.swallow();
    await fixture.ended(await fixture.startTasks({ tasks: 2 }));
  }
  expect(worker.hasEnded).toBe(false);
});

test("a receipt that is swallowed is sent again, and counts once", async () => {
  const proxy = await openProxy();
  await fixture.worker({ url: proxy.url });
  const id = await fixture.startTasks({ tasks: 1, hold: { 0: ["end"] } });
  await fixture.ledger.seen({ what: "held", execution: id });
  proxy.swallow();
  const before = proxy.swallowed;
  fixture.openGate(id, 0, "end");
  await until("something is swallowed", () => proxy.swallowed > before);
  await fixture.ended(id);
  expect(await fixture.eventsOf(id, "tasks.settled")).toHaveLength(1);
});

test("a worker with two ways to the server, both black holes, is registered once one of them is well", async () => {
  const [first, second] = [await openProxy(), await openProxy()];
  for (const proxy of [first, second]) proxy.isHole = true;
  const worker = fixture.hire({ url: `${first.url},${second.url}` });
  await until("both are tried", () => first.swallowed > 0 && second.swallowed > 0);
  second.isHole = false;
  await worker.line(/^worker .* serves /);
  await fixture.ended(await fixture.startTasks({ tasks: 2 }));
  // The way that works fails and the other one is well: the worker changes over.
  second.isHole = true;
  first.isHole = false;
  second.swallow();
  await fixture.ended(await fixture.startTasks({ tasks: 2 }));
  expect(worker.hasEnded).toBe(false);
});
