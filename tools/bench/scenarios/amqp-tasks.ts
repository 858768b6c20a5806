/**
 * Many trivial tasks through a broker with two worker processes, beside the client library alone at the same broker with the
 * same two messages per task. Both are measured in turns, because machines are shared.
 */
import { fileURLToPath } from "node:url";
import { connect } from "../../../src/client/connect.ts";
import { openRabbit } from "../amqp/open-rabbit.ts";
import { rawTasksPerSecond } from "../amqp/raw-amqp.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { trivial } from "../http/workflows.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { median, spread } from "../statistics.ts";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const WORKERS = 2;
const CAPACITY = 500;
const RUNS = 3;
const WARM_UP_TASKS = 3_000;

export const amqp: Scenario = {
  name: "amqp",
  about: "trivial tasks through RabbitMQ, by two worker processes, beside the bare client library",
  goals: [{ figure: "ofRaw", label: "of the bare client library", bound: "least", value: 0.5 }],
  parts: [runTasks],
};

async function runTasks(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 10_000 : 50_000;
  const rabbit = await openRabbit(bench.directory);
  const processes: RondoProcess[] = [];
  try {
    const { server, url } = await RondoProcess.server(bench, undefined, ["--broker", rabbit.url]);
    processes.push(server);
    for (let i = 0; i < WORKERS; i++)
      processes.unshift(
        await RondoProcess.brokerWorker(bench, { url, broker: rabbit.url, capacity: CAPACITY }),
      );
    const rondo = connect({ url });
    const timed = async (count: number): Promise<number> => {
      const from = performance.now();
      const done = await (await rondo.start(trivial, { tasks: count })).result();
      if (done !== count) throw new Error(`${done} tasks were counted, not ${count}`);
      return count / ((performance.now() - from) / 1_000);
    };
    await timed(WARM_UP_TASKS);
    const own: number[] = [];
    const raw: number[] = [];
    const before = processes.map((one) => one.cpuMs());
    for (let i = 0; i < RUNS; i++) {
      bench.progress(`pair ${i + 1} of ${RUNS}`);
      own.push(await timed(tasks));
      raw.push(
        await rawTasksPerSecond(MAIN, { url: rabbit.url, tasks, workers: WORKERS, prefetch: CAPACITY }),
      );
    }
    const cpuMs = processes.map((one, i) => one.cpuMs() - (before[i] ?? 0));
    const perTask = (ms: number): number => (ms * 1_000) / (tasks * RUNS);
    const ratios = own.map((rate, i) => rate / (raw[i] as number));
    return {
      tasks,
      pairs: RUNS,
      tasksPerSecond: median(own),
      tasksPerSecondSpread: spread(own),
      rawTasksPerSecond: median(raw),
      rawTasksPerSecondSpread: spread(raw),
      ofRaw: median(ratios),
      ofRawSpread: spread(ratios),
      serverCpuMicrosPerTask: perTask(cpuMs.at(-1) ?? 0),
      workerCpuMicrosPerTask: perTask(cpuMs.slice(0, -1).reduce((sum, ms) => sum + ms, 0)),
      serverPeakRssMb: server.peakRssMb(),
    };
  } finally {
    await stopAll(processes);
    await rabbit.close();
  }
}
