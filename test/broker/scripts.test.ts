// Seed 002 as it is drawn: attempts with runs come from RabbitMQ, and everything else goes to the server over HTTP.
import { afterEach, describe, expect, test } from "vitest";
import { scriptsOf } from "../../src/compose/compose.ts";
import { openServer } from "../../src/compose/compose-server.ts";
import type {
  RunningScript,
  ScriptAttempt,
  ScriptEnd,
  ScriptEvent,
} from "../../src/worker/sandbox/script-attempt.ts";
import type { ScriptSandbox } from "../../src/worker/script-runner.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { described } from "../fixtures/broker/described-workflow.ts";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { all } from "../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../fixtures/until.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

const RUNS = [
  { name: "one", expression: "(s, ctx) => { console.log(`n is ${s.n}`); return { n: s.n * 2 }; }" },
  { name: "two", expression: "s => ({ n: s.n + 1 })" },
];

async function open() {
  const broker = await openTestBroker();
  ends.push(() => broker.remove());
  const brokerSettings = { broadcastMs: 300, lookMs: 200, silenceMs: 60_000 };
  const server = await openServer({
    store: "memory:",
    broker: broker.url,
    port: 0,
    brokerSettings,
    settings: { heartbeatMs: 2_000 },
  });
  ends.push(() => server.close());
  return { broker, server };
}

/** A worker of scripts only. */
async function work(at: Awaited<ReturnType<typeof open>>, scripts = scriptsOf(true)) {
  const notes: string[] = [];
  const worker = testWorker(at.broker.url, [], {
    scripts: { scripts, addresses: [at.server.url] },
    status: { host: "127.0.0.1", port: 0 },
    onNote: (what) => notes.push(what),
  });
  ends.push(() => worker.stop(0));
  await worker.start();
  return { worker, notes };
}

/** A sandbox that a test plays. */
function played(): {
  open: () => Promise<ScriptSandbox>;
  attempts: ScriptAttempt[];
  say: (event: ScriptEvent) => void;
  end: (end: ScriptEnd) => void;
} {
  const attempts: ScriptAttempt[] = [];
  let say: (event: ScriptEvent) => void = () => {};
  let end: (end: ScriptEnd) => void = () => {};
  const run = (attempt: ScriptAttempt, onEvent: (event: ScriptEvent) => void): RunningScript => {
    attempts.push(attempt);
    say = onEvent;
    const done = new Promise<ScriptEnd>((resolve) => {
      end = resolve;
    });
    return { done, cancel: (reason) => end({ kind: "cancelled", run: null, reason }) };
  };
  return {
    open: async () => ({ run, close: async () => {} }),
    attempts,
    say: (event) => say(event),
    end: (one) => end(one),
  };
}

const flow = (more: object = {}) =>
  described("flow", [{ name: "map", handlers: { map: { script: RUNS, state: { n: 20 }, ...more } } }]);

const kinds = (events: readonly { kind: string }[]) =>
  events.map(({ kind }) => kind.replace("workflow.", ""));

describe("2.04 a script over RabbitMQ", () => {
  test("is done by a worker at the broker; its notices and logs reach the server by HTTP", async () => {
    const at = await open();
    const { notes } = await work(at);
    const handle = await at.server.rondo.start(flow(), null as never);
    await handle.result({ timeout: 100_000 });
    const events = kinds(await all(handle.events())).filter((kind) => kind.startsWith("task"));
    // The broker carries the start, HTTP the runs: nothing orders the one road against the other.
    expect(events.filter((kind) => kind.startsWith("task.run"))).toEqual([
      "task.run.started",
      "task.run",
      "task.run.started",
      "task.run",
    ]);
    expect(events.filter((kind) => kind.startsWith("tasks."))).toEqual([
      "tasks.accepted",
      "tasks.started",
      "tasks.settled",
    ]);
    expect(events.at(-1)).toBe("tasks.settled");
    expect((await all(handle.logs())).map(({ text, run }) => [text, run])).toEqual([["n is 20", "one"]]);
    expect(notes).toEqual([]);
  });

  test("goes on after its last finished run where another worker takes it over; runs have a status there", async () => {
    const at = await open();
    const first = played();
    const { worker } = await work(at, { open: first.open, atOnce: 1 });
    const handle = await at.server.rondo.start(flow(), null as never);
    await until("it runs", () => first.attempts.length === 1);
    const stats = { durationMs: 1.5, memoryBytes: 10 };
    first.say({ kind: "run_started", run: "one" });
    first.say({ kind: "run_finished", run: "one", state: '{"n":40}', oversized: false, stats });
    first.say({ kind: "run_started", run: "two" });
    const get = async (path: string) =>
      (await (await fetch(`${at.server.url}${path}`)).json()) as {
        data: { kind: string; attempt: string }[];
      };
    const events = `/v1/executions/${handle.id}/events?kinds=task.run`;
    const journaled = async () => kinds((await get(events)).data).includes("task.run");
    await until("the first run is journaled", journaled);
    const [attempt] = (await get("/v1/attempts")).data;
    const status = async (run: string) =>
      (await (await fetch(`${worker.url}/attempts/${attempt?.attempt}/runs/${run}`)).json()) as {
        status: string;
      };
    await until("the second run has begun", async () => (await status("two")).status === "running");
    expect(await status("one")).toMatchObject({ status: "finished" });
    const second = played();
    await work(at, { open: second.open, atOnce: 1 });
    await worker.stop(0);
    await until("another worker has it", () => second.attempts.length === 1);
    expect(second.attempts[0]).toMatchObject({ finished: 1, state: '{"n":40}' });
    second.say({ kind: "run_started", run: "two" });
    second.say({ kind: "run_finished", run: "two", state: '{"n":41}', oversized: false, stats });
    second.end({ kind: "done", state: '{"n":41}', oversized: false });
    await handle.result({ timeout: 100_000 });
    expect(await handle.status()).toBe("done");
  });

  test("that is cancelled stops at its worker", async () => {
    const at = await open();
    const sandbox = played();
    await work(at, { open: sandbox.open, atOnce: 1 });
    const handle = await at.server.rondo.start(flow(), null as never);
    await until("it runs", () => sandbox.attempts.length === 1);
    sandbox.say({ kind: "run_started", run: "one" });
    await handle.cancel({ reason: "enough" });
    await until("it is cancelled", async () => (await handle.status()) === "cancelled");
    const crashed = (await all(handle.events({ detail: "full" }))).filter(
      ({ kind }) => kind === "workflow.task.run.crashed",
    );
    expect(crashed).toMatchObject([{ name: "one", reason: "ended" }]);
  });
});
