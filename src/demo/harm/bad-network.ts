/**
 * The network between the workers and the server: everything passes through here, and while it doubles, every message
 * of a worker is delivered twice. It notes what the server said to the second copy.
 */
import {
  Agent,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** What the second copies came to. */
export interface Doubled {
  readonly isOn: boolean;
  /** Receipts that were delivered twice. */
  readonly sent: number;
  /** Those whose second copy the server recognised. */
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

  /** A way to the server at `target`, on loopback. */
  static async open(target: string): Promise<BadNetwork> {
    const network = new BadNetwork(target);
    await new Promise<void>((resolve, fail) => {
      network.#server.once("error", fail);
      network.#server.listen({ host: "127.0.0.1", port: 0 }, resolve);
    });
    return network;
  }

  /** Where workers find it. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get doubled(): Doubled {
    return { isOn: this.isDoubling, sent: this.#sent, recognised: this.#recognised };
  }

  /** Counts from here on. */
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
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    const body = Buffer.concat(pieces);
    const isDoubled = this.isDoubling && EVENTS.test(incoming.url ?? "");
    const answer = await this.#ask(incoming, body, outgoing);
    const second = isDoubled && answer.status === 200 ? await this.#ask(incoming, body, outgoing) : null;
    if (second?.status === 200) this.#count(body, second.body);
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }

  /** One request to the server; broken off when the worker has gone, so that nobody holds what it asked for. */
  #ask(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse): Promise<Answer> {
    return new Promise((resolve, fail) => {
      const { host: _, ...headers } = incoming.headers;
      const { hostname, port } = this.#target;
      const options = { hostname, port, agent: this.#agent, path: incoming.url, headers };
      const asked = request({ ...options, method: incoming.method ?? "GET" }, (answer) => {
        const pieces: Buffer[] = [];
        answer.on("data", (piece: Buffer) => pieces.push(piece));
        answer.once("error", fail);
        answer.once("end", () => {
          outgoing.off("close", leave);
          resolve({
            status: answer.statusCode ?? 502,
            headers: answer.headers,
            body: Buffer.concat(pieces),
          });
        });
      });
      const leave = (): void => void asked.destroy(new Error("the worker has gone"));
      outgoing.once("close", leave);
      asked.once("error", fail);
      asked.end(body);
    });
  }

  /** How many receipts were in it, and for how many of them the server says that it has them already. */
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
