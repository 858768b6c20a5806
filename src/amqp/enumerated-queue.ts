import { isRejection } from "../std/rejection.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { EnumerationDesk } from "./enumeration-desk.ts";
import { readFields, readWord } from "./read-message.ts";
import type { WordDesk } from "./word-desk.ts";

/** Consumes the queue in which all enumerations end, whichever node has them. */
export async function consumeEnumerated(
  session: BrokerSession,
  queue: string,
  { key, words, enumerations }: { key: string; words: WordDesk; enumerations: EnumerationDesk },
): Promise<void> {
  await session.consume.consume(queue, (message) => {
    // Somebody deleted it: the session is made again, and with it the queue.
    if (message === null) return void session.consume.close().catch(() => {});
    const delivery = { message, channel: session.consume, queue };
    const fields = readFields(message.content);
    const word = isRejection(fields) ? fields : readWord(fields, key);
    if (isRejection(word)) words.refuse(delivery, word.message);
    else if (word.at.task >= 0) words.refuse(delivery, "it is not about an enumeration");
    else enumerations.enumerated(word, delivery);
  });
}
