/** The one place that names adapters: turns settings into a running Rondo. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Metrics } from "./api/metrics.ts";
import type { ApiConfig, ApiLimits } from "./api/parts.ts";
import type { RondoServer } from "./api/serve.ts";
import { Engine, type EngineOptions } from "./engine/driver.ts";
import type { Settings } from "./engine/settings.ts";
import { LocalRondo, type LogLine } from "./local/local-rondo.ts";
import { type Clock, systemClock } from "./std/clock.ts";
import { defined } from "./std/defined.ts";
import { type Random, systemRandom } from "./std/random.ts";
import { RondoError, reject } from "./std/rejection.ts";
import { MemoryStore } from "./store/memory/memory-store.ts";
import { openSqliteStore, SqliteStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";
import { Secrets } from "./worker/log/secrets.ts";
import type { ScriptOptions } from "./worker/script-runner.ts";

export { restoreBackup } from "./store/sqlite/restore-backup.ts";

export interface OpenOptions {
  /** `file:<directory>` (default `file:.rondo`) or `memory:`. */
  readonly store?: string | Store;
  /** Items in flight at the worker in this process. */
  readonly capacity?: number;
  readonly clock?: Clock;
  readonly random?: Random;
  readonly settings?: Partial<Settings>;
  /** Values that are written as `[redacted]` in logs and errors; each of at least 4 characters. */
  readonly secrets?: readonly string[];
  /** Runs scripts without the outer layer of their sandbox where it cannot be had. For trusted scripts only. */
  readonly unsafeNoJail?: boolean;
  /** Gets what handlers log, as they log it. */
  readonly onLog?: (line: LogLine) => void;
  /** Gets faults of the world that the engine works around, such as a full disk. */
  readonly onFault?: (fault: Error) => void;
  /** Called if the engine had to stop; by default the process ends, since ownership must move on. */
  readonly onStop?: (reason: Error) => void;
}

/** Opens Rondo in this process. */
export async function openRondo(options: OpenOptions = {}): Promise<LocalRondo> {
  return (await assemble(options)).rondo;
}

interface Assembled {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly rondo: LocalRondo;
  readonly onFault: (fault: Error) => void;
}

async function assemble(options: OpenOptions & Pick<EngineOptions, "settingsFor">): Promise<Assembled> {
  // Refused before anything is opened.
  new Secrets(options.secrets);
  const store = typeof options.store === "object" ? options.store : storeOf(options.store ?? "file:.rondo");
  const clock = options.clock ?? systemClock({ hold: true });
  const random = options.random ?? systemRandom;
  const onStop = options.onStop ?? endProcess;
  const onFault = options.onFault ?? ((fault: Error) => console.error(`rondo: ${fault.message}`));
  const { settings, settingsFor } = options;
  const engine = await Engine.open({ store, clock, onStop, onFault, ...defined({ settings, settingsFor }) });
  const rondo = new LocalRondo({
    engine,
    store,
    clock,
    random,
    capacity: options.capacity ?? 2_000,
    scripts: scriptsOf(options.unsafeNoJail === true),
    ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
    onLog: options.onLog ?? (() => {}),
    onBug: (thrown) => onStop(thrown instanceof Error ? thrown : new Error(String(thrown))),
  });
  return { engine, store, clock, random, rondo, onFault };
}

/** How a worker of this process runs scripts: the sandbox is loaded with the first of them. */
export function scriptsOf(unsafeNoJail: boolean): ScriptOptions {
  return {
    atOnce: availableParallelism(),
    async open() {
      const { openSandboxPool } = await import("./script/sandbox-pool.ts");
      return openSandboxPool({ unsafeNoJail });
    },
  };
}

export interface ServerOptions extends OpenOptions {
  /** 127.0.0.1 by default; another address needs a token. */
  readonly host?: string;
  /** 7777 by default; 0: any that is free; null: only the directory's socket. */
  readonly port?: number | null;
  /** The address under which others reach this server. */
  readonly advertise?: string | null;
  /** Names that the server answers to, beside loopback and the advertised one. */
  readonly hosts?: readonly string[];
  /** RONDO_ADMIN_TOKEN. */
  readonly adminToken?: string | null;
  readonly limits?: Partial<ApiLimits>;
  /** Silence after which a remote attempt is lost. */
  readonly heartbeatMs?: number;
  /** How long what is over is kept: 30 days by default; 0: forever. */
  readonly retentionMs?: number;
  /** The effective configuration, for `GET /v1/config`. */
  readonly shown?: ApiConfig["settings"];
}

