/** Rondo with a broker for tests: a vhost of its own, engines over one directory, raw workers, and a look at queues. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LocalRondo, type OpenOptions, openRondo } from "rondo";
import { until } from "../faults/until.ts";
import { openTestBroker } from "./rabbitmq-server.ts";
import { type RawHandler, RawWorker } from "./raw-worker.ts";
import type { TestBroker } from "./test-broker.ts";

/** Quick enough for tests. */
const SETTINGS = { broadcastMs: 300, lookMs: 200, silenceMs: 60_000 };

export class AmqpBench {
  readonly broker: TestBroker;
  readonly #directory = mkdtempSync(join(tmpdir(), "rondo-amqp-"));
  readonly #store: string;
  readonly prefix: string;
  readonly #workers: RawWorker[] = [];
  readonly #rondos: LocalRondo[] = [];
  readonly faults: Error[] = [];

  private constructor(broker: TestBroker, options: { prefix?: string; store?: string }) {
    this.broker = broker;
    this.prefix = options.prefix ?? "rondo";
    this.#store = options.store ?? `file:${this.#directory}`;
  }

  static async make(options: { prefix?: string; store?: string } = {}): Promise<AmqpBench> {
    return new AmqpBench(await openTestBroker(), options);
  }

  /** For another process: where the store and the broker are. */
  get place(): { store: string; broker: string; prefix: string } {
    return { store: this.#store, broker: this.broker.url, prefix: this.prefix };
  }

  async open(options: Partial<OpenOptions> = {}): Promise<LocalRondo> {
    const rondo = await openRondo({
      store: this.#store,
      broker: this.broker.url,
      prefix: this.prefix,
      settings: { heartbeatMs: 1_000 },
      onFault: (fault) => void this.faults.push(fault),
      onStop: (reason) => void this.faults.push(reason),
      ...options,
      brokerSettings: { ...SETTINGS, ...options.brokerSettings },
    });
    this.#rondos.push(rondo);
    return rondo;
  }

  async worker(handlers: Readonly<Record<string, RawHandler>>, prefetch = 10): Promise<RawWorker> {
    const worker = await RawWorker.open(this.broker.url, handlers, { prefix: this.prefix, prefetch });
    this.#workers.push(worker);
    return worker;
  }

  /** Names of queues of visits that are there. */
  async visitQueues(): Promise<string[]> {
    const start = `${this.prefix}.workflow.`;
    return (await this.broker.queues())
      .map(({ name }) => name)
      .filter((name) => name.startsWith(start) && !name.startsWith(`${start}handler.`))
      .sort();
  }

  /** Messages that nobody has taken in queues of visits whose names end so. */
  async ready(ending: string): Promise<number> {
    const connection = await this.broker.connect();
    const channel = await connection.createChannel();
    let count = 0;
    // One that is made anew just now is not there, and closes the channel.
    channel.on("error", () => {});
    try {
      for (const { name } of await this.broker.queues())
        if (name.endsWith(ending)) count += (await channel.checkQueue(name)).messageCount;
    } catch (thrown) {
      if (!(thrown instanceof Error && "code" in thrown && thrown.code === 404)) throw thrown;
      return -1;
    } finally {
      await connection.close();
    }
    return count;
  }

  /** All queues of visits are gone. */
  async isTidy(): Promise<void> {
    await until("no queue of a visit is left", async () => (await this.visitQueues()).length === 0);
  }

  /** What is in a queue now, taken out of it. */
  async messagesIn(queue: string): Promise<{ body: unknown; headers: Record<string, unknown> }[]> {
    const connection = await this.broker.connect();
    const channel = await connection.createChannel();
    const found: { body: unknown; headers: Record<string, unknown> }[] = [];
    for (let got = await channel.get(queue, { noAck: true }); got !== false; ) {
      found.push({ body: readable(got.content), headers: got.properties.headers ?? {} });
      got = await channel.get(queue, { noAck: true });
    }
    await connection.close();
    return found;
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) await worker.close();
    for (const rondo of this.#rondos) await rondo.close({ graceMs: 0 });
    await this.broker.remove();
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function readable(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString());
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return content.toString();
    throw thrown;
  }
}

export { described } from "./described.ts";
