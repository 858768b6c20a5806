/** Connects an engine with a RabbitMQ broker. This module is loaded only if a broker is configured. */
import type { AmqpBridge } from "../broker/bridge.ts";
import type { BrokerSettings } from "../broker/settings.ts";
import { TopicGuard } from "../commands/topic-guard.ts";
import type { TopicRegistry } from "../commands/topic-registry.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { Settings } from "../engine/settings.ts";
import { TopicRules } from "../kernel/command/topic-rules.ts";
import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import { readDefinition } from "../kernel/definition/read-definition.ts";
import type { OtherNodes } from "../server/other-nodes.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import type { Random } from "../std/random.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { BrokerOptions } from "./open-options.ts";

/** The options of an engine that depend on the broker, and the engine's own settings. */
type EngineOptions = BrokerOptions & {
  readonly settings?: Partial<Settings>;
  readonly projects?: Settings["projects"];
};

/** The default prefix of names at a broker. */
const DEFAULT_PREFIX = "rondo";

interface Beside {
  readonly store: Store;
  readonly registry: TopicRegistry;
  readonly clock: Clock;
  readonly random: Random;
  readonly onFault: (fault: Error) => void;
  /** The other nodes of the cluster, which the bridge asks for open attempts of commands. */
  readonly otherNodes?: OtherNodes | undefined;
}

/** Returns the engine's settings. With a broker, the engine publishes its events to it. No topic may begin with `prefix`. */
export function engineSettings({
  settings,
  projects,
  broker,
  prefix = DEFAULT_PREFIX,
}: EngineOptions): Partial<Settings> {
  return { outbox: broker !== undefined && broker !== null, prefix, ...defined({ projects }), ...settings };
}

/** Returns a function that finds the open command of a receipt without an attempt id, on whichever node the command is. */
async function finderOf(
  nodes: { readonly engine: EnginePort; readonly otherNodes?: OtherNodes },
  store: Store,
): Promise<AmqpBridge["findCommand"]> {
  const [{ commandFinder }, { attemptsOf }] = await Promise.all([
    import("../commands/open-command.ts"),
    import("../server/other-nodes.ts"),
  ]);
  return commandFinder({
    store,
    inspect: async (execution) => {
      // `inspect` loads the execution if it is not in memory.
      const found = await nodes.engine.inspect(execution);
      if (isRejection(found) && found.code !== "not_found")
        throw new Error(`the open commands of ${execution} cannot be read: ${found.message}`);
      if (isRejection(found)) return { commands: [], attempts: [] };
      const attempts = await attemptsOf(nodes, execution);
      return { commands: found.commands ?? [], attempts, input: found.view.input };
    },
    planOf: planOf(store),
  });
}

/** Returns a function that reads a plan by its hash; null if this version can read no definition with that hash. */
function planOf(store: Store): (hash: string) => Promise<Plan | null> {
  return async (hash) => {
    const found = await store.getDefinition({ hash });
    const definition = found === null ? null : readDefinition(found.body, hash);
    return definition === null || isRejection(definition) ? null : compilePlan(definition);
  };
}

/**
 * Makes the guard that checks topics before a workflow starts. It asks the broker that `brokerOf` returns, if there is one.
 */
export function topicGuard(
  options: EngineOptions,
  registry: TopicRegistry,
  brokerOf: () => Pick<AmqpBridge, "refusesReceipts"> | null,
): TopicGuard {
  return new TopicGuard({
    rules: new TopicRules({ prefix: DEFAULT_PREFIX, projects: {}, ...engineSettings(options) }),
    registry,
    refusesReceipts: async (receiptTopic) => (await brokerOf()?.refusesReceipts(receiptTopic)) ?? null,
  });
}

/** Opens the bridge to the broker; null if no broker is configured. */
export async function openBroker(
  engine: EnginePort,
  {
    broker,
    prefix = DEFAULT_PREFIX,
    brokerSettings,
    receiptTopics = [],
  }: BrokerOptions & { readonly brokerSettings?: Partial<BrokerSettings> },
  beside: Beside,
): Promise<AmqpBridge | null> {
  if (broker === undefined || broker === null) return null;
  const [{ AmqpBridge }, { noteRemote }] = await Promise.all([
    import("../broker/bridge.ts"),
    import("../server/remote-mark.ts"),
  ]);
  // In a cluster, remote workers are always expected. Only a single node stores the mark that remote workers may hold its tasks.
  if (engine.info.partitions === 1) await noteRemote(beside.store, engine.info);
  const settings = defined({ settings: brokerSettings });
  const bridge = new AmqpBridge({
    ...{ url: broker, prefix, engine, receiptTopics, planOf: planOf(beside.store) },
    topicRegistry: beside.registry,
    ...beside,
    ...settings,
  });
  bridge.findCommand = await finderOf(
    { engine, ...defined({ otherNodes: beside.otherNodes }) },
    beside.store,
  );
  // The bridge connects in the background, even if the broker is not running yet.
  void bridge.start();
  return bridge;
}
