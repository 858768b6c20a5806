/**
 * The demo's receiver of broadcasts, on loopback. It checks signatures, recognises repeats by `webhook-id`, and stores received
 * broadcasts and its port in a file beside the store. So a broadcast that was owed when the demo was killed is sent to the same
 * address again.
 */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WebhookSecrets } from "../../src/commands/post-ops/webhook-secrets.ts";
import { unwrap } from "../../src/std/rejection.ts";

/** A received broadcast. */
export interface Received {
  readonly id: string;
  readonly at: number;
  readonly isSigned: boolean;
  readonly body: unknown;
}

const BODY_MAX = 1_048_576;
const SHOWN_MAX = 20;

export class Receiver {
  readonly #server: Server;
  readonly #file: string | null;
  readonly #received = new Map<string, Received>();
  /** The secret that signs broadcasts. */
  readonly secret: string;
  readonly #secrets: WebhookSecrets;
  #repeats = 0;
  #port = 0;
  #isNewPort = false;

  private constructor(file: string | null) {
    this.#file = file;
    this.secret = `whsec_${randomBytes(24).toString("base64")}`;
    this.#secrets = unwrap(WebhookSecrets.parse([this.secret]));
    this.#server = createServer((incoming, outgoing) => {
      this.#receive(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  /** Listens. `file` has the data of earlier processes; null: there is none. */
  static async open(file: string | null): Promise<Receiver> {
    const receiver = new Receiver(file);
    const before = receiver.#readBack();
    receiver.#port = await receiver.#listen(before);
    receiver.#isNewPort = receiver.#port !== before;
    return receiver;
  }

  /** Stores its address, once the store's directory exists. */
  remember(): void {
    if (this.#isNewPort) this.#note({ port: this.#port });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/news`;
  }

  /** The address in the form of `allowTargets`. */
  get target(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** The received broadcasts, newest last. */
  get received(): Received[] {
    return [...this.#received.values()].slice(-SHOWN_MAX);
  }

  /** The received broadcasts of one execution. */
  of(execution: string): Received[] {
    return [...this.#received.values()].filter(({ id }) => id.startsWith(`${execution}/`));
  }

  /** The number of broadcasts that were received again. */
  get repeats(): number {
    return this.#repeats;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Listens on the port of earlier processes if it is free, otherwise on any port. */
  async #listen(port: number): Promise<number> {
    const listen = (wanted: number): Promise<void> =>
      new Promise((resolve, fail) => {
        this.#server.once("error", fail);
        this.#server.listen({ host: "127.0.0.1", port: wanted }, () => {
          this.#server.off("error", fail);
          resolve();
        });
      });
    await listen(port).catch((thrown: unknown) => {
      if (port === 0) throw thrown;
      return listen(0);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  async #receive(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    let body = "";
    for await (const piece of incoming) {
      body += String(piece);
      if (body.length > BODY_MAX) return void outgoing.writeHead(413).end();
    }
    const id = String(incoming.headers["webhook-id"] ?? "");
    const at = Number(incoming.headers["webhook-timestamp"] ?? 0) * 1_000;
    const signed = this.#secrets.headersFor("", { id, at, body })["webhook-signature"];
    const isSigned = signed !== undefined && incoming.headers["webhook-signature"] === signed;
    if (id === "" || !isSigned) return void outgoing.writeHead(401).end("the signature does not hold");
    if (this.#received.has(id)) this.#repeats++;
    else {
      const received = { id, at: Date.now(), isSigned, body: JSON.parse(body) as unknown };
      this.#received.set(id, received);
      this.#note(received);
    }
    outgoing.writeHead(204).end();
  }

  #note(line: object): void {
    if (this.#file !== null) appendFileSync(this.#file, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  }

  /** Reads the file. Returns the last used port; 0 if there is none. */
  #readBack(): number {
    if (this.#file === null || !existsSync(this.#file)) return 0;
    let port = 0;
    for (const line of readFileSync(this.#file, "utf8").split("\n")) {
      const noted = parseLine(line);
      if (noted === null) continue;
      if ("port" in noted) port = Number(noted.port);
      else this.#received.set(noted.id, noted);
    }
    return Number.isInteger(port) && port > 0 && port < 65_536 ? port : 0;
  }
}

/** Parses a line; null: it was being written when the demo was killed. */
function parseLine(line: string): { port: unknown } | Received | null {
  try {
    return JSON.parse(line) as { port: unknown } | Received;
  } catch {
    // A half-written line is ignored: its broadcast is sent again.
    return null;
  }
}
