/**
 * The baseline of the client library at this broker, with the same two messages per task and nothing else. One process
 * publishes durable tasks with confirms into a quorum queue. Workers answer each task with a durable, confirmed message and
 * then acknowledge it. The first process counts and acknowledges the answers.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from "amqplib";

export interface RawOptions {
  readonly url: string;
  readonly tasks: number;
  readonly workers: number;
  /** The most tasks that a worker has at a time. */
  readonly prefetch: number;
}

interface RawWorkerTask {
  readonly url: string;
  readonly prefetch: number;
}

const TASKS = "rondo-bench.raw.tasks";
const FINISHED = "rondo-bench.raw.finished";
const QUORUM = { durable: true, arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 } };
const PERSISTENT = { persistent: true, mandatory: true, contentType: "application/json" };
/** The same limits as in the engine: unacknowledged answers, and tasks under way. */
const ANSWERS_MAX = 500;
const UNSETTLED_MAX = 1_000;

/** Tasks per second, from the first published task to the last answer. */
export async function rawTasksPerSecond(mainModule: string, options: RawOptions): Promise<number> {
  const { url, tasks, workers, prefetch } = options;
  const [out, into] = [await connect(url), await connect(url)];
  const publish = await out.createConfirmChannel();
  const consume = await into.createChannel();
  await consume.assertQueue(TASKS, QUORUM);
  await consume.assertQueue(FINISHED, { durable: true });
  const children: ChildProcess[] = [];
  try {
    for (let i = 0; i < workers; i++) children.push(await startWorker(mainModule, { url, prefetch }));
    await consume.prefetch(ANSWERS_MAX);
    const from = performance.now();
    await new Promise<void>((resolve, fail) => {
      let published = 0;
      let settled = 0;
      const more = (): void => {
        while (published < tasks && published - settled < UNSETTLED_MAX) {
          publish.sendToQueue(TASKS, taskBody(published++), PERSISTENT, (error) => {
            if (error !== null) fail(new Error("a task was not confirmed"));
          });
        }
      };
      const onAnswer = (message: ConsumeMessage | null): void => {
        if (message === null) return fail(new Error("the queue is gone"));
        JSON.parse(message.content.toString());
        consume.ack(message);
        settled++;
        if (settled === tasks) resolve();
        else more();
      };
      consume.consume(FINISHED, onAnswer).catch(fail);
      more();
    });
    return tasks / ((performance.now() - from) / 1_000);
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await remove(consume);
    await Promise.all([out, into].map((connection: ChannelModel) => connection.close()));
  }
}

async function remove(channel: Channel): Promise<void> {
  for (const queue of [TASKS, FINISHED]) await channel.deleteQueue(queue);
}

async function startWorker(mainModule: string, task: RawWorkerTask): Promise<ChildProcess> {
  const child = fork(mainModule, ["--raw-worker", JSON.stringify(task)], { stdio: ["ignore", 2, 2, "ipc"] });
  await once(child, "message");
  return child;
}

/** The worker's side: answers tasks until it is killed. */
export async function runRawWorker(task: string): Promise<void> {
  const { url, prefetch } = JSON.parse(task) as RawWorkerTask;
  const connection = await connect(url);
  const publish = await connection.createConfirmChannel();
  const consume = await connection.createChannel();
  await consume.prefetch(prefetch);
  await consume.consume(TASKS, (message) => {
    if (message === null) return;
    const { data, ...place } = JSON.parse(message.content.toString()) as { data: unknown };
    const answer = Buffer.from(JSON.stringify({ ...place, status: "done", result: data }));
    publish.sendToQueue(FINISHED, answer, PERSISTENT, (error) => {
      if (error === null) consume.ack(message);
    });
  });
  process.send?.("ready");
}

/** A body as long as that of a task of Rondo. */
function taskBody(n: number): Buffer {
  const place = { workflow_id: "ex_01kab2cd3ef4gh5jk6mn7pq8rs", phase: "work", visit: 1, handler: "work" };
  const attempt = `${place.workflow_id}.work.1.work.1.${n}.1.${n}.1`;
  const token = "x".repeat(43);
  const key = [place.workflow_id, "work", 1, "work", n].join("/");
  const finished = `rondo.workflow.${place.workflow_id}.work.work.finished`;
  const body = {
    ...place,
    finished_queue: finished,
    task: n,
    attempt,
    token,
    idempotency_key: key,
    data: { n },
  };
  return Buffer.from(JSON.stringify(body));
}
