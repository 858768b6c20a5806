// A remote worker over HTTP to a real server, both in this process: the whole of what handlers can do, from afar.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ChildFailed, Fatal, flow, handlerFor, workflow } from "rondo";
import { describe, expect, onTestFinished, test } from "vitest";
import { scriptsOf } from "../../src/compose/compose.ts";
import { openServer } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { WorkerInquiry } from "../../src/server/worker-protocol/ask-worker.ts";
import { type HostedWorkflow, withChildren } from "../../src/worker/handler-code.ts";
import type { RemoteWorker, RemoteWorkerOptions } from "../../src/worker/http/remote-worker.ts";
import { startRemoteWorker } from "../fixtures/workers/remote-worker-fixture.ts";
import { Proxy } from "../fixtures/workers/worker-proxy-fixture.ts";

async function serve(): Promise<RondoServer> {
  const server = await openServer({
    store: "memory:",
    port: 0,
    onStop: (reason) => {
      throw reason;
    },
  });
  onTestFinished(() => server.close({ graceMs: 0 }));
  return server;
}

async function work(
  server: RondoServer,
  workflows: readonly HostedWorkflow[],
  more: Partial<RemoteWorkerOptions> = {},
): Promise<{ worker: RemoteWorker; ids: string[] }> {
  const ids: string[] = [];
  for (const { definition } of withChildren(workflows))
    await fetch(`${server.url}/v1/workflows`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(definition),
    });
  const worker = await startRemoteWorker({
    addresses: [server.url],
    workflows,
    onRegistered: (id) => ids.push(id),
    ...more,
  });
  return { worker, ids };
}

/** A promise that the test resolves. */
function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Requests so far, by route. */
async function requests(server: RondoServer): Promise<Map<string, number>> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const counts = new Map<string, number>();
  for (const [, route, count] of text.matchAll(/^\w+_count\{[^}]*route="([^"]+)"[^}]*\} (\d+)$/gm))
    counts.set(route as string, (counts.get(route as string) ?? 0) + Number(count));
  return counts;
}

