/**
 * A small TCP proxy in front of a server that can fail as networks do: connections cut after so many bytes, answers
 * that never arrive, a server that cannot be reached for a while.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** The answer to what was asked last is not to arrive. */
  isDoomed: boolean;
  down: number;
}

export class Proxy {
  readonly url: string;
  readonly #pairs = new Set<Pair>();
  /** Bytes from the server after which a connection is cut; asked for each connection. */
  cutAfter: () => number = () => Number.POSITIVE_INFINITY;
  /** True: nobody can connect. */
  isDown = false;
  /** Connections that were cut so far. */
  cuts = 0;
  #doomed: { readonly pattern: RegExp; readonly cut: () => void } | null = null;

  private constructor(port: number) {
    this.url = `http://127.0.0.1:${port}`;
  }

  /** Starts in front of a server. */
  static async start(target: string): Promise<Proxy> {
    const { hostname, port } = new URL(target);
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const started = new Proxy((server.address() as AddressInfo).port);
    server.on("connection", (client) => started.#join(client, { host: hostname, port: Number(port) }));
    onTestFinished(() => {
      server.close();
      started.cut();
    });
    return started;
  }

  /** Cuts every connection. */
  cut(): void {
    for (const pair of [...this.#pairs]) this.#cutPair(pair);
  }

  /** The server gets the next request that fits; its answer is cut off. Resolves when that has happened. */
  cutAnswerTo(pattern: RegExp): Promise<void> {
    return new Promise((cut) => {
      this.#doomed = { pattern, cut };
    });
  }

  #join(client: Socket, target: { host: string; port: number }): void {
    client.on("error", () => {});
    if (this.isDown) {
      client.destroy();
      return;
    }
    const server = connect(target);
    server.on("error", () => {});
    const pair: Pair = { client, server, isDoomed: false, down: 0 };
    this.#pairs.add(pair);
    const limit = this.cutAfter();
    client.on("data", (chunk) => {
      if (this.#doomed?.pattern.test(chunk.toString("latin1"))) pair.isDoomed = true;
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      if (pair.isDoomed) {
        this.#cutPair(pair);
        this.#doomed?.cut();
        this.#doomed = null;
        return;
      }
      const room = limit - pair.down;
      pair.down += chunk.length;
      if (chunk.length < room) client.write(chunk);
      else client.write(chunk.subarray(0, room), () => this.#cutPair(pair));
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const)
      one.on("close", () => {
        other.destroy();
        this.#pairs.delete(pair);
      });
  }

  #cutPair(pair: Pair): void {
    this.cuts++;
    pair.client.destroy();
    pair.server.destroy();
    this.#pairs.delete(pair);
  }
}
