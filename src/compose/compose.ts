/** Turns settings into a running Rondo. Only this file and the others of this folder name adapters. */
import { availableParallelism } from "node:os";
import type { AmqpBridge } from "../broker/bridge.ts";
import type { BrokerSettings } from "../broker/settings.ts";
import { boundProjects } from "../commands/bound-projects.ts";
import { withCommandIndex } from "../commands/open-command.ts";
import type { TopicGuard } from "../commands/topic-guard.ts";
import { TopicRegistry } from "../commands/topic-registry.ts";
import { Engine, type EngineOptions } from "../engine/driver.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { Settings } from "../engine/settings.ts";
import { Retention } from "../retention/retention.ts";
import { DirectoryInUse } from "../rondo/directory-in-use.ts";
import { Rondo } from "../rondo/rondo.ts";
import type { Elsewhere } from "../rondo/rondo-parts.ts";
import { SCHEDULE_KIND } from "../schedule/stored-schedule.ts";
import type { OtherNodes } from "../server/other-nodes.ts";
import { type Clock, systemClock } from "../std/clock.ts";
import { decorate } from "../std/decorate.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { type Random, systemRandom } from "../std/random.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { FaultLog } from "../store/fault-log.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { DirectoryOwned } from "../store/sqlite/faults.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { type Store, StoreFault, type StoreInfo } from "../store/store.ts";
import { withTriggerIndex } from "../triggers/trigger-index.ts";
import type { Middleware } from "../worker/handler-code.ts";
import { Secrets } from "../worker/log/secrets.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";
import { engineSettings, openBroker, topicGuard } from "./compose-broker.ts";
import { type LazyPostOps, openPostOps } from "./compose-post-ops.ts";
import type { OpenOptions } from "./open-options.ts";

export { restoreBackup } from "../store/sqlite/files/restore-backup.ts";

/** Options of Rondo's parts: those of `openRondo`, and the test doubles and engine settings of servers, tools and tests. */
export interface PartOptions extends Omit<OpenOptions, "store"> {
  readonly store?: string | Store;
  readonly clock?: Clock;
  readonly random?: Random;
  readonly settings?: Partial<Settings>;
  /** Called before Rondo closes its engine. */
  readonly onClosing?: () => Promise<void>;
  /** Called when Rondo has closed. */
  readonly onClosed?: () => Promise<void>;
  readonly brokerSettings?: Partial<BrokerSettings>;
  /** The list of middleware to which `rondo.use` adds. */
  readonly middleware?: Middleware[];
}

/** The default capacity of a worker in tasks. */
export const CAPACITY = 2_000;
/** How long a remote worker may be silent by default before its attempts count as lost. */
const REMOTE_SILENCE_MS = 30_000;

/** Opens Rondo in this process. Tools and tests may replace some of its parts. */
export async function openInProcess(options: PartOptions): Promise<Rondo> {
  const { nodes = 1, ...one } = options;
  if (nodes > 1) return openNodes(one, nodes);
  const { server } = options;
  if (server !== undefined || isShared(options.store)) {
    // A node of a cluster needs an address at which the other nodes reach it.
    const { openServer } = await import("./compose-server.ts");
    const { retention, ...listening } = server ?? { port: 0 };
    const retentionMs = retention === undefined ? undefined : unwrap(parseDuration(retention, "retention"));
    const times = defined({ retentionMs, eventsKeptMs: eventsKeptOf(options) });
    try {
      return (await openServer({ ...options, ...listening, ...times })).rondo;
    } catch (thrown) {
      throw thrown instanceof DirectoryOwned ? new DirectoryInUse(thrown) : thrown;
    }
  }
  const settingsFor = async (info: StoreInfo, store: Store): Promise<Partial<Settings>> => {
    // After an unclean stop of a server, its workers may still run tasks that this process does not know.
    if (info.owned.every(({ uncleanEpoch }) => uncleanEpoch === 0)) return {};
    const { mayRunRemotely } = await import("../server/remote-mark.ts");
    const suspectMs = options.settings?.heartbeatMs ?? REMOTE_SILENCE_MS;
    return (await mayRunRemotely(store, info)) ? { suspectMs } : {};
  };
  let retention: Retention | null = null;
  try {
    const onClosing = async () => retention?.close();
    const { rondo, store, engine, onFault } = await assemble({ ...options, settingsFor, onClosing });
    // Without a server, executions are never purged, but ids of events are: their number would grow without end.
    retention = new Retention({
      clock: options.clock ?? systemClock(),
      store,
      purge: (ids) => engine.purge(ids),
      retentionMs: 0,
      ...defined({ eventsKeptMs: eventsKeptOf(options) }),
      onFault,
    });
    // Schedules that an earlier run of the program stored continue.
    if ((await store.listDocuments(SCHEDULE_KIND, { max: 1 })).length > 0) await rondo.api();
    return rondo;
  } catch (thrown) {
    throw thrown instanceof DirectoryOwned ? new DirectoryInUse(thrown) : thrown;
  }
}

