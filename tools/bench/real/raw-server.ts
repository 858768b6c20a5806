/**
 * A bare HTTP server in its own process, which answers each request with a text of the size of an execution: the limit of the
 * platform and of the client. Both sides are here: the parent starts the bench's main module again with `--raw-server`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { defaultFetch } from "../../../src/client/node-fetch.ts";
import { inParallel } from "../in-parallel.ts";
import { taskOf } from "./workflows.ts";

const ANSWER = JSON.stringify({ answer: "x".repeat(600) });

export class RawServer {
  readonly #child: ChildProcess;
  readonly #url: string;
  /** The client of Rondo sends its requests by the same function. */
  readonly #fetch = defaultFetch();

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.#url = url;
  }

  static async start(): Promise<RawServer> {
    const child = fork(process.argv[1] as string, ["--raw-server"], { stdio: ["ignore", 2, 2, "ipc"] });
    const [port] = (await once(child, "message")) as [number];
    return new RawServer(child, `http://127.0.0.1:${port}/`);
  }

  /** The milliseconds of one request. */
  async requestMs(): Promise<number> {
    const from = performance.now();
    await this.#request(0);
    return performance.now() - from;
  }

  async requestsPerSecond(total: number, atATime: number): Promise<number> {
    await inParallel(total / 2, atATime, (n) => this.#request(n));
    const from = performance.now();
    await inParallel(total, atATime, (n) => this.#request(n));
    return total / ((performance.now() - from) / 1_000);
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  async #request(n: number): Promise<void> {
    const body = JSON.stringify({ workflow: "raw", input: taskOf(n) });
    const headers = { "content-type": "application/json" };
    JSON.parse(await (await this.#fetch(this.#url, { method: "POST", headers, body })).text());
  }
}

/** The child's side: answers until it is killed. */
export function runRawServer(): void {
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      JSON.parse(Buffer.concat(chunks).toString());
      outgoing.writeHead(200, { "content-type": "application/json" }).end(ANSWER);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
}
