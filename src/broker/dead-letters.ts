/** The dead letters of the engine: published by its publisher, declared over its session. */
import { DeadLetters, declareDead } from "../protocol/dead-letters.ts";
import type { Clock } from "../std/clock.ts";
import { toFault } from "./broker-fault.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { BrokerNames } from "./names.ts";
import type { Publisher } from "./publisher.ts";
import type { QueueMender } from "./visits/queue-mender.ts";

interface DeadLetterParts {
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly mender: QueueMender;
  readonly clock: Clock;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

export function deadLetters(parts: DeadLetterParts): DeadLetters {
  return new DeadLetters({
    dead: parts.names.dead,
    clock: parts.clock,
    publish: (letter, done) => parts.publisher.publish({ ...letter, mandatory: true, done }),
    declare: async () => {
      const session = parts.session();
      if (session !== null) await declareDeadLetters(session, parts);
    },
    onFault: (thrown) => parts.onFault(toFault(thrown)),
  });
}

/** Declares the exchange and its queue. */
export async function declareDeadLetters(
  session: BrokerSession,
  { names: { dead }, mender }: Pick<DeadLetterParts, "names" | "mender">,
): Promise<void> {
  await mender.open(session, [dead], () => session.with((channel) => declareDead(channel, dead)));
}
