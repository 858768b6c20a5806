/** A server with a broker and workers in processes of their own: the examples as users run them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { openServer } from "../../../src/compose/compose-server.ts";
import type { RondoServer } from "../../../src/server/serve.ts";
import { CliProcess } from "../../cli/cli-process.ts";
import { needCommand } from "../../tools/need-command.ts";
import { openTestBroker } from "../rabbitmq-server.ts";
import type { TestBroker } from "../test-broker.ts";

export const EXAMPLES = fileURLToPath(new URL("../../../examples/", import.meta.url));
/** Debian's own, whose packages are Debian's. */
const PYTHON = "/usr/bin/python3";
/** Quick enough for tests. */
const BROKER_SETTINGS = { broadcastMs: 300, lookMs: 300 };

export class ExampleBench {
  readonly server: RondoServer;
  readonly broker: TestBroker;
  readonly faults: Error[];

  private constructor(server: RondoServer, broker: TestBroker, faults: Error[]) {
    this.server = server;
    this.broker = broker;
    this.faults = faults;
  }

  /** Gone with the test. */
  static async open(store: string): Promise<ExampleBench> {
    const broker = await openTestBroker();
    onTestFinished(() => broker.remove());
    const faults: Error[] = [];
    const server = await openServer({
      store,
      port: 0,
      broker: broker.url,
      brokerSettings: BROKER_SETTINGS,
      onFault: (fault) => void faults.push(fault),
      onStop: (reason) => {
        throw reason;
      },
    });
    onTestFinished(() => server.close({ graceMs: 0 }));
    return new ExampleBench(server, broker, faults);
  }

  /** `rondo worker FILE --broker`, once it serves. */
  async worker(file: string): Promise<CliProcess> {
    const args = ["worker", file, "--broker", this.broker.url, "--url", this.server.url];
    const worker = new CliProcess("bin/rondo.js", args, { cwd: EXAMPLES });
    await worker.line(/serves amqp:/);
    return worker;
  }

  /** The worker in Python, once it serves. */
  async python(): Promise<ChildProcess> {
    const child = runPython({ RONDO_BROKER: this.broker.url, RONDO_URL: this.server.url });
    child.stderr?.pipe(process.stderr);
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream }))
      if (line.startsWith("worker serves ")) return child;
    throw new Error("the worker ended before it served");
  }

  /** Queues of visits that are there. */
  async visitQueues(): Promise<string[]> {
    const queues = await this.broker.queues();
    return queues.map(({ name }) => name).filter((name) => /^rondo\.workflow\.(?!handler\.)/.test(name));
  }
}

/** Starts the worker in Python; it is gone with the test. */
export function runPython(env: Readonly<Record<string, string>>): ChildProcess {
  const child = spawn(PYTHON, [`${EXAMPLES}python/worker.py`], {
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Whether Debian's python3-pika is there, by installing it if need be. With CI=true a lack of it is an error. */
export function hasPika(): boolean {
  if (canImport()) return true;
  if (process.getuid?.() === 0) {
    console.warn("pika is not here: installing python3-pika with apt-get");
    spawnSync(
      "sh",
      ["-c", "apt-get update -qq && apt-get install -qqy --no-install-recommends python3-pika"],
      {
        stdio: "ignore",
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      },
    );
    if (canImport()) return true;
  }
  const lack = "python3-pika is not here and could not be installed";
  if (process.env["CI"] === "true") throw new Error(lack);
  console.warn(`NOT RUN: ${lack}`);
  return false;
}

function canImport(): boolean {
  return needCommand("python3", "python3") && spawnSync(PYTHON, ["-c", "import pika"]).status === 0;
}
