/**
 * One client of a stream. The client gets shared bytes slice by slice. Its connection is closed if it reads nothing for a
 * while.
 */
import type { ServerResponse } from "node:http";
import type { Clock } from "../../std/clock.ts";
import { COMMON_HEADERS } from "../http/send-answer.ts";

const KEEP_ALIVE = Buffer.from(": keep-alive\n\n");
/** The first bytes of a stream. `retry` tells the client how long to wait before it reconnects. */
const GREETING = Buffer.from(": rondo\nretry: 1000\n\n");

export interface StreamClientOptions {
  readonly clock: Clock;
  /** The size of a slice in bytes. */
  readonly sliceBytes: number;
  /** How long a client may take to read one slice. */
  readonly stallMs: number;
}

export class StreamClient {
  readonly #outgoing: ServerResponse;
  readonly #options: StreamClientOptions;
  readonly #onClose = new Set<() => void>();
  isClosed = false;
  /** Whether the connection was closed because the client read nothing for too long. */
  isCutOff = false;

  constructor(outgoing: ServerResponse, options: StreamClientOptions) {
    this.#outgoing = outgoing;
    this.#options = options;
    // A client may have disconnected before its stream begins. The response emitted `close` at that time, and will not emit it again.
    if (outgoing.destroyed) {
      this.isClosed = true;
      return;
    }
    outgoing.once("close", () => this.#close());
    outgoing.on("error", () => this.#close());
    outgoing.writeHead(200, {
      ...COMMON_HEADERS,
      "content-type": "text/event-stream",
      "x-accel-buffering": "no",
    });
    outgoing.write(GREETING);
  }

  /** Writes bytes. Resolves when the client has read them, or has disconnected. */
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

  /** Calls `call` once, when the client has disconnected. Returns a function that cancels the call. */
  onClose(call: () => void): () => void {
    if (this.isClosed) call();
    else this.#onClose.add(call);
    return () => void this.#onClose.delete(call);
  }

  /** Closes the connection because the client reads nothing. */
  cutOff(): void {
    this.isCutOff = true;
    this.drop();
  }

  /** Closes the connection and discards everything that the client has not read. */
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
