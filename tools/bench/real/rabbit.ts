/** Jobs over RabbitMQ: tasks beside a bare worker, and commands that are submitted in bulk and answered by a bare worker. */
import { fileURLToPath } from "node:url";
import { type ChannelModel, connect as connectBroker } from "amqplib";
import { connect } from "../../../src/client/connect.ts";
import type { ProjectSubmission } from "../../../src/client.ts";
import { openRabbit } from "../amqp/open-rabbit.ts";
import { rawTasksPerSecond } from "../amqp/raw-amqp.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { inParallel } from "../in-parallel.ts";
import type { Bench, Figures } from "../scenario.ts";
import { median, spread } from "../statistics.ts";
import type { Job } from "./job.ts";
import { fan, taskOf } from "./workflows.ts";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const WORKFLOWS = fileURLToPath(new URL("./workflows.js", import.meta.url));
const WORKERS = 2;
/** How many times tasks run beside the bare worker, in turns. */
const PAIRS = 3;
const CAPACITY = 500;
const TOPIC = "REAL_CMD";
const RECEIPTS = "REAL_RECEIPTS";
const RECEIPTS_MAX_MS = 120_000;
const POLL_MS = 20;
/** The most workflows of one submission. */
const SUBMITTED = 100;

const tasks: Job = {
  name: "rabbit",
  about: "tasks over RabbitMQ, beside a bare worker",
  goals: [
    {
      figure: "tasksPerSecond",
      label: "tasks/s",
      bound: "least",
      file: 8_000,
      postgres: 7_000,
      raw: { figure: "rawTasksPerSecond", share: 0.6 },
    },
  ],
  parts: [runTasks],
  needsRabbit: true,
};

const commands: Job = {
  name: "commands",
  about: "commands that are submitted in bulk and answered by a bare worker",
  goals: [
    {
      figure: "commandsPerSecond",
      label: "commands/s with submission",
      bound: "least",
      file: 3_000,
      postgres: 2_500,
      raw: { figure: "rawTasksPerSecond" },
    },
  ],
  parts: [runCommands],
  needsRabbit: true,
};

export const rabbitJobs: readonly Job[] = [tasks, commands];

async function runTasks(bench: Bench): Promise<Figures> {
  const count = bench.isShort ? 5_000 : 30_000;
  return withServer(bench, async ({ url, brokerUrl, server, processes }) => {
    for (let i = 0; i < WORKERS; i++)
      processes.unshift(
        await RondoProcess.brokerWorker(bench, { url, broker: brokerUrl, capacity: CAPACITY }, WORKFLOWS),
      );
    const rondo = connect({ url });
    const run = async (tasks: number): Promise<number> => {
      const from = performance.now();
      const done = await rondo.run(fan, { tasks });
      if (done !== tasks) throw new Error(`${done} tasks were counted, not ${tasks}`);
      return tasks / ((performance.now() - from) / 1_000);
    };
    await run(count / 5);
    const own: number[] = [];
    const raws: number[] = [];
    const cpu = { server: 0, workers: 0 };
    const workers = processes.filter((one) => one !== server);
    const cpuOf = () => ({ server: server.cpuMs(), workers: sum(workers.map((one) => one.cpuMs())) });
    for (let i = 0; i < (bench.isShort ? 1 : PAIRS); i++) {
      bench.progress(`pair ${i + 1}`);
      const before = cpuOf();
      own.push(await run(count));
      const after = cpuOf();
      cpu.server += after.server - before.server;
      cpu.workers += after.workers - before.workers;
      raws.push(await rawRate(brokerUrl, count));
    }
    const all = own.length * count;
    return {
      tasks: count,
      tasksPerSecond: median(own),
      rawTasksPerSecond: median(raws),
      serverCpuMicros: (cpu.server * 1_000) / all,
      workerCpuMicros: (cpu.workers * 1_000) / all,
      serverPeakRssMb: server.peakRssMb(),
    };
  });
}

