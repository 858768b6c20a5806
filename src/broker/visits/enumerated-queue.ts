/** The queue in which all enumerations end, whichever node has them. */

import { SHARED_QUEUE } from "../../protocol/amqp-wire.ts";
import { readFields } from "../../protocol/read-body.ts";
import { isRejection } from "../../std/rejection.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerSession } from "../broker-link.ts";
import { readTaskReport } from "../read-message.ts";
import type { OpenEnumerations } from "./open-enumerations.ts";
import type { QueueMender } from "./queue-mender.ts";
import type { ReceiptInbox } from "./receipt-inbox.ts";

export interface EnumeratedParts {
  readonly queue: string;
  readonly key: string;
  readonly words: ReceiptInbox;
  readonly enumerations: OpenEnumerations;
  readonly mender: QueueMender;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

/** Makes the queue and consumes it; when somebody deletes it, again. */
export async function consumeEnumerated(session: BrokerSession, parts: EnumeratedParts): Promise<void> {
  const { queue, key, words, enumerations, mender, onFault } = parts;
  await mender.open(session, [queue], async () => {
    await session.with((channel) => channel.assertQueue(queue, SHARED_QUEUE));
    await session.take(queue, (message) => {
      if (message === null) {
        if (parts.session() === session)
          consumeEnumerated(session, parts).catch((thrown: unknown) => onFault(toFault(thrown)));
        return;
      }
      const delivery = { message, channel: session.consume, queue };
      const fields = readFields(message.content);
      const word = isRejection(fields) ? fields : readTaskReport(fields, key);
      if (isRejection(word)) words.refuse(delivery, word.message);
      else if (word.at.task >= 0) words.refuse(delivery, "it is not about an enumeration");
      else enumerations.enumerated(word, delivery);
    });
  });
}
