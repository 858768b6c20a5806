/** A TCP proxy that breaks connections: each lives until so many bytes have come back through it. */
import { once } from "node:events";
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export class CuttingProxy {
  readonly url: string;
  /** Connections that were made, and that were cut. */
  accepted = 0;
  cut = 0;
  /** Bytes after which the connections made from now on are cut; infinite: never. */
  bytesMax = Number.POSITIVE_INFINITY;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Stands in front of the server at an address; gone with the test. */
  static async to(url: string): Promise<CuttingProxy> {
    const { hostname, port } = new URL(url);
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new CuttingProxy(server);
    server.on("connection", (near) => proxy.#join(near, dial(Number(port), hostname)));
    onTestFinished(() => proxy.close());
    return proxy;
  }

  /** Breaks all connections there are. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Takes no more connections, and breaks those there are. */
  close(): void {
    this.#server.close();
    this.cutAll();
  }

  #join(near: Socket, far: Socket): void {
    this.accepted++;
    let left = this.bytesMax;
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
      // A connection that the other side broke: that is what this proxy is for.
      socket.on("error", () => socket.destroy());
    }
    near.pipe(far);
    far.on("data", (data) => {
      if (data.length < left) {
        left -= data.length;
        near.write(data);
        return;
      }
      this.cut++;
      near.write(data.subarray(0, left), () => near.destroy());
    });
  }
}
