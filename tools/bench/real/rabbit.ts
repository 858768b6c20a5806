/** Jobs over RabbitMQ: tasks beside a bare worker, and commands that are submitted in bulk and answered by a bare worker. */
import { fileURLToPath } from "node:url";
import { connect as connectBroker } from "amqplib";
import { connect } from "../../../src/client/connect.ts";
import type { ProjectSubmission } from "../../../src/client.ts";
import { openRabbit } from "../amqp/open-rabbit.ts";
import { rawTasksPerSecond } from "../amqp/raw-amqp.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { inParallel } from "../in-parallel.ts";
import type { Bench, Figures } from "../scenario.ts";
import { median } from "../statistics.ts";
import type { Job } from "./job.ts";
import { fan, taskOf } from "./workflows.ts";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const WORKFLOWS = fileURLToPath(new URL("./workflows.js", import.meta.url));
const WORKERS = 2;
const CAPACITY = 500;
const TOPIC = "REAL_CMD";
const RECEIPTS = "REAL_RECEIPTS";
const RECEIPTS_MAX_MS = 120_000;
const POLL_MS = 20;
/** The most workflows of one submission. */
const SUBMITTED = 100;

export const rabbit: Job = {
  name: "rabbit",
  about: "tasks and commands over RabbitMQ, beside a bare worker",
  goals: [
    {
      figure: "tasksPerSecond",
      label: "tasks/s",
      bound: "least",
      file: 8_000,
      postgres: 7_000,
      raw: { figure: "rawTasksPerSecond", share: 0.6 },
    },
    {
      figure: "commandsPerSecond",
      label: "commands/s with submission",
      bound: "least",
      file: 3_000,
      postgres: 2_500,
      raw: { figure: "rawTasksPerSecond" },
    },
  ],
  parts: [runRabbit],
  needsRabbit: true,
};

async function runRabbit(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 5_000 : 30_000;
  const commands = bench.isShort ? 500 : 5_000;
  const broker = await openRabbit(bench.directory);
  const processes: RondoProcess[] = [];
  try {
    const { server, url } = await RondoProcess.server(bench, bench.database ?? undefined, [
      "--broker",
      broker.url,
    ]);
    processes.push(server);
    for (let i = 0; i < WORKERS; i++)
      processes.unshift(
        await RondoProcess.brokerWorker(bench, { url, broker: broker.url, capacity: CAPACITY }, WORKFLOWS),
      );
    const rondo = connect({ url });
    const run = async (count: number): Promise<number> => {
      const from = performance.now();
      const done = await rondo.run(fan, { tasks: count });
      if (done !== count) throw new Error(`${done} tasks were counted, not ${count}`);
      return count / ((performance.now() - from) / 1_000);
    };
    await run(tasks / 5);
    const own: number[] = [];
    const raws: number[] = [];
    for (let i = 0; i < (bench.isShort ? 1 : 3); i++) {
      bench.progress(`tasks, pair ${i + 1}`);
      own.push(await run(tasks));
      raws.push(
        await rawTasksPerSecond(MAIN, { url: broker.url, tasks, workers: WORKERS, prefetch: CAPACITY }),
      );
    }
    bench.progress("commands");
    const cpu = server.cpuMs();
    const seconds = await submitAll(url, broker.url, commands);
    return {
      tasks,
      tasksPerSecond: median(own),
      rawTasksPerSecond: median(raws),
      commands,
      commandsPerSecond: commands / seconds,
      commandServerCpuMicros: ((server.cpuMs() - cpu) * 1_000) / commands,
      serverPeakRssMb: server.peakRssMb(),
    };
  } finally {
    await stopAll(processes);
    await broker.close();
  }
}

/** Submits workflows of one command each, in bulk, and answers each command. Returns the seconds until all have their results. */
async function submitAll(url: string, brokerUrl: string, commands: number): Promise<number> {
  const rondo = connect({ url });
  const connection = await connectBroker(brokerUrl);
  try {
    const publish = await connection.createConfirmChannel();
    const consume = await connection.createChannel();
    const submission = (from: number, many: number): ProjectSubmission => ({
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
    });
    await consume.assertQueue(TOPIC, {
      durable: true,
      arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 },
    });
    await rondo.submit("bench", submission(0, 1));
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
    const from = performance.now();
    await inParallel(Math.ceil(commands / SUBMITTED), 2, (batch) =>
      rondo.submit("bench", submission(batch * SUBMITTED, Math.min(SUBMITTED, commands - batch * SUBMITTED))),
    );
    for (;;) {
      const { data } = await rondo.list({ project: "bench", status: "running", limit: 1 });
      if (data.length === 0) return (performance.now() - from) / 1_000;
      if (performance.now() - from > RECEIPTS_MAX_MS)
        throw new Error(`a command has no receipt: ${JSON.stringify(data[0]?.phases)}`);
      await new Promise((resolve) => {
        setTimeout(resolve, POLL_MS);
      });
    }
  } finally {
    await connection.close();
  }
}
