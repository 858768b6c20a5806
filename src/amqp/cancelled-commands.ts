/**
 * Announces cancelled commands on the fanout `cancel.consumer`. A copy may still be in its topic or at a worker: Rondo's
 * workers stop it, or acknowledge it without running it. `task_queue` names a queue that commands never have, so workers
 * that do not know `commands` find nothing to stop.
 */
import type { EnginePort } from "../engine/engine-port.ts";
import type { CancelConsumerMessage } from "../protocol/amqp-wire.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import type { ReportedAttempt, ReportPlace } from "../protocol/work.ts";
import { type BrokerNames, deskKey } from "./names.ts";
import type { Publisher } from "./publisher.ts";
import type { BrokerSettings } from "./settings.ts";

export interface CancelledCommandsParts {
  readonly worker: string;
  readonly engine: EnginePort;
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly settings: BrokerSettings;
}

/** A command that may be at its topic. */
export interface OpenCommand {
  readonly id: string;
  readonly at: ReportedAttempt;
  readonly topic: string;
}

const OPEN_MAX = 10_000;
/** Ids in one message. */
const PORTION = 500;

let messages = 0;

/** The commands of one handler of a visit that are open at the broker. */
export function openCommandsOf(
  { engine, worker }: CancelledCommandsParts,
  place: ReportPlace,
): readonly OpenCommand[] {
  const found: OpenCommand[] = [];
  const filter = { worker, execution: place.execution, commands: true, max: OPEN_MAX } as const;
  for (const { attempt: id, topic } of engine.openAttempts(filter)) {
    const at = decodeAttempt(id);
    if (at !== null && topic !== undefined && deskKey(at) === deskKey(place)) found.push({ id, at, topic });
  }
  return found;
}

/** Tells all workers that nobody waits for these any more. */
export function announceCancelled(
  { names, publisher, settings }: CancelledCommandsParts,
  place: ReportPlace,
  commands: readonly OpenCommand[],
): void {
  for (let from = 0; from < commands.length; from += PORTION) {
    const message: CancelConsumerMessage = {
      task_queue: names.tasks(place),
      reason: "cancelled",
      commands: commands.slice(from, from + PORTION).map(({ id }) => id),
    };
    publisher.publish({
      exchange: names.cancelConsumer,
      key: "",
      id: `cancel-commands~${++messages}`,
      body: Buffer.from(JSON.stringify(message)),
      expirationMs: settings.broadcastMs * 12,
    });
  }
}
