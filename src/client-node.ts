/** `rondo/client` in Node, Bun and Deno: the same as in browsers, and in addition `serve`, whose code is loaded on first use. */
import { type RemoteClient, RemoteRondo } from "./client/connect.ts";
import type { ConnectOptions } from "./client/connect-options.ts";

export * from "./client.ts";

/**
 * Connects to a server. The first request is sent when the client is used.
 *
 * @throws RondoError with the code `invalid_input` if an option is wrong
 */
export function connect(options: ConnectOptions): RemoteClient {
  return new RemoteRondo(options, async (...given) => {
    const { serveHere } = await import("./compose/compose-worker.ts");
    return serveHere(...given);
  });
}
