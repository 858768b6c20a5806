// Every request of the worker protocol, with any change to it: it is taken or refused, and harms nothing else.
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { HttpConnection } from "../../src/net/http-connection.ts";
import type { WorkItem } from "../../src/protocol/worker-wire.ts";
import { bindRoutes } from "../../src/server/route.ts";
import { workerRoutes } from "../../src/server/worker-protocol/worker-routes.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";
import { effort } from "../fixtures/long.ts";
import { mutated } from "../fixtures/workers/mutated-json.ts";
import { serveRoutes } from "../fixtures/workers/serve-routes-fixture.ts";
import { DONE, SessionFixture, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const numRuns = effort({ usual: 400, long: 20_000 });
const RUNS = [
  { name: "r0", expression: "s => s" },
  { name: "r1", expression: "s => s" },
];
const PHASES = [
  {
    name: "all",
    handlers: {
      map: { script: RUNS, state: 1 },
      list: { enumerate: { use: "w.list" }, use: "w.list" },
      one: { use: "w.one", tasks: [1] },
    },
  },
];

async function opened(): Promise<{ fixture: SessionFixture; work: readonly WorkItem[] }> {
  const fixture = await SessionFixture.open();
  unwrap(fixture.sessions.register(registration("one"), null));
  await fixture.start("e1", PHASES);
  const { work } = await fixture.claim("one", 10);
  expect(work.map(({ handler }) => handler).toSorted()).toEqual(["list", "map", "one"]);
  return { fixture, work };
}

function registration(worker: string) {
  const handlers = [
    { use: "w.list", enumerates: true },
    { use: "w.one" },
    { use: "w.a" },
    { use: "~script" },
  ];
  return { name: "fuzz", worker, handlers, topics: ["t1"], capacity: 10, version: "1" };
}

/** Events of all kinds about all attempts. */
function eventsOf(work: readonly WorkItem[]) {
  const id = (handler: string) => work.find((one) => one.handler === handler)?.attempt as string;
  const [map, list, one] = [id("map"), id("list"), id("one")];
  const error = { name: "E", message: "no", fatal: true, retryAfterMs: 5 };
  const said = [
    [map, { kind: "started" }],
    [map, { kind: "run_started", run: "r0" }],
    [map, { kind: "run_finished", run: "r0", index: 0, state: { a: 1 }, stats: { durationMs: 1 } }],
    [map, { kind: "run_crashed", run: "r1", message: "no" }],
    [map, { kind: "log", text: "x", level: "info", at: 5, run: "r1" }],
    [list, { kind: "accepted" }],
    [list, { kind: "page", from: 0, tasks: [1, 2], keys: ["a", "b"], identities: ["a", "b"] }],
    [one, { kind: "progress", done: 1, total: 2 }],
    [one, { kind: "step", name: "s", result: 1 }],
    [one, { kind: "receipt", status: "failed", error, ms: 5, stats: { durationMs: 1 } }],
  ] as const;
  const numbers = new Map<string, number>();
  const events = said.map(([attempt, body]) => {
    const n = (numbers.get(attempt) ?? 0) + 1;
    numbers.set(attempt, n);
    return { attempt, n, ...body };
  });
  const tokens = Object.fromEntries(work.map(({ attempt, token }) => [attempt, token]));
  return { tokens, acknowledged: { [map]: 0 }, events };
}

/** The value of a promise while time goes on. */
async function passing<T>({ clock }: SessionFixture, promise: Promise<T>): Promise<T> {
  const state = { isOver: false };
  const end = () => {
    state.isOver = true;
  };
  promise.then(end, end);
  for (;;) {
    await clock.settle();
    if (state.isOver) return promise;
    await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(1);
  }
}

/** Another execution still runs as it should, and the first one has no run that its script does not have. */
async function expectUnharmed({ fixture }: { fixture: SessionFixture }): Promise<void> {
  fixture.join("two", ["w.other"]);
  await fixture.start("e2", [tasksPhase("other", [1])]);
  const [work] = (await fixture.claim("two", 1)).work;
  await fixture.tell("two", [work as WorkItem, 1, DONE]);
  expect((await fixture.status("e2")).status).toBe("done");
  const runs = (await fixture.events("e1", "task.run")).map(({ name }) => name);
  expect(["r0", "r1"].slice(0, runs.length)).toEqual(runs);
}

test("any events are answered for each attempt, or refused as a whole", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.infiniteStream(fc.nat()), async (seeds) => {
      const world = await opened();
      const body = eventsOf(world.work);
      for (let i = 0; i < 20; i++) {
        const [changed] = fc.sample(mutated(body), { numRuns: 1, seed: seeds.next().value as number });
        const answer = await passing(world.fixture, world.fixture.sessions.events("one", changed));
        if (isRejection(answer)) continue;
        for (const verdict of Object.values(answer.verdicts)) expect(typeof verdict).toBe("string");
        for (const { code, message } of Object.values(answer.refused ?? {}))
          expect([typeof code, typeof message]).toEqual(["string", "string"]);
      }
      await expectUnharmed(world);
    }),
    { numRuns: numRuns / 20 },
  );
});

test("any registration, beat, claim, status and log is answered or refused with what is wrong", {
  timeout: 120_000,
}, async () => {
  const world = await opened();
  const { fixture, work } = world;
  const served = await serveRoutes(bindRoutes(workerRoutes, fixture.sessions));
  const connection = new HttpConnection({ address: served.url });
  onTestFinished(async () => {
    connection.close();
    await served.close();
  });
  const { tokens } = eventsOf(work);
  const script = work.find(({ do: kind }) => kind === "script") as WorkItem;
  const attempt = `/v1/attempts/${encodeURIComponent(script.attempt)}`;
  const requests: readonly (readonly [string, unknown])[] = [
    ["/v1/workers", registration("three")],
    ["/v1/workers/one/heartbeat", { tokens }],
    ["/v1/workers/one/claim", { max: 1, waitMs: 0 }],
    [`${attempt}/status`, { status: "done", run: "r0", state: 1, stats: { durationMs: 1, memoryBytes: 2 } }],
    [`${attempt}/logs`, { lines: [{ text: "x", level: "info", at: 1, run: "r0" }] }],
  ];
  for (const [path, right] of requests)
    await fc.assert(
      fc.asyncProperty(mutated(right), async (value) => {
        const body = JSON.stringify(value) ?? "null";
        const headers = path.startsWith(attempt) ? { authorization: `Bearer ${script.token}` } : {};
        const sent = connection.send({ method: "POST", path, body, headers });
        const { status, text } = await passing(fixture, sent);
        expect([200, 400, 403, 404, 409, 413, 422]).toContain(status);
        if (status !== 200) expect(JSON.parse(text)).toMatchObject({ code: expect.any(String) });
      }),
      { numRuns: numRuns / 4 },
    );
  await expectUnharmed(world);
});
