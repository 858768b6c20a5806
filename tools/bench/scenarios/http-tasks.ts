/**
 * Many trivial tasks over HTTP: a server, and a worker in another process that claims and reports in batches. Then the same
 * while many clients follow the events of the execution.
 */
import { connect as connectSocket } from "node:net";
import { connect } from "../../../src/client/connect.ts";
import type { RondoClient } from "../../../src/sdk/handle.ts";
import { newExecutionId } from "../../../src/std/id.ts";
import { systemRandom } from "../../../src/std/random.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { trivial } from "../http/workflows.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { median, spread } from "../statistics.ts";

const CAPACITY = 2_000;
const RUNS = 3;
const WARM_UP_TASKS = 5_000;
const FOLLOWERS = 200;
const PAIRS = { short: 2, long: 5 };
/** Enough time for all followers to connect before the work begins. */
const BEFORE_MS = 2_000;

export const httpTasks: Scenario = {
  name: "http-tasks",
  about: "trivial tasks, by a worker process over HTTP",
  goals: [{ figure: "tasksPerSecond", label: "tasks/s", bound: "least", value: 15_000 }],
  parts: [runTasks],
};

export const httpFollowers: Scenario = {
  name: "http-followers",
  about: "the same, with and without 200 followers of the events",
  goals: [{ figure: "kept", label: "of the rate without followers", bound: "least", value: 0.8 }],
  parts: [runFollowed],
};

async function runTasks(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 20_000 : 100_000;
  const { server, url } = await RondoProcess.server(bench);
  let worker: RondoProcess | null = null;
  try {
    worker = await RondoProcess.worker(bench, url, CAPACITY);
    const rondo = connect({ url });
    await timeOf(rondo, WARM_UP_TASKS);
    const rates: number[] = [];
    const before = { server: server.cpuMs(), worker: worker.cpuMs() };
    for (let i = 0; i < RUNS; i++) {
      bench.progress(`run ${i + 1} of ${RUNS}`);
      rates.push(tasks / (await timeOf(rondo, tasks)));
    }
    const done = tasks * RUNS;
    return {
      tasks,
      runs: RUNS,
      tasksPerSecond: median(rates),
      tasksPerSecondSpread: spread(rates),
      serverCpuMicrosPerTask: ((server.cpuMs() - before.server) * 1_000) / done,
      workerCpuMicrosPerTask: ((worker.cpuMs() - before.worker) * 1_000) / done,
      serverPeakRssMb: server.peakRssMb(),
      workerPeakRssMb: worker.peakRssMb(),
    };
  } finally {
    await stopAll([worker, server]);
  }
}

async function runFollowed(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 20_000 : 100_000;
  const { server, url } = await RondoProcess.server(bench);
  let worker: RondoProcess | null = null;
  try {
    worker = await RondoProcess.worker(bench, url, CAPACITY);
    const rondo = connect({ url });
    await timeOf(rondo, WARM_UP_TASKS);
    const count = bench.isShort ? PAIRS.short : PAIRS.long;
    const pairs: { alone: Measured; followed: Measured; bytes: number }[] = [];
    for (let i = 0; i < count; i++) {
      bench.progress(`pair ${i + 1} of ${count}`);
      const followers = new Followers(url);
      const alone = (): Promise<Measured> =>
        measure(server, tasks, () => timeOf(rondo, tasks, () => Promise.resolve()));
      const followed = (): Promise<Measured> =>
        measure(server, tasks, () => timeOf(rondo, tasks, (id) => followers.follow(id)));
      // In turns, so that neither is always first.
      const first = i % 2 === 0 ? await alone() : await followed();
      const second = i % 2 === 0 ? await followed() : await alone();
      const [a, b] = i % 2 === 0 ? [first, second] : [second, first];
      pairs.push({ alone: a, followed: b, bytes: await followers.ended() });
    }
    const kept = pairs.map(({ alone, followed }) => followed.rate / alone.rate);
    return {
      tasks,
      pairs: count,
      followers: FOLLOWERS,
      tasksPerSecond: median(pairs.map(({ alone }) => alone.rate)),
      followedTasksPerSecond: median(pairs.map(({ followed }) => followed.rate)),
      kept: median(kept),
      keptSpread: spread(kept),
      serverCpuMicrosPerTask: median(pairs.map(({ alone }) => alone.cpuMicros)),
      followedServerCpuMicrosPerTask: median(pairs.map(({ followed }) => followed.cpuMicros)),
      kilobytesPerFollower: median(pairs.map(({ bytes }) => bytes)) / FOLLOWERS / 1_024,
      serverPeakRssMb: server.peakRssMb(),
    };
  } finally {
    await stopAll([worker, server]);
  }
}

interface Measured {
  readonly rate: number;
  /** The CPU time of the server per task. */
  readonly cpuMicros: number;
}

async function measure(server: RondoProcess, tasks: number, run: () => Promise<number>): Promise<Measured> {
  const before = server.cpuMs();
  const seconds = await run();
  return { rate: tasks / seconds, cpuMicros: ((server.cpuMs() - before) * 1_000) / tasks };
}

/** The seconds for one execution with this many tasks. If something is to be done first, the time starts after it. */
async function timeOf(
  rondo: RondoClient,
  tasks: number,
  before: ((id: string) => Promise<void>) | null = null,
): Promise<number> {
  const id = newExecutionId(Date.now(), systemRandom);
  const startAt = Date.now() + (before === null ? 0 : BEFORE_MS);
  const handle = await rondo.start(trivial, { tasks }, { id, ...(before === null ? {} : { startAt }) });
  await before?.(id);
  if (before !== null && Date.now() > startAt) throw new Error("the execution began too early");
  const done = await handle.result();
  const seconds = (Date.now() - startAt) / 1_000;
  if (done !== tasks) throw new Error(`${done} tasks were counted, not ${tasks}`);
  return seconds;
}

/** Clients that read the events of an execution to its end, and discard them. */
class Followers {
  readonly #url: URL;
  readonly #ends: Promise<number>[] = [];

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** Resolves when all clients follow. */
  async follow(id: string): Promise<void> {
    await Promise.all(
      Array.from({ length: FOLLOWERS }, () => {
        return new Promise<void>((follows) => {
          this.#ends.push(this.#one(id, follows));
        });
      }),
    );
  }

  /** The bytes that all clients have read; throws if one was cut off. */
  async ended(): Promise<number> {
    return (await Promise.all(this.#ends)).reduce((sum, bytes) => sum + bytes, 0);
  }

  #one(id: string, follows: () => void): Promise<number> {
    const { hostname, port, host } = this.#url;
    return new Promise((resolve, fail) => {
      const socket = connectSocket(Number(port), hostname);
      let bytes = 0;
      let last = "";
      socket.write(
        `GET /v1/executions/${id}/events HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n`,
      );
      socket.once("data", follows);
      socket.on("data", (data) => {
        bytes += data.length;
        last = (last + data.toString("latin1")).slice(-4_096);
      });
      socket.on("error", fail);
      socket.on("close", () => {
        if (last.includes("workflow.finished")) resolve(bytes);
        else fail(new Error(`a follower was cut off after ${bytes} bytes: ${last.slice(0, 200)}`));
      });
    });
  }
}