function eventsKeptOf({ eventsKept }: PartOptions): number | undefined {
  return eventsKept === undefined ? undefined : unwrap(parseDuration(eventsKept, "eventsKept"));
}

/** Opens Rondo in this process, and further nodes in processes of their own, which are closed with it. */
async function openNodes(options: PartOptions, count: number): Promise<Rondo> {
  if (!isShared(options.store))
    throw new RondoError(
      reject("invalid_input", `nodes: ${count} nodes need a store that processes share`, {
        path: "nodes",
        hint: 'use a PostgreSQL: openRondo({ store: "postgres://...", nodes: 4 })',
      }),
    );
  const [{ NodeProcesses }, { compiledFile }] = await Promise.all([
    import("./node-processes.ts"),
    import("../std/compiled-file.ts"),
  ]);
  const { onFaultLine = (line) => console.error(`rondo: ${line}`) } = options;
  const { store, projects, stateStores, allowTargets, webhookSecrets, broker, prefix, receiptTopics } =
    options;
  const shared = {
    store,
    projects,
    stateStores,
    allowTargets,
    webhookSecrets,
    broker,
    prefix,
    receiptTopics,
  };
  const specs = Array.from({ length: count - 1 }, (_, i) => ({
    name: `node-${i + 2}`,
    file: compiledFile("./node-child.js", import.meta.url),
    args: [],
    options: defined(shared),
  }));
  const { nodes } = await NodeProcesses.start(specs, onFaultLine);
  try {
    return await openInProcess({ ...options, onClosed: () => nodes.close() });
  } catch (thrown) {
    await nodes.close();
    throw thrown;
  }
}

/** Whether several processes can share the store with this URL. */
export function isShared(store: PartOptions["store"]): boolean {
  return typeof store === "string" && /^postgres(ql)?:/.test(store);
}

/** The parts of Rondo in this process. */
export interface Assembled {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly rondo: Rondo;
  readonly onFault: (fault: Error) => void;
  /** The bridge to the broker; null without a broker. */
  readonly broker: AmqpBridge | null;
  readonly postOps: LazyPostOps;
  /** Decides which topics a project may use. */
  readonly topics: TopicGuard;
}

/** A function that decorates the store before it is opened. */
export type StoreDecorator = <S extends Store>(store: S, clock: Clock) => S;

export const UNDECORATED: StoreDecorator = (store) => store;

/** Opens the store and the engine, and assembles Rondo on them. */
export async function assemble(
  options: PartOptions & Pick<EngineOptions, "settingsFor"> & { readonly decorator?: StoreDecorator },
): Promise<Assembled> {
  const parts = sharedParts(options);
  const { decorator = UNDECORATED } = options;
  const named = typeof options.store === "object" ? options.store : storeOf(options.store ?? "file:.rondo");
  const store = parts.watched(decorator(named, parts.clock));
  const settings = engineSettings(options);
  const settingsFor = async (info: StoreInfo, opened: Store): Promise<Partial<Settings>> => ({
    boundProjects: await boundProjects(opened),
    ...(await options.settingsFor?.(info, opened)),
  });
  const { clock, onStop, onFault } = parts;
  const postOps = await openPostOps(options, { store, clock, onFault });
  const engine = await Engine.open({
    store,
    clock,
    onStop,
    onFault,
    postOps,
    settings,
    settingsFor,
  });
  return assembleOn(engine, { ...options, store, postOps }, parts);
}

/** The parts that the engine and all code above it share. */
export type SharedParts = Pick<Assembled, "clock" | "random" | "onFault"> & {
  readonly onStop: (reason: Error) => void;
  /** Logs a line about the store. */
  readonly onFaultLine: (line: string) => void;
  /** Decorates a store so that the fault log is notified when an outage is over. */
  readonly watched: <S extends Store>(store: S) => S;
};