describe("handlers at a remote worker", () => {
  test("enumerate, process, decide, read earlier results and return", async () => {
    const server = await serve();
    let visits = 0;
    const loop = workflow({ name: "loop" })
      .phase("count", {
        enumerate: async function* () {
          for (let i = 0; i < 2_500; i++) yield i;
        },
        process: ({ task }: { task: number }) => task,
      })
      .phase(
        "again",
        {
          async process({ phases }) {
            const counted = (
              phases as {
                count: { reduce: (f: (a: number, b: number) => number, n: number) => Promise<number> };
              }
            ).count;
            return counted.reduce((sum, n) => sum + n, 0);
          },
        },
        { next: () => (++visits < 2 ? "count" : "end"), among: ["count", "end"] },
      )
      .phase("end", {}, { final: true })
      .returns(async ({ phases }) => {
        const { again } = phases as unknown as {
          again: { results(): AsyncIterable<number>; visit(n: number): { results(): AsyncIterable<number> } };
        };
        const all: number[] = [];
        for await (const sum of again.visit(1).results()) all.push(sum);
        for await (const sum of again.results()) all.push(sum);
        return all;
      });
    await work(server, [loop], { capacity: 500 });
    expect(await server.rondo.run("loop", null)).toEqual([3_123_750, 3_123_750]);
  });

  test("run and start other workflows, read a clock that stays, and go on after failures", async () => {
    const server = await serve();
    const times: number[] = [];
    const half = flow("half", async ({ sleep }, n: number) => {
      await sleep("a moment", 20);
      if (n % 2 === 1) throw new Fatal(`${n} is odd`);
      return n / 2;
    });
    const parent = flow("parent", async ({ run, start, now, step }, n: number) => {
      times.push(now("began"));
      const quarter = await run(half, await run(half, n), { name: "again" });
      const odd = await run(half, 3, { name: "odd" }).catch((thrown: unknown) => thrown);
      const { id } = await start(half, 8, { name: "alone" });
      const failed = odd instanceof ChildFailed ? (odd.cause as Error).message : "nothing";
      return step("sum", () => ({ quarter, failed, id }));
    });
    await work(server, [half, parent]);
    const output = (await server.rondo.run("parent", 20)) as { quarter: number; failed: string; id: string };
    expect(output).toEqual({ quarter: 5, failed: "3 is odd", id: expect.stringContaining("~") });
    expect(await server.rondo.execution(output.id).result()).toBe(4);
    expect(times.length).toBeGreaterThan(3);
    expect(new Set(times).size).toBe(1);
  });

  test("map items to a handler: pages over HTTP, results of the child, failures", async () => {
    const server = await serve();
    const double = handlerFor<{ n: number }>()({
      name: "double",
      tolerate: 1,
      retry: { attempts: 1 },
      process: ({ task }) => {
        if (task.n === 1_234) throw new Fatal("no");
        return task.n * 2;
      },
    });
    const parent = workflow<number>({ name: "parent", children: [double] }).phase("all", {
      tasks: [0, 1],
      process: async ({ map, input, task }) => {
        const items = Array.from({ length: input }, (_, n) => ({ n: n + task }));
        const all = await map("double", items, double);
        const failed: unknown[] = [];
        for await (const { task: index, data, error } of all.failures())
          failed.push([index, data, error.message]);
        const first = (await all.toArray()).slice(0, 2);
        return { count: all.count, sum: await all.reduce((sum, n) => sum + n, 0), first, failed };
      },
    });
    const whole = parent.returns(({ phases }) => phases.all.toArray());
    await work(server, [whole]);
    const outputs = (await server.rondo.run("parent", 2_500)) as { first: number[] }[];
    outputs.sort((a, b) => (a.first[0] ?? 0) - (b.first[0] ?? 0));
    const sum = (from: number): number => 2_499 * 2_500 + 5_000 * from - 2_468;
    expect(outputs).toEqual([
      { count: 2_499, sum: sum(0), first: [0, 2], failed: [[1_234, { n: 1_234 }, "no"]] },
      { count: 2_499, sum: sum(1), first: [2, 4], failed: [[1_233, { n: 1_234 }, "no"]] },
    ]);
  });

  test("read earlier results once a server that is not there is there again", async () => {
    const server = await serve();
    const proxy = await Proxy.start(server.url);
    let reads = 0;
    const sum = workflow({ name: "sum" })
      .phase("a", { enumerate: () => [1, 2, 3], process: ({ task }: { task: number }) => task })
      .returns(async ({ phases }) => {
        reads++;
        proxy.isDown = true;
        proxy.cut();
        const all: unknown[] = [];
        for await (const n of (phases as unknown as { a: { results(): AsyncIterable<number> } }).a.results())
          all.push(n);
        return all;
      });
    await work(server, [sum], {
      addresses: [proxy.url],
      onTrouble: () => {
        proxy.isDown = false;
      },
    });
    expect(await server.rondo.run("sum", null)).toEqual([1, 2, 3]);
    expect(reads).toBe(1);
  });

  test("use steps, sleeps and waits; what is journaled does not run again", async () => {
    const server = await serve();
    const ran: string[] = [];
    const steps = workflow({ name: "steps" }).phase("a", {
      async process({ step, sleep, waitFor, attempt }) {
        ran.push(`attempt ${attempt}`);
        const one = await step("one", () => {
          ran.push("one");
          return { one: 1 };
        });
        await sleep("nap", "10ms");
        const answer = await waitFor("go");
        const two = await step("two", async () => {
          ran.push("two");
          return 2;
        });
        return [one, answer, two];
      },
    });
    await work(server, [steps]);
    const handle = await server.rondo.start("steps", null, { id: "s1" });
    await handle.signal("go", { by: "me" });
    expect(await handle.result()).toEqual([{ one: 1 }, { by: "me" }, 2]);
    expect(ran.filter((what) => what === "one" || what === "two")).toEqual(["one", "two"]);
    expect(ran.filter((what) => what.startsWith("attempt"))).toHaveLength(3);
  });

  test("do batches, and fail as handlers do: errors, fatal ones, values that cannot be stored", async () => {
    const server = await serve();
    const sizes: number[] = [];
    const batches = workflow({ name: "batches" }).phase("a", {
      enumerate: () => [0, 1, 2, 3, 4, 5],
      batch: 3,
      processBatch({ tasks }) {
        sizes.push(tasks.length);
        return tasks.map((task) =>
          task === 4 ? Object.assign(new Error("no"), { [Symbol.for("rondo.fatal")]: true }) : task,
        );
      },
      tolerate: 1,
    });
    const map = workflow({ name: "map" }).phase("a", { process: () => ({ when: new Map() }) as never });
    await work(server, [batches, map]);
    await server.rondo.run("batches", null);
    expect(sizes.reduce((sum, n) => sum + n, 0)).toBe(6);
    expect(Math.max(...sizes)).toBe(3);
    const { error } = await server.rondo.run("map", null).then(
      () => ({ error: null }),
      (failed: { execution: { error: unknown } }) => failed.execution,
    );
    expect(error).toMatchObject({ phase: "a", task: 0 });
  });

  test("do scripts, in a lane of their own that takes only as many as the sandbox does at a time", async () => {
    const server = await serve();
    const definition = {
      name: "script",
      phases: [
        {
          name: "map",
          handlers: {
            map: {
              script: [
                { name: "add", expression: "(s) => ({ n: s.n + 1 })" },
                { name: "double", expression: "(s, ctx) => ({ n: s.n * 2, run: ctx.run })" },
              ],
              state: { n: 20 },
            },
          },
        },
      ],
    };
    const scripts = { ...scriptsOf(true), atOnce: 1 };
    const { ids } = await work(server, [{ name: "script", definition, handlers: [] }], { scripts });
    const handle = await server.rondo.start("script", null);
    await handle.result();
    const { data } = (await (await fetch(`${server.url}/v1/workers`)).json()) as {
      data: { id: string; capacity: number; name: string }[];
    };
    expect(data.filter(({ id }) => ids.includes(id))).toMatchObject([{ name: "test", capacity: 1 }]);
  });
});

