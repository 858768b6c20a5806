/** A broker beside an engine. Loaded only where one is configured: an engine without it pays nothing. */
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

/** Options of RabbitMQ beside an engine. */
export interface BrokerOptions {
  /**
   * The address of RabbitMQ (`amqp://...`). Tasks of handlers and topics that no other worker serves go to its queues.
   *
   * @default null: there is no broker
   */
  readonly broker?: string | null;
  /**
   * The prefix of the names of queues and exchanges at the broker.
   *
   * @default "rondo"
   */
  readonly prefix?: string;
  /**
   * Patterns of queues from which receipts may be consumed although the queues hold messages or have other consumers.
   *
   * @default []
   */
  readonly receiptTopics?: readonly string[];
}

/** The options of an engine that depend on the broker, and engine settings. */
type EngineOptions = BrokerOptions & {
  readonly settings?: Partial<Settings>;
  readonly projects?: Settings["projects"];
};

/** What names at a broker begin with, unless the settings say otherwise. */
const DEFAULT_PREFIX = "rondo";

interface Beside {
  readonly store: Store;
  readonly registry: TopicRegistry;
  readonly clock: Clock;
  readonly random: Random;
  readonly onFault: (fault: Error) => void;
  /** In a cluster: the other nodes, which know of the attempts that they have. */
  readonly otherNodes?: OtherNodes | undefined;
}

/** Settings of an engine: with a broker, its events are published; no topic begins with the prefix of its names. */
export function engineSettings({
  settings,
  projects,
  broker,
  prefix = DEFAULT_PREFIX,
}: EngineOptions): Partial<Settings> {
  return { outbox: broker !== undefined && broker !== null, prefix, ...defined({ projects }), ...settings };
}

/** Finds the open command that a receipt without the name of an attempt is of, whichever node has it. */
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
    lookAt: async (execution) => {
      // Commands at a broker may have left memory; whoever is asked for is there again.
      const found = await nodes.engine.inspect(execution);
      if (isRejection(found) && found.code !== "not_found")
        throw new Error(`it is not known which commands of ${execution} are open: ${found.message}`);
      if (isRejection(found)) return { commands: [], attempts: [] };
      return { commands: found.commands ?? [], attempts: await attemptsOf(nodes, execution) };
    },
    planOf: planOf(store),
  });
}

/** Reads definitions by their hash; null: there is none that this version can read. */
function planOf(store: Store): (hash: string) => Promise<Plan | null> {
  return async (hash) => {
    const found = await store.getDefinition({ hash });
    const definition = found === null ? null : readDefinition(found.body, hash);
    return definition === null || isRejection(definition) ? null : compilePlan(definition);
  };
}

/** Checks topics before workflows are started; it asks the broker that `brokerOf` gives, once there is one. */
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

/** Opens the bridge to the broker. Null: no broker is configured. */
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
  // Of a cluster that is known anyway.
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
  // It connects as soon as the broker is there.
  void bridge.start();
  return bridge;
}
