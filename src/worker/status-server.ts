/** The worker's own HTTP API, on a port of its own. It shows the worker's health, and whether the worker still has an attempt or a run. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";

type Shown = Readonly<Record<string, unknown>>;

export interface StatusOptions {
  /** The network interface to listen on; every interface by default. */
  readonly host?: string;
  /** The port to listen on; 0 for any free port. */
  readonly port: number;
  readonly health: () => Shown;
  /** The status of an attempt; null if this worker does not have the attempt. */
  readonly attempt: (id: string) => Shown | null;
  /** The status of a run of an attempt; null if this worker does not have the attempt, or has not begun the run. */
  readonly run: (attempt: string, run: string) => Shown | null;
}

export interface StatusServer {
  readonly url: string;
  close(): void;
}

const HEADER_MS = 5_000;

export async function startStatusServer(options: StatusOptions): Promise<StatusServer> {
  const server: Server = createServer(
    { headersTimeout: HEADER_MS, requestTimeout: HEADER_MS },
    (request, response) => {
      const path = (request.url ?? "").split("?")[0] as string;
      const body = request.method === "GET" ? answerTo(options, path) : null;
      response.writeHead(body === null ? 404 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(body ?? { code: "not_found" }));
    },
  );
  server.listen(options.port, ...(options.host === undefined ? [] : [options.host]));
  await once(server, "listening");
  // The status server alone must not keep the process alive.
  server.unref();
  const { address, port } = server.address() as AddressInfo;
  return {
    url: `http://${isIPv6(address) ? `[${address}]` : address}:${port}`,
    close: () => server.close().closeAllConnections(),
  };
}

function answerTo({ health, attempt, run }: StatusOptions, path: string): Shown | null {
  if (path === "/healthz") return health();
  const [, id, name] = /^\/attempts\/([^/]+)(?:\/runs\/([^/]+))?$/.exec(path) ?? [];
  if (id === undefined) return null;
  return name === undefined ? attempt(decoded(id)) : run(decoded(id), decoded(name));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The text is not valid percent-encoding, so it is no attempt's id.
    return text;
  }
}
