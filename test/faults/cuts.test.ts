// Connections that are cut after N bytes, for many N and in both directions, again and again; and event batches that come
// twice, late, out of order, in part. Every task is done and counted once.
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from "vitest";
import { SeededRandom } from "../../src/std/random.ts";
import { ByteProxy, type Life } from "../fixtures/faults/byte-proxy-fixture.ts";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { EVENTS, expectWell, openProxy, RECEIPT, STEP } from "../fixtures/faults/open-fault-fixture.ts";
import type { Passed, RequestProxy } from "../fixtures/faults/request-proxy-fixture.ts";
import { effort } from "../fixtures/long.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

/** Of each of two workers. */
const CUTS = effort({ usual: 15, long: 60 });

let fixture: FaultFixture;

beforeAll(async () => {
  fixture = await FaultFixture.open({ config: { claimLease: "500ms" } });
});

afterEach(() => fixture.dismiss());

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    await fixture.close();
  }
});

describe("connections", () => {
  /** Cuts at all lengths: in the first bytes, in headers, in bodies; every fourth connection lives for long. */
  function lives(random: SeededRandom): () => Life {
    let made = 0;
    const bytes = (): number => Math.round(2 ** (random.between(0, 1_300) / 100));
    return () => {
      made++;
      if (made % 4 === 0) return { up: 40_000, down: 40_000 };
      return made % 2 === 0
        ? { up: bytes(), down: Number.POSITIVE_INFINITY }
        : { up: Number.POSITIVE_INFINITY, down: bytes() };
    };
  }

  test("cut after N bytes of either direction, again and again: every task is done and counted once", async () => {
    const proxies = [await ByteProxy.start(fixture.url), await ByteProxy.start(fixture.url)];
    onTestFinished(() => proxies.forEach((proxy) => proxy.close()));
    for (const [i, proxy] of proxies.entries()) {
      const args = ["--capacity", "20", ...(i === 0 ? [] : ["--spool", "spool"])];
      await fixture.worker({ url: proxy.url, args, heartbeat: "8s" });
      proxy.life = lives(new SeededRandom(`cuts-${i}`));
      proxy.cut();
    }
    const ids: string[] = [];
    while (proxies.some(({ cuts }) => cuts < CUTS)) {
      const id = await fixture.startTasks({ tasks: 60, steps: ["a"], log: true, pad: 200 }, "brisk");
      ids.push(id);
      await fixture.ended(id);
    }
    for (const proxy of proxies) proxy.cut({ heal: true });
    // Steps that are journaled are not run again, and each task counts once: the audit in the end looks at that.
    for (const id of ids) expect(await fixture.eventsOf(id, "task.step")).toHaveLength(60);
  });
});

describe("event batches", () => {
  let proxy: RequestProxy;

  beforeEach(async () => {
    proxy = await openProxy(fixture);
    proxy.keeps = EVENTS;
    await fixture.worker({ url: proxy.url });
  });

  /** Batches that went through since, about an execution. */
  const batchesOf = (id: string): Passed[] => proxy.kept.filter(({ body }) => body.includes(`"${id}.`));

  const lengthOf = async (id: string): Promise<number> => (await fixture.events(id)).length;

  test("that come twice at the same time are answered alike, and stored once", async () => {
    const step = proxy.trap(EVENTS, "asked", STEP);
    const id = await fixture.startTasks({ tasks: 3, steps: ["a"] });
    const { request, pass } = await step;
    const copies = [proxy.replay(request), proxy.replay(request), proxy.replay(request)];
    pass();
    for (const { status } of await Promise.all(copies)) expect(status).toBe(200);
    await fixture.ended(id);
    expect(await fixture.eventsOf(id, "task.step")).toHaveLength(3);
    expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  });

  test("of which a copy is overtaken by the one that was sent again: the late one changes nothing", async () => {
    const receipts = proxy.trap(EVENTS, "asked", RECEIPT);
    const id = await fixture.startTasks({ tasks: 3, steps: ["a"] });
    const { request, cut } = await receipts;
    // The worker's connection breaks; it sends the same again, and that is heard first.
    cut();
    await fixture.ended(id);
    const before = await lengthOf(id);
    const { status, body } = await proxy.replay(request);
    expect(status).toBe(200);
    expect(body).not.toContain('"accepted"');
    expect(await lengthOf(id)).toBe(before);
  });

  test("that come in reverse, in part, and all of them again after the end, change nothing", async () => {
    const id = await fixture.startTasks({ tasks: 4, steps: ["a", "b"], hold: { 0: ["after-a"] }, log: true });
    await fixture.ledger.seen({ what: "held", execution: id });
    await fixture.journaled(id, "tasks.settled");
    const before = (await fixture.eventsOf(id, "task.step")).length;
    for (const batch of batchesOf(id).toReversed()) await proxy.replay(batch);
    for (const batch of batchesOf(id)) await proxy.replay(reversed(batch));
    expect(await fixture.eventsOf(id, "task.step")).toHaveLength(before);
    fixture.openGate(id, 0, "after-a");
    await fixture.ended(id);
    const length = await lengthOf(id);
    for (const batch of [...batchesOf(id), ...batchesOf(id).toReversed()]) await proxy.replay(batch);
    expect(await lengthOf(id)).toBe(length);
    const logs = (await fixture.insist("GET", `/v1/executions/${id}/logs?limit=1000`)) as { data: unknown[] };
    expect(logs.data).toHaveLength(4);
  });

  test("that come again after kill -9 of the server change nothing", async () => {
    const hold = { 0: ["after-a"] };
    const id = await fixture.startTasks({ tasks: 3, steps: ["a", "b"], hold, log: true });
    await fixture.ledger.seen({ what: "held", execution: id });
    await fixture.journaled(id, "task.step", 5);
    // A receipt that is lost with the server may come too late for its lease, and then the task runs again.
    await until("the other tasks are settled", async () => {
      const view = (await fixture.insist("GET", `/v1/executions/${id}`)) as {
        phases: { handlers: { done: number }[] }[];
      };
      return view.phases[0]?.handlers[0]?.done === 2;
    });
    const old = batchesOf(id);
    await fixture.restartServer();
    // Said to a server that knows nothing of the worker any more, then to one that does, in any order.
    await until(
      "the worker is known again",
      async () => (await proxy.replay(old[0] as Passed)).status === 200,
    );
    for (const batch of old.toReversed()) await proxy.replay(batch);
    expect(await fixture.eventsOf(id, "task.step")).toHaveLength(5);
    fixture.openGate(id, 0, "after-a");
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
    expect(fixture.ledger.find({ what: "step", execution: id })).toHaveLength(6);
    const logs = (await fixture.insist("GET", `/v1/executions/${id}/logs?limit=1000`)) as { data: unknown[] };
    expect(logs.data).toHaveLength(3);
  });
});

/** The same events in reverse: those that are not the next one are not taken. */
function reversed(batch: Passed): Passed {
  const { tokens, events } = JSON.parse(batch.body) as { tokens: unknown; events: unknown[] };
  return { ...batch, body: JSON.stringify({ tokens, events: events.toReversed() }) };
}