/** Makes the shared parts from the options. */
export function sharedParts(options: PartOptions): SharedParts {
  // A secret that is too short throws here, before anything is opened.
  new Secrets(options.secrets);
  const clock = options.clock ?? systemClock({ hold: true });
  const { onFaultLine = (line) => console.error(`rondo: ${line}`) } = options;
  const faults = new FaultLog(clock, onFaultLine);
  return {
    clock,
    random: options.random ?? systemRandom,
    onFaultLine,
    onStop: options.onStop ?? endProcess,
    onFault: options.onFault ?? faults.report,
    watched: (store) => (options.onFault === undefined ? faults.watched(store) : store),
  };
}

/** Assembles Rondo on an open engine. */
export async function assembleOn(
  opened: EnginePort,
  options: PartOptions & {
    readonly store: Store;
    readonly postOps: LazyPostOps;
    readonly elsewhere?: Elsewhere;
    /** The other nodes, in a cluster. */
    readonly otherNodes?: OtherNodes;
  },
  parts: SharedParts,
): Promise<Assembled> {
  const { clock, random, onFault, onStop } = parts;
  const { postOps, elsewhere, otherNodes } = options;
  const store = withTriggerIndex(withCommandIndex(options.store));
  const registry = new TopicRegistry(store);
  const broker = await openBroker(opened, options, { store, registry, clock, random, onFault, otherNodes });
  const engine = broker === null ? opened : closedAfter(opened, broker);
  const topics = topicGuard(options, registry, () => broker);
  topics.bind(await boundProjects(store));
  const assembled = { engine, store, clock, random, onFault, broker, postOps, topics };
  const rondo = new Rondo({
    engine,
    store,
    openApi: async (opened) => {
      const { openSilently } = await import("./compose-server.ts");
      return openSilently({ ...assembled, rondo: opened });
    },
    clock,
    random,
    capacity: options.capacity ?? CAPACITY,
    scripts: scriptsOf(options.unsafeNoJail === true),
    ...(elsewhere === undefined ? {} : { elsewhere }),
    ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
    reserved: (name) => topics.reserved(name),
    admit: (project, commands) => topics.admit(project, commands),
    ...defined({ onClosing: options.onClosing }),
    onClosed: async () => {
      await postOps.close();
      await options.onClosed?.();
    },
    ...defined({ middleware: options.middleware }),
    onLog: options.onLog ?? (() => {}),
    onBug: (thrown) => onStop(toError(thrown)),
  });
  return { ...assembled, rondo };
}

/** Decorates the engine so that closing it closes the bridge to the broker first. */
function closedAfter(engine: EnginePort, broker: AmqpBridge): EnginePort {
  return decorate(engine, {
    close: async () => {
      await broker.close();
      await engine.close();
    },
  });
}

/** The options with which a worker of this process runs scripts. The sandbox is loaded with the first script. */
export function scriptsOf(unsafeNoJail: boolean): ScriptOptions {
  return {
    atOnce: availableParallelism(),
    async open() {
      const { openSandboxPool } = await import("../worker/sandbox/sandbox-pool.ts");
      return openSandboxPool({ unsafeNoJail });
    },
  };
}

/** Opens the store that a URL names. */
export function storeOf(url: string): Store {
  if (url === "memory:") return new MemoryStore();
  if (url.startsWith("file:") && url.length > 5)
    return openSqliteStore({ directory: url.slice(5).replace(/^\/\/(?=\/)/, "") });
  throw new RondoError(
    reject("invalid_input", `"${url}" is not the URL of a store that this version supports`, {
      path: "store",
      hint: 'use "file:<directory>", "memory:" or "postgres://..."',
    }),
  );
}

/** Ends the process. A bug is printed with its stack, a fault of the configuration or the store with its message. */
export function endProcess(reason: Error): void {
  const isBug = !(reason instanceof StoreFault || reason instanceof RondoError);
  console.error(`rondo: the engine stopped: ${isBug ? (reason.stack ?? reason.message) : reason.message}`);
  // Exit code 8 means that the store is damaged, as in the CLI; 70 is an internal error.
  process.exit(reason.name === "StoreUnreadable" ? 8 : 70);
}