describe("a remote worker", () => {
  const quick = workflow({ name: "quick" }).phase("a", {
    enumerate: ({ input }: { input: unknown }) => Array.from({ length: input as number }, (_, i) => i),
    process: () => 1,
  });

  test("that idles has one request under way, and does not beat", async () => {
    const server = await serve();
    await work(server, [quick]);
    await server.rondo.run("quick", 5);
    const counts = await requests(server);
    expect(counts.get("/v1/workers/{id}/heartbeat")).toBeUndefined();
    expect(counts.get("/v1/workers")).toBe(1);
    const before = counts.get("/v1/workers/{id}/claim") ?? 0;
    // Other requests come and go meanwhile; the claim waits.
    await server.rondo.list();
    expect((await requests(server)).get("/v1/workers/{id}/claim") ?? 0).toBe(before);
  });

  test("tries its servers in turn", async () => {
    const server = await serve();
    const dead = createServer().listen(0, "127.0.0.1");
    await once(dead, "listening");
    const { port } = dead.address() as AddressInfo;
    dead.close();
    await once(dead, "close");
    await work(server, [quick], { addresses: [`http://127.0.0.1:${port}`, server.url] });
    await server.rondo.run("quick", 3);
    expect((await requests(server)).get("/v1/workers")).toBe(1);
  });

  test("registers again, under its id, with a server that has forgotten it", async () => {
    const server = await serve();
    const { ids } = await work(server, [quick]);
    await server.rondo.run("quick", 3);
    await fetch(`${server.url}/v1/workers/${ids[0]}`, { method: "DELETE" });
    await server.rondo.run("quick", 3);
    const { data } = (await (await fetch(`${server.url}/v1/workers`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toContain(ids[0]);
    expect(ids).toHaveLength(1);
  });

  test("says over its own API whether it is well and which attempts it has", async () => {
    const server = await serve();
    let release: () => void = () => {};
    const begun = deferred<void>();
    const slow = workflow({ name: "slow" }).phase("a", {
      process: () => {
        begun.resolve();
        return new Promise<void>((resolve) => {
          release = resolve;
        });
      },
    });
    const { worker } = await work(server, [slow], { statusPort: 0 });
    const handle = await server.rondo.start("slow", null, { id: "s1" });
    await begun.promise;
    const url = worker.url ?? "";
    const inquiry = new WorkerInquiry(url);
    expect(await (await fetch(`${url}/healthz`)).json()).toMatchObject({ ok: true, held: 1, capacity: 10 });
    expect(await inquiry.ask("s1.a.1.a.1.0.1.0.1")).toBe(true);
    expect(await inquiry.ask("s1.a.1.a.1.0.2.0.1")).toBe(false);
    release();
    await handle.result();
    await worker.stop(0);
    expect(await inquiry.ask("s1.a.1.a.1.0.1.0.1")).toBe(false);
    inquiry.close();
  });

  test("keep the fields of their log lines", async () => {
    const server = await serve();
    const paid = workflow({ name: "paid" }).phase("a", {
      process: ({ log }) => {
        log.info({ order: 7, by: { card: true } }, "paid\ntwice");
        log("plain");
      },
    });
    await work(server, [paid]);
    const handle = await server.rondo.start("paid", null);
    await handle.result();
    const url = `${server.url}/v1/executions/${handle.id}/logs`;
    const { data } = (await (await fetch(url)).json()) as { data: { text: string; fields?: unknown }[] };
    expect(data.map(({ text, fields }) => ({ text, fields }))).toEqual([
      { text: "{ order: 7, by: { card: true } } paid", fields: { order: 7, by: { card: true } } },
      { text: "twice", fields: undefined },
      { text: "plain", fields: undefined },
    ]);
  });

  test("C18 is told of a cancel at once, over the claim that waits", async () => {
    const server = await serve();
    const begun = deferred<AbortSignal>();
    const slow = workflow({ name: "slow" }).phase("a", {
      process: ({ signal, log }) => {
        begun.resolve(signal);
        return new Promise<void>((_, fail) => {
          signal.addEventListener("abort", () => {
            log("last words");
            fail(signal.reason as Error);
          });
        });
      },
    });
    await work(server, [slow]);
    const handle = await server.rondo.start("slow", null);
    const signal = await begun.promise;
    const aborted = once(signal, "abort");
    await handle.cancel();
    await aborted;
    await expect(handle.result()).rejects.toMatchObject({ name: "ExecutionCancelled" });
  });
});