const REMOTE = { claimLeaseMs: 30_000, suspectMs: 30_000, sweepMs: 10_000 };

/** Opens a node and serves its API. No user code runs in it unless its `rondo` is given some to serve. */
export async function openServer(options: ServerOptions = {}): Promise<RondoServer> {
  // Loaded here: who runs Rondo in process does not pay for the server.
  const [{ Metrics, meterCommits }] = await Promise.all([
    import("./api/metrics.ts"),
    import("./api/serve.ts"),
  ]);
  const named = options.store ?? "file:.rondo";
  const store = typeof named === "object" ? named : storeOf(named);
  const clock = options.clock ?? systemClock({ hold: true });
  const metrics = new Metrics();
  meterCommits(store, metrics, clock);
  const opened = await openOwner({ ...options, store, clock });
  try {
    return await opened.serve(options, metrics);
  } catch (thrown) {
    await opened.rondo.close({ graceMs: 0 });
    throw thrown;
  }
}

/** A node in this process whose API can be served later, when it is worth it. */
export interface Owner {
  readonly rondo: LocalRondo;
  /** Serves the API of the node from now on; closing what it gives closes the node too. */
  serve(options: ServerOptions, metrics?: Metrics): Promise<RondoServer>;
}

/** Opens a node that workers of other processes may have had tasks of, and may have again. */
export async function openOwner(options: OpenOptions & Pick<ServerOptions, "heartbeatMs">): Promise<Owner> {
  const { mayRunRemotely } = await import("./api/remote-mark.ts");
  const named = options.store ?? "file:.rondo";
  const store = typeof named === "object" ? named : storeOf(named);
  const { claimLeaseMs, sweepMs } = REMOTE;
  const suspectMs = options.heartbeatMs ?? REMOTE.suspectMs;
  const assembled = await assemble({
    ...options,
    store,
    settings: { claimLeaseMs, sweepMs, heartbeatMs: suspectMs, ...options.settings },
    settingsFor: async (info) => ((await mayRunRemotely(store, info)) ? { suspectMs } : {}),
  });
  return { rondo: assembled.rondo, serve: (more, metrics) => serveOwner(assembled, more, metrics) };
}

async function serveOwner(
  assembled: Assembled,
  options: ServerOptions,
  metrics?: Metrics,
): Promise<RondoServer> {
  const [{ serveApi }, { Metrics }] = await Promise.all([
    import("./api/serve.ts"),
    import("./api/metrics.ts"),
  ]);
  const { store } = assembled;
  const files = store instanceof SqliteStore ? store : null;
  return serveApi({
    ...assembled,
    config: {
      host: options.host ?? "127.0.0.1",
      port: options.port === undefined ? 7_777 : options.port,
      directory: files?.directory ?? null,
      advertise: options.advertise ?? null,
      hosts: options.hosts ?? [],
      adminToken: options.adminToken ?? null,
      limits: options.limits ?? {},
      version: packageVersion(),
      settings: options.shown ?? [],
    },
    metrics: metrics ?? new Metrics(),
    heartbeatMs: options.heartbeatMs ?? 30_000,
    leaseMs: options.settings?.claimLeaseMs ?? REMOTE.claimLeaseMs,
    retentionMs: options.retentionMs ?? 30 * 86_400_000,
    announce: async (url) => files?.announce(url),
    ...(files === null ? {} : { backup: (file: string) => files.backup(file) }),
  });
}

function packageVersion(): string {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

function storeOf(url: string): Store {
  if (url === "memory:") return new MemoryStore();
  if (url.startsWith("file:") && url.length > 5)
    return openSqliteStore({ directory: url.slice(5).replace(/^\/\/(?=\/)/, "") });
  throw new RondoError(
    reject("invalid_input", `"${url}" is not a store this version knows`, {
      path: "store",
      hint: 'use "file:<directory>" or "memory:"',
    }),
  );
}

function endProcess(reason: Error): void {
  console.error(`rondo: the engine stopped: ${reason.stack ?? reason.message}`);
  process.exit(70);
}
