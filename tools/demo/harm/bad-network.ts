/**
 * A proxy between the workers and the server. While it duplicates, it delivers every message of a worker twice, and counts what
 * the server answered to the second copy.
 */
import { Agent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { bodyOf, forward } from "./forward.ts";

/** Counts of duplicated receipts. */
export interface Doubled {
  readonly isOn: boolean;
  /** Receipts that were delivered twice. */
  readonly sent: number;
  /** Receipts whose second copy the server recognised. */
  readonly recognised: number;
}

const EVENTS = /^\/v1\/workers\/[^/]+\/events$/;

export class BadNetwork {
  isDoubling = false;
  #sent = 0;
  #recognised = 0;
  readonly #target: URL;
  readonly #server: Server;
  readonly #agent = new Agent({ keepAlive: true });

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer((incoming, outgoing) => {
      this.#pass(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  /** Opens a proxy to the server at `target`, on loopback. */
  static async open(target: string): Promise<BadNetwork> {
    const network = new BadNetwork(target);
    await new Promise<void>((resolve, fail) => {
      network.#server.once("error", fail);
      network.#server.listen({ host: "127.0.0.1", port: 0 }, resolve);
    });
    return network;
  }

  /** The address of the proxy, for workers. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get doubled(): Doubled {
    return { isOn: this.isDoubling, sent: this.#sent, recognised: this.#recognised };
  }

  /** Resets the counts. */
  countAnew(): void {
    this.#sent = 0;
    this.#recognised = 0;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    this.#agent.destroy();
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const { method = "GET", url: path = "/", headers } = incoming;
    const asked = { method, path, headers, body: await bodyOf(incoming), signal: gone.signal };
    const isDoubled = this.isDoubling && EVENTS.test(path);
    const answer = await forward(this.#target, this.#agent, asked);
    const second =
      isDoubled && answer.status === 200 ? await forward(this.#target, this.#agent, asked) : null;
    if (second?.status === 200) this.#count(asked.body, second.body);
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }

  /** Counts the receipts in a message, and those that the server recognised in the second copy. */
  #count(body: Buffer, second: Buffer): void {
    const { events } = JSON.parse(body.toString()) as { events: { attempt: string; kind: string }[] };
    const { verdicts = {} } = JSON.parse(second.toString()) as { verdicts?: Record<string, string> };
    for (const { attempt, kind } of events) {
      if (kind !== "receipt") continue;
      this.#sent++;
      if (verdicts[attempt] !== undefined && verdicts[attempt] !== "accepted") this.#recognised++;
    }
  }
}
