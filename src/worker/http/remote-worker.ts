/** A worker in its own process, over HTTP. Code and scripts have a registration each, since the sandbox limits scripts. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { join } from "node:path";
import { withChildren } from "../handler-code.ts";
import { makeWorkerId, WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

export interface RemoteWorkerOptions extends Omit<WorkerLaneOptions, "url"> {
  /** The port of the worker's status API, 0 for any free one; null: no status API. */
  readonly statusPort: number | null;
}

export class RemoteWorker {
  readonly #options: RemoteWorkerOptions;
  readonly #lanes: readonly WorkerLane[];
  #status: StatusServer | null = null;
  #isStopped = false;

  constructor(options: RemoteWorkerOptions) {
    const { scripts, statusPort: _, ...given } = options;
    const worker = options.worker ?? makeWorkerId(options);
    const shared = { ...given, worker, workflows: withChildren(options.workflows) };
    this.#options = options;
    const url = (): string | null => this.#status?.url ?? null;
    const hasCode = shared.workflows.some(({ handlers }) => handlers.length > 0);
    const lanes: WorkerLaneOptions[] = hasCode || scripts === undefined ? [{ ...shared, url }] : [];
    if (scripts !== undefined)
      lanes.push({
        ...shared,
        url,
        scripts,
        workflows: [],
        capacity: scripts.atOnce,
        name: hasCode ? `${options.name}-scripts` : options.name,
        // A process without code is a single worker, so its scripts need no id of their own.
        worker: hasCode ? `${worker}-scripts` : worker,
        spool: options.spool === null ? null : join(options.spool, "scripts"),
      });
    this.#lanes = lanes.map((lane) => new WorkerLane(lane));
  }

  get held(): number {
    return this.#lanes.reduce((sum, { held }) => sum + held, 0);
  }

  get capacity(): number {
    return this.#lanes.reduce((sum, { capacity }) => sum + capacity, 0);
  }

  /** The address of the status API; null: there is none. */
  get url(): string | null {
    return this.#status?.url ?? null;
  }

  /** Starts to claim as soon as a server answers. */
  async start(): Promise<void> {
    const { statusPort } = this.#options;
    if (statusPort !== null) {
      const own = (await this.#lanes[0]?.ownAddress()) ?? null;
      if (this.#isStopped) return;
      this.#status = await startStatusServer({
        host: own ?? "127.0.0.1",
        port: statusPort,
        health: () => this.#health(),
        attempt: (id) => this.#about(id),
      });
    }
    for (const lane of this.#lanes) lane.start();
  }

  /** Stops gracefully; resolves when all receipts are acknowledged or the time is over. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#lanes.map((lane) => lane.stop(graceMs)));
    this.#status?.close();
  }

  #health(): Readonly<Record<string, unknown>> {
    const { name, version } = this.#options;
    const workers = this.#lanes.map(({ worker }) => worker);
    const connected = this.#lanes.every(({ isInTrouble }) => !isInTrouble);
    return { ok: true, name, version, workers, capacity: this.capacity, held: this.held, connected };
  }

  #about(id: string): Readonly<Record<string, unknown>> | null {
    for (const lane of this.#lanes) {
      const found = lane.about(id);
      if (found !== null) return found;
    }
    return null;
  }
}

interface StatusOptions {
  readonly host: string;
  readonly port: number;
  readonly health: () => Readonly<Record<string, unknown>>;
  /** The status of an attempt; null: this worker does not have it. */
  readonly attempt: (id: string) => Readonly<Record<string, unknown>> | null;
}

interface StatusServer {
  readonly url: string;
  close(): void;
}

const HEADER_MS = 5_000;

/** Serves a worker's own HTTP API, on its own port: its health, and whether it still has an attempt. */
async function startStatusServer(options: StatusOptions): Promise<StatusServer> {
  const server: Server = createServer(
    { headersTimeout: HEADER_MS, requestTimeout: HEADER_MS },
    (request, response) => {
      const path = (request.url ?? "").split("?")[0] as string;
      const attempt = /^\/attempts\/([^/]+)$/.exec(path)?.[1];
      const body =
        request.method !== "GET"
          ? null
          : path === "/healthz"
            ? options.health()
            : attempt === undefined
              ? null
              : options.attempt(decoded(attempt));
      response.writeHead(body === null ? 404 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(body ?? { code: "not_found" }));
    },
  );
  server.listen(options.port, options.host);
  await once(server, "listening");
  // The server must not keep a process alive that has nothing else to do.
  server.unref();
  const { address, port } = server.address() as AddressInfo;
  return {
    url: `http://${isIPv6(address) ? `[${address}]` : address}:${port}`,
    close: () => server.close().closeAllConnections(),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The text is not valid percent-encoding, so it is no attempt's id.
    return text;
  }
}
