/** One client of a stream. It gets shared bytes slice by slice, and is cut off if it takes none for a while. */
import type { ServerResponse } from "node:http";
import type { Clock } from "../../std/clock.ts";
import { COMMON_HEADERS } from "../http/send-answer.ts";

const KEEP_ALIVE = Buffer.from(": keep-alive\n\n");
/** The first bytes of a stream. `retry` tells the client how long to wait before it reconnects. */
const GREETING = Buffer.from(": rondo\nretry: 1000\n\n");

export interface StreamClientOptions {
  readonly clock: Clock;
  /** The size of a slice. */
  readonly sliceBytes: number;
  /** How long a slice may wait to be taken. */
  readonly stallMs: number;
}

export class StreamClient {
  readonly #outgoing: ServerResponse;
  readonly #options: StreamClientOptions;
  readonly #onClose = new Set<() => void>();
  isClosed = false;
  /** Whether the client was cut off because it took nothing for too long. */
  isCutOff = false;

  constructor(outgoing: ServerResponse, options: StreamClientOptions) {
    this.#outgoing = outgoing;
    this.#options = options;
    outgoing.once("close", () => this.#close());
    outgoing.on("error", () => this.#close());
    outgoing.writeHead(200, {
      ...COMMON_HEADERS,
      "content-type": "text/event-stream",
      "x-accel-buffering": "no",
    });
    outgoing.write(GREETING);
  }

  /** Writes bytes. Resolves when the client has taken them, or has gone. */
  async write(bytes: Uint8Array): Promise<void> {
    const { sliceBytes } = this.#options;
    for (let from = 0; from < bytes.length && !this.isClosed; from += sliceBytes) {
      const slice = bytes.length <= sliceBytes ? bytes : bytes.subarray(from, from + sliceBytes);
      if (!this.#outgoing.write(slice)) await this.#drained();
    }
  }

  /** Sends a comment, so that proxies do not close an idle connection. */
  keepAlive(): void {
    if (!this.isClosed && this.#outgoing.writableLength === 0) this.#outgoing.write(KEEP_ALIVE);
  }

  /** Calls back once, when the client has gone. Returns a function that stops this. */
  onClose(call: () => void): () => void {
    if (this.isClosed) call();
    else this.#onClose.add(call);
    return () => void this.#onClose.delete(call);
  }

  /** Cuts off the client, because it takes nothing. */
  cutOff(): void {
    this.isCutOff = true;
    this.drop();
  }

  /** Drops the client, with everything that it has not taken. */
  drop(): void {
    this.#outgoing.destroy();
  }

  end(): void {
    if (!this.isClosed) this.#outgoing.end();
  }

  #drained(): Promise<void> {
    const { clock, stallMs } = this.#options;
    return new Promise((resolve) => {
      const stop = (): void => {
        cancel();
        forget();
        this.#outgoing.off("drain", stop);
        resolve();
      };
      const cancel = clock.after(stallMs, () => this.cutOff());
      this.#outgoing.once("drain", stop);
      const forget = this.onClose(() => stop());
    });
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const call of [...this.#onClose]) call();
    this.#onClose.clear();
  }
}
