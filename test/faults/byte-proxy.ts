/**
 * A proxy that knows bytes only: each connection is cut after so many of them, in one direction or the other, or becomes a
 * black hole, which stays open and swallows all that comes.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** After so many bytes of a direction a connection is cut; Infinity: never. */
export interface Life {
  readonly up: number;
  readonly down: number;
}

const FOREVER: Life = { up: Number.POSITIVE_INFINITY, down: Number.POSITIVE_INFINITY };

export class ByteProxy {
  readonly url: string;
  /** Asked for each connection. */
  life: () => Life = () => FOREVER;
  /** Connections that were cut so far. */
  cuts = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** True: connections that are made now are black holes. */
  isHole = false;
  /** Bytes of workers that were swallowed. */
  swallowed = 0;
  readonly #holes = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(target: string): Promise<ByteProxy> {
    const { hostname: host, port } = new URL(target);
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new ByteProxy(server);
    server.on("connection", (near) => proxy.#join(near, connect({ host, port: Number(port) })));
    return proxy;
  }

  /** Breaks every connection there is; with `heal`, those to come live. */
  cut(options: { readonly heal?: boolean } = {}): void {
    if (options.heal === true) this.life = () => FOREVER;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Every connection there is becomes a black hole; those to come live. */
  swallow(): void {
    for (const socket of this.#sockets) this.#holes.add(socket);
  }

  close(): void {
    this.#server.close();
    this.cut();
  }

  #join(near: Socket, far: Socket): void {
    const { up, down } = this.life();
    if (this.isHole) for (const socket of [near, far]) this.#holes.add(socket);
    for (const [from, to, bytesMax] of [
      [near, far, up],
      [far, near, down],
    ] as const) {
      let left = bytesMax;
      this.#sockets.add(from);
      from.on("data", (chunk: Buffer) => {
        if (this.#holes.has(from)) {
          if (from === near) this.swallowed += chunk.length;
          return;
        }
        if (chunk.length < left) {
          left -= chunk.length;
          to.write(chunk);
          return;
        }
        this.cuts++;
        // What is before the cut arrives.
        to.end(chunk.subarray(0, left), () => to.destroy());
        from.destroy();
      });
      // A side that breaks is what this is for.
      from.on("error", () => from.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        // The other side of a black hole hears nothing of its end either.
        if (!this.#holes.has(from) && !to.writableEnded) to.destroy();
      });
    }
  }
}
