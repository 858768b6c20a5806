/**
 * A real Redis for tests: the one that RONDO_TEST_REDIS names (a URL), else one of our own from the binary of this
 * machine, in a temporary folder on a free port; else the same after installing it with apt-get. Where none of this works
 * the tests fail and say so: nothing is skipped.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "redis";
import { freePort } from "../../../tools/bench/free-ports.ts";
import { until } from "../../faults/until.ts";
import { needCommand } from "../../tools/need-command.ts";

export class RedisServer {
  readonly url: string;
  readonly #place: string | null;
  readonly #port: number;
  #process: ChildProcess | null = null;

  private constructor(url: string, place: string | null, port: number) {
    this.url = url;
    this.#place = place;
    this.#port = port;
  }

  static async make(): Promise<RedisServer> {
    const given = process.env["RONDO_TEST_REDIS"];
    return given === undefined || given === "" ? RedisServer.own() : new RedisServer(given, null, 0);
  }

  /** One that can be stopped. */
  static async own(): Promise<RedisServer> {
    if (!needCommand("redis-server", "redis-server"))
      throw new Error(
        "there is no Redis for the tests: set RONDO_TEST_REDIS to the URL of one, or install it",
      );
    const port = await freePort();
    const place = mkdtempSync(join(tmpdir(), "rondo-redis-"));
    const server = new RedisServer(`redis://127.0.0.1:${port}`, place, port);
    await server.start();
    return server;
  }

  /** Resolves when it lets clients in. What it had when it was killed is there again. */
  async start(): Promise<void> {
    const flags = { port: String(this.#port), bind: "127.0.0.1", dir: this.#place ?? "", save: "" };
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn("redis-server", [...args, "--appendonly", "yes", "--appendfsync", "always"], {
      stdio: "ignore",
    });
    this.#process = child;
    await until("Redis lets clients in", () => child.exitCode !== null || letsIn(this.url));
    if (child.exitCode !== null) throw new Error(`Redis did not start: it ended with ${child.exitCode}`);
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    this.#process = null;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  async remove(): Promise<void> {
    await this.kill();
    if (this.#place !== null) rmSync(this.#place, { recursive: true, force: true });
  }
}

async function letsIn(url: string): Promise<boolean> {
  const client = createClient({ url, socket: { reconnectStrategy: false } });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.ping();
    await client.close();
    return true;
  } catch (thrown) {
    if (thrown instanceof Error) return false;
    throw thrown;
  }
}
