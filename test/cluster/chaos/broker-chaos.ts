/**
 * Chaos with a broker: an engine, workers in processes of their own and one RabbitMQ under many tasks and command
 * workflows, while the broker is killed and restarted, its queues are purged and deleted, connections are cut, messages
 * repeated and workers killed. Then everything heals, and all must have come out right, with nothing left at the broker.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openServer } from "../../../src/compose/compose-server.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { RabbitServer } from "../../fixtures/broker/rabbitmq-server-fixture.ts";
import { TestBroker } from "../../fixtures/broker/test-broker-fixture.ts";
import { Ledger } from "../../fixtures/faults/ledger.ts";
import { BrokerBreaker } from "./broker-breaker.ts";
import { BrokerLoad, type Outcome, Receiver } from "./broker-load.ts";

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const FLOWS = path("broker-flows.mjs");
const CLI = path("../../../bin/rondo.js");
const WORKERS = 3;
const TASKS_EACH = 500;
/** Losses are found soon. */
const BROKER_SETTINGS = { broadcastMs: 1_000, lookMs: 500, silenceMs: 3_000, silencesMax: 8 };
/** How long one fault may have its effect before the next. */
const FAULT_EVERY_MS = 300;
/** How long after the last fault, and after the last end, something may take to end: machines are slow at times. */
const STUCK_MS = 180_000;
/** Queues that are not of one visit: they stay. */
const LASTING = /^(rondo\.dead|rondo\.workflow\.handler\..*|CHAOS_(CMD|RECEIPT)_ADD)$/;

export interface BrokerChaosOptions {
  readonly seed: string;
  readonly seconds: number;
  readonly tasks: number;
  readonly commands: number;
  readonly say: (line: string) => void;
}

/** What came of it; all is well if the lists are empty. */
export interface BrokerChaosReport extends Outcome {
  readonly seed: string;
  readonly seconds: number;
  readonly tasks: number;
  readonly commands: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly healedMs: number;
  readonly stuck: readonly string[];
  readonly queuesLeft: readonly string[];
  readonly consumersLeft: readonly string[];
  /** Messages that nobody could use. */
  readonly deadLetters: number;
  readonly wrong: readonly string[];
}

/** Whether nothing at all is wrong. */
export function isWellWithBroker(report: BrokerChaosReport): boolean {
  const { lost, miscounted, missing, stuck, queuesLeft, consumersLeft, wrong } = report;
  return [lost, miscounted, missing, stuck, queuesLeft, consumersLeft, wrong].every(
    (list) => list.length === 0,
  );
}

