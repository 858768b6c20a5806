// A client that speaks bytes: slow, broken and greedy ones are made of it.
import { connect, type Socket } from "node:net";

export class RawClient {
  readonly #socket: Socket;
  #received = "";
  #bytes = 0;
  #wake: () => void = () => {};
  isClosed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#bytes += chunk.length;
      if (this.#received.length < 1_048_576) this.#received += chunk.toString("latin1");
      this.#wake();
    });
    const closed = (): void => {
      this.isClosed = true;
      this.#wake();
    };
    socket.on("error", closed).on("close", closed);
  }

  static connect(url: string): Promise<RawClient> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port) }, () => resolve(new RawClient(socket)));
      socket.once("error", reject);
    });
  }

  /** Writes; false if the other end does not take it. */
  send(text: string | Buffer): boolean {
    return this.#socket.write(text);
  }

  /** Takes nothing more from the other end. */
  stopReading(): void {
    this.#socket.pause();
  }

  get received(): string {
    return this.#received;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when something has come, or the connection is closed. */
  async until(holds: (received: string) => boolean): Promise<string> {
    while (!this.isClosed && !holds(this.#received))
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return this.#received;
  }

  /** Resolves when the other end has closed the connection. */
  closed(): Promise<string> {
    return this.until(() => false);
  }

  drain(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#socket.off("drain", done).off("close", done);
        resolve();
      };
      this.#socket.once("drain", done).once("close", done);
    });
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
