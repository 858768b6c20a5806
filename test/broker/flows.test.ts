// Code that a worker at the broker cannot serve: it is refused with the way out, or it waits and says for whom.
import { type AnyWorkflow, flow, handlerFor, type Rondo, workflow } from "rondo";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { AmqpFixture } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let broker: AmqpFixture;
let rondo: Rondo;
beforeEach(async () => {
  broker = await AmqpFixture.make();
  onTestFinished(() => broker.close());
  rondo = await broker.open();
});

/** A worker at the broker with the code of these workflows. */
async function atBroker(...workflows: AnyWorkflow[]): Promise<void> {
  const worker = testWorker(broker.broker.url, workflows);
  onTestFinished(() => worker.stop(0));
  await worker.start();
}

const kid = flow("kid", async () => 1);
const item = handlerFor<number>()({ name: "item", process: ({ task }) => task });
/** Everything that needs the journal. */
const REFUSED = {
  step: flow("step", ({ step }) => step("one", () => 1)),
  budget: flow("budget", ({ step }) => step("one", { retry: { attempts: 2 } }, () => 1)),
  sleep: flow("sleep", ({ sleep }) => sleep("nap", 1)),
  waitFor: flow("waitFor", ({ waitFor }) => waitFor("go")),
  signals: flow("signals", async ({ signals }) => {
    for await (const one of signals("go")) return one;
    return null;
  }),
  map: flow("map", ({ map }) => map("all", [1, 2], (n) => n)),
  "map with a handler": flow("maps", async ({ map }) => (await map("all", [1, 2], item)).count, {
    children: [item],
  }),
  run: flow("run", ({ run }) => run(kid, null), { children: [kid] }),
  start: flow("start", ({ start }) => start(kid, null), { children: [kid] }),
  continueAs: flow("continueAs", ({ continueAs }) => continueAs(null)),
  waitForUpdate: flow("waitForUpdate", async ({ waitForUpdate }) => (await waitForUpdate("u")).id),
  publish: flow("publish", async ({ publish }) => publish({ a: 1 })),
  stream: flow("stream", async ({ stream }) => stream("s").write("a")),
};

test("what needs the journal fails for good in its first attempt, and says which worker can do it", async () => {
  await atBroker(...Object.values(REFUSED));
  for (const [what, refused] of Object.entries(REFUSED)) {
    const execution = await rondo.start(refused as typeof kid, null);
    const failure = await execution.result({ timeout: 100_000 }).catch((thrown: unknown) => thrown);
    expect(failure, what).toMatchObject({
      cause: { message: expect.stringContaining("serve this workflow by workers without --broker") },
    });
    expect((await execution.describe()).error, what).toMatchObject({ attempt: 1 });
  }
});

test("what derives from the task alone is there: random, uuid, now, and tasks that add and wait for tasks", async () => {
  const derived = flow("derived", async ({ random, uuid, now }) => [
    typeof random("r"),
    uuid("u").length,
    now("n") > 0,
  ]);
  const graph = workflow<{ nodes: number }>({ name: "graph" })
    .phase("run", {
      enumerate: (): number[] => [0],
      identity: (n) => `n${n}`,
      after: (n) => (n === 0 ? [] : [`n${Math.floor((n - 1) / 2)}`]),
      adds: true,
      process: ({ task, input, add }) => {
        if (task === 0) add(...Array.from({ length: input.nodes - 1 }, (_, i) => i + 1), 0, 1);
        return task;
      },
    })
    .returns(({ phases }) => phases.run.count);
  await atBroker(derived, graph);
  expect(await rondo.run(derived, null)).toEqual(["number", 36, true]);
  expect(await rondo.run(graph, { nodes: 30 })).toBe(30);
});

describe("waits for a worker over HTTP or in process", () => {
  test("a workflow with a version, and names the version", async () => {
    const versioned = flow("versioned", async () => "done", { version: "1.4.0" });
    await atBroker(versioned);
    const execution = await rondo.start(versioned, null);
    await until("it says so", async () =>
      (await execution.why()).includes(
        'none serves "versioned.run" in a version that fits "^1.4.0" over HTTP or in process',
      ),
    );
    expect(await broker.visitQueues()).toEqual([]);
    rondo.serve(versioned);
    expect(await execution.result({ timeout: 100_000 })).toBe("done");
  });

  test("a task with journaled steps, which would run again at the broker", async () => {
    const ran: string[] = [];
    const order = flow("order", async ({ step, waitFor }) => {
      const charged = await step("charge", () => ran.push("charge"));
      await waitFor("paid");
      return charged;
    });
    rondo.serve(order);
    const { id } = await rondo.start(order, null, { id: "o-1" });
    await until("it waits", async () => (await rondo.execution(id).why()).includes('"paid"'));
    await rondo.close();

    const next = await broker.open();
    // Workers at the broker of both kinds: Rondo's own, and one that would do the whole task.
    await atBroker(order);
    const raw = await broker.worker({
      "order.run": { process: () => void ran.push("charge at the broker") },
    });
    await next.execution(id).signal("paid");
    await until("it says so", async () =>
      (await next.execution(id).why()).includes(
        "waits for a worker over HTTP or in process: 1 task has journaled steps",
      ),
    );
    expect(raw.seen).toEqual([]);
    next.serve(order);
    expect(await next.execution(id).result({ timeout: 100_000 })).toBe(1);
    expect(ran).toEqual(["charge"]);
  });
});