/** Runs it, and leaves nothing behind. */
export async function brokerChaos(options: BrokerChaosOptions): Promise<BrokerChaosReport> {
  const folder = mkdtempSync(join(tmpdir(), "rondo-chaos-"));
  const rabbit = await RabbitServer.make();
  const receiver = await Receiver.listen();
  try {
    const broker = await TestBroker.open(rabbit.url, rabbit.management);
    return await new BrokerChaos({ ...options, folder, rabbit, broker, receiver }).run();
  } finally {
    receiver.close();
    await rabbit.remove();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

interface Parts extends BrokerChaosOptions {
  readonly folder: string;
  readonly rabbit: RabbitServer;
  readonly broker: TestBroker;
  readonly receiver: Receiver;
}

class BrokerChaos {
  readonly #parts: Parts;
  readonly #workers: ChildProcess[] = [];
  readonly #wrong: string[] = [];

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async run(): Promise<BrokerChaosReport> {
    const { seed, seconds, tasks, commands, say, folder, rabbit, broker, receiver } = this.#parts;
    const [ofEngine, ofWorkers] = [await broker.proxy(), await broker.proxy()];
    const server = await openServer({
      store: `file:${join(folder, "store")}`,
      port: 0,
      broker: ofEngine.url,
      brokerSettings: BROKER_SETTINGS,
      allowTargets: [receiver.target],
      // What the broker does is told by what comes of it.
      onFault: () => {},
      onStop: (reason) => void this.#wrong.push(`the engine stopped: ${reason.stack ?? reason.message}`),
    });
    const random = new SeededRandom(seed);
    const addWorker = () => this.#worker(server.url, ofWorkers.url);
    for (let i = 0; i < WORKERS; i++) await addWorker();
    const load = new BrokerLoad(server.url, receiver, TASKS_EACH);
    const breaker = new BrokerBreaker({
      ...{ server: rabbit, broker, random, say },
      cuts: [
        { name: "of the engine", cut: () => ofEngine.cut() },
        { name: "of workers", cut: () => ofWorkers.cut() },
      ],
      replaceWorker: async () => {
        this.#workers.shift()?.kill("SIGKILL");
        await addWorker();
      },
    });
    await this.#break(load, breaker);
    say("healing");
    await breaker.heal();
    const healedAt = Date.now();
    const stuck = await this.#settle(load);
    const healedMs = Date.now() - healedAt;
    say(`${stuck.length} stuck, over ${healedMs} ms after the last fault`);
    if (stuck.length > 0) say(JSON.stringify(await load.why(stuck)));
    const outcome =
      stuck.length > 0
        ? { lost: [], miscounted: [], missing: [] }
        : await load.outcome(new Ledger(join(folder, "ledger.ndjson")).all());
    const { queuesLeft, consumersLeft, deadLetters } = await this.#end(() =>
      server.close({ graceMs: 5_000 }),
    );
    return {
      ...{ seed, seconds, tasks, commands, faults: breaker.faults, healedMs, stuck, ...outcome },
      ...{ queuesLeft, consumersLeft, deadLetters, wrong: this.#wrong },
    };
  }

  /** Load and faults side by side, for as long as it was asked for. */
  async #break(load: BrokerLoad, breaker: BrokerBreaker): Promise<void> {
    const { seconds, tasks, commands } = this.#parts;
    const executions = Math.ceil(tasks / TASKS_EACH);
    const startedAt = Date.now();
    const passed = (): number => Math.min(1, (Date.now() - startedAt) / (seconds * 1_000));
    const offer = async (count: number, one: () => Promise<void>): Promise<void> => {
      for (let offered = 0; offered < count; ) {
        for (; offered < count * passed(); offered++) await one();
        await pause(20);
      }
    };
    const faults = async (): Promise<void> => {
      while (passed() < 1) {
        await breaker.break();
        await pause(FAULT_EVERY_MS);
      }
    };
    await Promise.all([
      offer(executions, () => load.startTasks()),
      offer(commands, () => load.submitCommands()),
      faults(),
    ]);
  }

  /** Waits until all is over, the broadcasts too; answers what is not. */
  async #settle(load: BrokerLoad): Promise<readonly string[]> {
    let [left, movedAt] = [Number.POSITIVE_INFINITY, Date.now()];
    for (;;) {
      const open = await load.open();
      const missing = Math.max(0, load.broadcastsMissing);
      if (open.length + missing === 0) return [];
      if (open.length + missing < left) [left, movedAt] = [open.length + missing, Date.now()];
      if (Date.now() > movedAt + STUCK_MS) return open;
      await pause(500);
    }
  }

  /** Everybody ends gracefully; what is at the broker then is left over. */
  async #end(close: () => Promise<unknown>) {
    const { broker } = this.#parts;
    const deadline = Date.now() + 30_000;
    let queuesLeft = await this.#queuesLeft();
    while (queuesLeft.length > 0 && Date.now() < deadline) {
      await pause(500);
      queuesLeft = await this.#queuesLeft();
    }
    for (const child of this.#workers.splice(0)) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      const [code] = (await ended) as [number | null];
      if (code !== 0) this.#wrong.push(`a worker ended with ${code}`);
    }
    await close();
    const connection = await broker.connect();
    const channel = await connection.createChannel();
    const consumersLeft: string[] = [];
    let deadLetters = 0;
    for (const { name } of await broker.queues()) {
      if (name.startsWith("amq.")) consumersLeft.push(name);
      else {
        const { consumerCount, messageCount } = await channel.checkQueue(name);
        if (consumerCount > 0) consumersLeft.push(`${name} (${consumerCount})`);
        if (name === "rondo.dead") deadLetters = messageCount;
      }
    }
    await connection.close();
    return { queuesLeft, consumersLeft, deadLetters };
  }

  async #queuesLeft(): Promise<string[]> {
    const names = (await this.#parts.broker.queues()).map(({ name }) => name);
    return names.filter((name) => !name.startsWith("amq.") && !LASTING.test(name));
  }

  /** Resolves when it serves. */
  async #worker(url: string, broker: string): Promise<void> {
    const args = [CLI, "worker", FLOWS, "--url", url, "--broker", broker, "--capacity", "50", "--json"];
    const child = spawn(process.execPath, args, {
      cwd: this.#parts.folder,
      env: { ...process.env, FAULTS: this.#parts.folder },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#workers.push(child);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    await new Promise<void>((resolve) => {
      lines.on("line", (line) => {
        if (line.includes('"registered"')) resolve();
      });
      lines.on("close", resolve);
    });
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
