/**
 * A worker in a process of its own: hosts handler code and scripts, and does their tasks for a server over HTTP. Code and
 * scripts are registered apart, since of scripts it takes only as many as its sandbox does at a time.
 */

import { join } from "node:path";
import { withChildren } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import { type StatusServer, startStatusServer } from "./status-server.ts";
import { makeWorkerId, WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

export interface RemoteWorkerOptions extends Omit<WorkerLaneOptions, "url" | "scripts"> {
  /** Without it, this worker does no scripts. */
  readonly scripts?: ScriptOptions;
  /** The port of its own status API, 0 for any; null: it has none. */
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
        // A process without code is one worker, whose scripts need no id of their own.
        worker: hasCode ? `${worker}-scripts` : worker,
        spool: options.spool === null ? null : join(options.spool, "scripts"),
      });
    this.#lanes = lanes.map((lane) => new WorkerLane(lane));
  }

  /** Attempts under way. */
  get held(): number {
    return this.#lanes.reduce((sum, { held }) => sum + held, 0);
  }

  /** Attempts it takes at a time. */
  get capacity(): number {
    return this.#lanes.reduce((sum, { capacity }) => sum + capacity, 0);
  }

  /** The address of its status API; null: it has none. */
  get url(): string | null {
    return this.#status?.url ?? null;
  }

  /** Begins to claim, once the server is there. */
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

  /** Ends gracefully; resolves when everything is said, or when it was given long enough. */
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
