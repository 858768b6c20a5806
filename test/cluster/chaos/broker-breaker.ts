/** Breaks a broker and the ways to it, one fault after another, drawn by a seed. Whatever it breaks it puts back. */
import type { ConsumeMessage, GetMessage } from "amqplib";
import { connect } from "amqplib";
import type { SeededRandom } from "../../../src/std/random.ts";
import type { RabbitServer } from "../../fixtures/broker/rabbitmq-server-fixture.ts";
import type { TestBroker } from "../../fixtures/broker/test-broker-fixture.ts";

/** What it may break besides the broker. */
export interface BreakerParts {
  readonly server: RabbitServer;
  readonly broker: TestBroker;
  readonly random: SeededRandom;
  /** Cuts the connections of the engine, or of workers. */
  readonly cuts: readonly { readonly name: string; cut(): void }[];
  /** Kills a worker with SIGKILL, and starts another. */
  readonly replaceWorker: () => Promise<void>;
  readonly say: (line: string) => void;
}

/** The broker is not down more often than this. */
const DOWN_EVERY_MS = 12_000;
const REPEATED_MAX = 20;

export class BrokerBreaker {
  readonly faults: Record<string, number> = {};
  readonly #parts: BreakerParts;
  #isBusy = false;
  #downAt = 0;

  constructor(parts: BreakerParts) {
    this.#parts = parts;
  }

  /** One more fault, unless the last one is still under way. */
  async break(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    const { random, say } = this.#parts;
    const canFall = Date.now() - this.#downAt > DOWN_EVERY_MS;
    const kinds = ["cut", "cut", "close", "purge", "purge", "delete", "delete", "repeat", "repeat", "worker"];
    const all = canFall ? [...kinds, "kill", "kill", "restart"] : kinds;
    const kind = all[random.below(all.length)] as string;
    try {
      const what = await this.#do(kind);
      this.faults[kind] = (this.faults[kind] ?? 0) + 1;
      say(`${kind}${what === "" ? "" : ` ${what}`}`);
    } catch (thrown) {
      // A broker that is just gone cannot be asked: there will be another fault.
      say(`${kind} did not come to be: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    } finally {
      this.#isBusy = false;
    }
  }

  /** Resolves when nothing is broken any more. */
  async heal(): Promise<void> {
    while (this.#isBusy) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  async #do(kind: string): Promise<string> {
    const { server, broker, random, cuts } = this.#parts;
    switch (kind) {
      case "cut": {
        const way = cuts[random.below(cuts.length)] as BreakerParts["cuts"][number];
        way.cut();
        return way.name;
      }
      case "close":
        return `${await broker.management.closeConnections(broker.vhost)} connections`;
      case "worker":
        await this.#parts.replaceWorker();
        return "";
      case "purge":
      case "delete":
      case "repeat":
        return this.#touch(kind);
      default:
        this.#downAt = Date.now();
        await server.restart(kind === "kill" ? "kill" : "term");
        this.#downAt = Date.now();
        return "";
    }
  }

  async #touch(kind: "purge" | "delete" | "repeat"): Promise<string> {
    const { broker, random } = this.#parts;
    const queues = (await broker.queues()).filter(
      ({ name }) => !name.startsWith("amq.") && !name.endsWith(".dead"),
    );
    const filled = queues.filter(({ messages }) => messages > 0);
    // Mostly one with something in it: else there is not much to break.
    const among = filled.length > 0 && random.below(4) > 0 ? filled : queues;
    const queue = among[random.below(Math.max(1, among.length))]?.name;
    if (queue === undefined) return "nothing";
    const connection = await connect(broker.url);
    // It is closed below; what breaks it before is thrown by the call.
    connection.on("error", () => {});
    try {
      const channel = await connection.createConfirmChannel();
      channel.on("error", () => {});
      if (kind === "purge") return `${queue} (${(await channel.purgeQueue(queue)).messageCount})`;
      if (kind === "delete") return `${queue} (${(await channel.deleteQueue(queue)).messageCount})`;
      let repeated = 0;
      const taken: GetMessage[] = [];
      for (let got = await channel.get(queue); got !== false; ) {
        taken.push(got);
        channel.sendToQueue(queue, got.content, kept(got));
        if (++repeated >= REPEATED_MAX) break;
        got = await channel.get(queue);
      }
      await channel.waitForConfirms();
      for (const message of taken) channel.nack(message, false, true);
      return `${queue} (${repeated})`;
    } finally {
      await connection.close().catch(() => {});
    }
  }
}

function kept({ properties }: Pick<ConsumeMessage, "properties">) {
  const { messageId, contentType, headers, expiration, replyTo } = properties;
  const all = { messageId, contentType, headers, expiration, replyTo };
  return {
    persistent: true,
    ...Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)),
  };
}
