/**
 * One client of a stream. What is written to it is shared bytes; while it has not taken them it is given no more, so at
 * most one piece waits for it. One that takes nothing for a while is cut off.
 */
import type { ServerResponse } from "node:http";
import { COMMON_HEADERS } from "../wire/send-answer.ts";

const KEEP_ALIVE = Buffer.from(": keep-alive\n\n");
/** How long a client waits before it connects again. */
const GREETING = Buffer.from(": rondo\nretry: 1000\n\n");

export class StreamClient {
  readonly #outgoing: ServerResponse;
  readonly #onClose = new Set<() => void>();
  isClosed = false;
  /** It took nothing for too long. */
  isCutOff = false;

  constructor(outgoing: ServerResponse, stallMs: number) {
    this.#outgoing = outgoing;
    outgoing.once("close", () => this.#close());
    outgoing.on("error", () => this.#close());
    // Any bytes that leave count as progress.
    outgoing.setTimeout(stallMs, () => {
      if (outgoing.writableLength === 0) return;
      this.isCutOff = true;
      outgoing.destroy();
    });
    outgoing.writeHead(200, {
      ...COMMON_HEADERS,
      "content-type": "text/event-stream",
      "x-accel-buffering": "no",
    });
    outgoing.write(GREETING);
  }

  /** Writes, and resolves when the client has taken it, or has gone. */
  async write(bytes: Uint8Array): Promise<void> {
    if (this.isClosed || bytes.length === 0 || this.#outgoing.write(bytes)) return;
    await new Promise<void>((resolve) => {
      const stop = (): void => {
        this.#outgoing.off("drain", stop);
        this.#onClose.delete(stop);
        resolve();
      };
      this.#outgoing.once("drain", stop);
      this.onClose(stop);
    });
  }

  /** Keeps proxies from closing a connection on which nothing happens. */
  keepAlive(): void {
    if (!this.isClosed && this.#outgoing.writableLength === 0) this.#outgoing.write(KEEP_ALIVE);
  }

  /** Calls back once, when the client has gone; the returned function stops that. */
  onClose(call: () => void): () => void {
    if (this.isClosed) call();
    else this.#onClose.add(call);
    return () => void this.#onClose.delete(call);
  }

  end(): void {
    if (!this.isClosed) this.#outgoing.end();
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const call of [...this.#onClose]) call();
    this.#onClose.clear();
  }
}
