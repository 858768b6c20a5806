/**
 * A worker in its own process, over HTTP. Handler code and scripts are registered separately, because the sandbox limits how
 * many scripts run at a time.
 */
import { join } from "node:path";
import { withChildren } from "../handler-code.ts";
import { type StatusServer, startStatusServer } from "../status-server.ts";
import { makeWorkerId, WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

export interface RemoteWorkerOptions extends Omit<WorkerLaneOptions, "url"> {
  /** The port of the worker's status API; 0 for any free port, null for no status API. */
  readonly statusPort: number | null;
}

type Shown = Readonly<Record<string, unknown>>;

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
        // A process without handler code has only one registration, so the scripts need no id of their own.
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

  /** The address of the worker's status API; null if it has none. */
  get url(): string | null {
    return this.#status?.url ?? null;
  }

  /** Starts the worker. It claims work as soon as a server answers. */
  async start(): Promise<void> {
    const { statusPort } = this.#options;
    if (statusPort !== null) {
      const own = (await this.#lanes[0]?.ownAddress()) ?? null;
      if (this.#isStopped) return;
      this.#status = await startStatusServer({
        host: own ?? "127.0.0.1",
        port: statusPort,
        health: () => this.#health(),
        attempt: (id) => this.#ask((lane) => lane.about(id)),
        run: (id, run) => this.#ask((lane) => lane.aboutRun(id, run)),
      });
    }
    for (const lane of this.#lanes) lane.start();
  }

  /** Stops gracefully; resolves when all receipts are acknowledged or the grace period is over. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#lanes.map((lane) => lane.stop(graceMs)));
    this.#status?.close();
  }

  #health(): Shown {
    const { name, version } = this.#options;
    const workers = this.#lanes.map(({ worker }) => worker);
    const connected = this.#lanes.every(({ isInTrouble }) => !isInTrouble);
    return { ok: true, name, version, workers, capacity: this.capacity, held: this.held, connected };
  }

  /** Asks both registrations about an attempt; returns the answer of the one that has it. */
  #ask(about: (lane: WorkerLane) => Shown | null): Shown | null {
    for (const lane of this.#lanes) {
      const found = about(lane);
      if (found !== null) return found;
    }
    return null;
  }
}
