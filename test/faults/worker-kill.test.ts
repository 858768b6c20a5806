// kill -9 of a worker at moments that a proxy or the ledger chooses, with and without a spool. Another one does what it
// left, what it had journaled is not done again, and each task counts once.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { rowsOf } from "../fixtures/faults/audit.ts";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import type { FaultProcess } from "../fixtures/faults/fault-process-fixture.ts";
import { CLAIM, EVENTS, expectWell, RECEIPT, STEP } from "../fixtures/faults/open-fault-fixture.ts";
import { RequestProxy } from "../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let fixture: FaultFixture;
/** All that has to do with the worker that will die goes through it. */
let proxy: RequestProxy;

beforeAll(async () => {
  fixture = await FaultFixture.open({ config: { heartbeat: "1s", claimLease: "1s" } });
  proxy = await RequestProxy.start(fixture.url);
});

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    proxy.close();
    await fixture.close();
  }
});

describe.each([
  ["without a spool", []],
  ["with a spool", ["--spool", "spool"]],
])("kill -9 of a worker %s", (_, args) => {
  /** The worker that will die; no other runs. */
  async function victim(): Promise<FaultProcess> {
    await fixture.dismiss();
    return fixture.worker({ url: proxy.url, args, heartbeat: "1s" });
  }

  /** The one that takes its place. */
  const successor = (): Promise<FaultProcess> => fixture.worker({ args, heartbeat: "1s" });

  test("after a claim that it never read: the task runs once, and no attempt is burnt", async () => {
    const worker = await victim();
    const claimed = proxy.trap(CLAIM, "answered", /^/);
    const id = await fixture.startTasks({ tasks: 1 }, "brisk");
    const { cut } = await claimed;
    await worker.kill();
    cut();
    await successor();
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(["0#1"]);
    expect(await fixture.eventsOf(id, "tasks.lost")).toEqual([]);
    expect(await fixture.eventsOf(id, "handler.lost")).toEqual([]);
  });

  test("in a task, in a step and between steps: each is lost once, and goes on after what was journaled", async () => {
    const worker = await victim();
    const hold = { 0: ["begin"], 1: ["in-b"], 2: ["after-a"], 3: ["end"] };
    const id = await fixture.startTasks({ tasks: 4, steps: ["a", "b"], hold }, "brisk");
    await fixture.ledger.seen({ what: "held", execution: id }, 4);
    await fixture.journaled(id, "task.step", 4);
    // The first task has no step, so its attempt counts only if its start is recorded.
    await until("the start of the first task is recorded", async () =>
      (await fixture.eventsOf(id, "tasks.started")).flatMap(rowsOf).some(({ n }) => n === 0),
    );
    await worker.kill();
    for (const [task, [where = ""]] of Object.entries(hold)) fixture.openGate(id, Number(task), where);
    await successor();
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(["0#1", "0#2", "1#1", "1#2", "2#1", "2#2", "3#1", "3#2"]);
    const ran = fixture.ledger
      .find({ what: "step", execution: id })
      .map(({ key, name, attempt }) => `${key?.split("/").at(-1)}${name}#${attempt}`);
    expect(ran.sort()).toEqual(["0a#2", "0b#2", "1a#1", "1b#1", "1b#2", "2a#1", "2b#2", "3a#1", "3b#1"]);
    const lost = (await fixture.eventsOf(id, "tasks.lost")).flatMap(rowsOf);
    expect(lost.map(({ n, attempt }) => `${n}#${attempt}`).sort()).toEqual(["0#1", "1#1", "2#1", "3#1"]);
  });

  test("after its step was stored and before it heard so: the step does not run again", async () => {
    const worker = await victim();
    const stored = proxy.trap(EVENTS, "answered", STEP);
    const id = await fixture.startTasks({ tasks: 1, steps: ["a", "b"] }, "brisk");
    const { cut } = await stored;
    await worker.kill();
    cut();
    await successor();
    await fixture.ended(id);
    const ran = fixture.ledger.find({ what: "step", execution: id });
    expect(ran.map(({ name, attempt }) => [name, attempt])).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
  });

  test("after its receipt was stored and before it heard so: it counts, once, and nothing runs again", async () => {
    const worker = await victim();
    const id = await fixture.startTasks({ tasks: 1, hold: { 0: ["end"] } }, "brisk");
    await fixture.ledger.seen({ what: "held", execution: id });
    const stored = proxy.trap(EVENTS, "answered", RECEIPT);
    fixture.openGate(id, 0, "end");
    const { cut, answer } = await stored;
    expect(answer?.body).toContain("accepted");
    await worker.kill();
    cut();
    await fixture.ended(id);
    const { revision } = await fixture.ended(id);
    // What is in its spool is said once more by the successor: nothing comes of it.
    await successor();
    const after = await fixture.startTasks({ tasks: 1 }, "brisk");
    await fixture.ended(after);
    expect((await fixture.ended(id)).revision).toBe(revision);
    expect(fixture.begun(id)).toEqual(["0#1"]);
  });

  test("while the server was away: what is on disk survives, what is not is done again", async () => {
    const worker = await victim();
    const id = await fixture.startTasks(
      { tasks: 2, steps: ["a"], hold: { 0: ["end"], 1: ["in-a"] } },
      "brisk",
    );
    await fixture.ledger.seen({ what: "held", execution: id }, 2);
    await fixture.journaled(id, "task.step");
    await fixture.journaled(id, "tasks.started");
    const receipt = proxy.trap(EVENTS, "asked", RECEIPT);
    fixture.openGate(id, 0, "end");
    const { cut } = await receipt;
    await worker.kill();
    cut();
    fixture.openGate(id, 1, "in-a");
    await successor();
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(args.length > 0 ? ["0#1", "1#1", "1#2"] : ["0#1", "0#2", "1#1", "1#2"]);
  });
});

test("a worker that idles is gone from lists, figures and why within its heartbeat", async () => {
  await fixture.dismiss();
  const worker = await fixture.worker();
  const seen = async () => {
    const workers = (await fixture.insist("GET", "/v1/workers")) as { data: unknown[] };
    const scaling = (await fixture.insist("GET", "/v1/scaling")) as { workers: number; capacity: number };
    const metrics = await (await fetch(`${fixture.url}/metrics`)).text();
    const gauge = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(metrics)?.[1]);
    return [
      workers.data.length,
      ...[scaling.workers, scaling.capacity],
      ...[gauge("rondo_workers"), gauge("rondo_worker_capacity")],
    ];
  };
  await until("the worker is counted", async () => (await seen()).every((count) => count > 0));
  await worker.kill();
  const id = await fixture.startTasks({ tasks: 1 });
  const whys: string[] = [];
  await until("nobody counts on it", async () => {
    whys.push(JSON.stringify(await fixture.insist("GET", `/v1/executions/${id}/why`)));
    return (await seen()).every((count) => count === 0);
  });
  expect(whys.filter((why) => why.includes(" 0 tasks"))).toEqual([]);
  expect(whys.at(-1) ?? "").toContain("none serves");
  await fixture.worker();
  await fixture.ended(id);
});
