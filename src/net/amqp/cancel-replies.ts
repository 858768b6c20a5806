/**
 * RabbitMQ 3.10 can answer the cancel of a consumer twice, if the consumer's quorum queue is deleted at the same moment. The
 * client library takes the second answer for the reply to another request, or for an error, and ends the whole connection.
 */
import type { Channel } from "amqplib";

/** The number of the method `basic.cancel-ok`: its class and its method. */
const CANCEL_OK = (60 << 16) | 31;

interface Frame {
  readonly id: number;
  readonly fields?: { readonly consumerTag?: string };
}

/** The answers that are remembered. The second answer to a cancel comes soon after the first. */
const REMEMBERED_MAX = 100;

/** Drops every answer to a cancel but the first. No two consumers of a channel have the same tag. */
export function dropRepeatedCancelReplies(channel: Channel): void {
  const receiver = channel as unknown as { accept(frame: Frame): void };
  const accept = receiver.accept.bind(channel);
  const answered = new Set<string | undefined>();
  receiver.accept = (frame) => {
    if (frame.id === CANCEL_OK) {
      const tag = frame.fields?.consumerTag;
      if (answered.has(tag)) return;
      answered.add(tag);
      for (const oldest of answered) {
        if (answered.size <= REMEMBERED_MAX) break;
        answered.delete(oldest);
      }
    }
    accept(frame);
  };
}