async function runCommands(bench: Bench): Promise<Figures> {
  const count = bench.isShort ? 500 : 5_000;
  return withServer(bench, async ({ url, brokerUrl, server }) => {
    bench.progress("commands, and a bare worker without Rondo in turn");
    const client = await CommandClient.open(url, brokerUrl);
    try {
      await client.submit(count);
      const rates: number[] = [];
      const raws: number[] = [];
      const cpu = server.cpuMs();
      for (let i = 0; i < (bench.isShort ? 1 : PAIRS); i++) {
        rates.push(count / (await client.submit(count)));
        raws.push(await rawRate(brokerUrl, count));
      }
      return {
        commands: count,
        commandsPerSecond: median(rates),
        commandsPerSecondSpread: spread(rates),
        rawTasksPerSecond: median(raws),
        serverCpuMicros: ((server.cpuMs() - cpu) * 1_000) / (count * rates.length),
        serverPeakRssMb: server.peakRssMb(),
      };
    } finally {
      await client.close();
    }
  });
}

interface Served {
  readonly url: string;
  readonly brokerUrl: string;
  readonly server: RondoProcess;
  /** The processes to stop, in this order. */
  readonly processes: RondoProcess[];
}

/** Runs a part with a RabbitMQ and a server that is connected to it. */
async function withServer(bench: Bench, run: (served: Served) => Promise<Figures>): Promise<Figures> {
  const broker = await openRabbit(bench.directory);
  const processes: RondoProcess[] = [];
  try {
    const { server, url } = await RondoProcess.server(bench, bench.database ?? undefined, [
      "--broker",
      broker.url,
    ]);
    processes.push(server);
    return await run({ url, brokerUrl: broker.url, server, processes });
  } finally {
    await stopAll(processes);
    await broker.close();
  }
}

function rawRate(url: string, tasks: number): Promise<number> {
  return rawTasksPerSecond(MAIN, { url, tasks, workers: WORKERS, prefetch: CAPACITY });
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** Submits workflows of one command each, in bulk, and answers each command as a bare worker does. */
class CommandClient {
  readonly #rondo: ReturnType<typeof connect>;
  readonly #connection: ChannelModel;
  #submitted = 0;

  private constructor(rondo: ReturnType<typeof connect>, connection: ChannelModel) {
    this.#rondo = rondo;
    this.#connection = connection;
  }

  static async open(url: string, brokerUrl: string): Promise<CommandClient> {
    const client = new CommandClient(connect({ url }), await connectBroker(brokerUrl));
    await client.#answer();
    return client;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Returns the seconds from the first submission until each of these commands has its result. */
  async submit(commands: number): Promise<number> {
    const first = this.#submitted;
    this.#submitted += commands;
    const from = performance.now();
    await inParallel(Math.ceil(commands / SUBMITTED), 2, (batch) => {
      const done = batch * SUBMITTED;
      return this.#rondo.submit("bench", submission(first + done, Math.min(SUBMITTED, commands - done)));
    });
    for (;;) {
      const { data } = await this.#rondo.list({ project: "bench", status: "running", limit: 1 });
      if (data.length === 0) return (performance.now() - from) / 1_000;
      if (performance.now() - from > RECEIPTS_MAX_MS)
        throw new Error(`a command has no receipt: ${JSON.stringify(data[0]?.phases)}`);
      await new Promise((resolve) => {
        setTimeout(resolve, POLL_MS);
      });
    }
  }

  async #answer(): Promise<void> {
    const publish = await this.#connection.createConfirmChannel();
    const consume = await this.#connection.createChannel();
    await consume.assertQueue(TOPIC, {
      durable: true,
      arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 },
    });
    await consume.prefetch(CAPACITY);
    await consume.consume(TOPIC, (message) => {
      if (message === null) return;
      const command = JSON.parse(message.content.toString()) as { proc: { receipt_topic_name: string } };
      const answer = Buffer.from(JSON.stringify({ ...command, cmd_result: { ok: true } }));
      publish.sendToQueue(
        RECEIPTS,
        answer,
        { persistent: true, contentType: "application/json" },
        (error) => {
          if (error === null) consume.ack(message);
        },
      );
    });
  }
}

function submission(from: number, many: number): ProjectSubmission {
  return {
    bench: {
      workflows: Array.from({ length: many }, (_, i) => ({
        steps: [
          {
            cmd: { cmd_type: "real", cmd_data: taskOf(from + i) },
            proc: { target_topic_name: TOPIC, receipt_topic_name: RECEIPTS },
          },
        ],
      })),
    },
  };
}
