/** Reads server-sent events from the body of an answer. */
import { createParser } from "eventsource-parser";
import type { HttpResponse } from "./transport.ts";

export interface ServerEvent {
  /** The id of the event, to be sent as Last-Event-ID to continue after it; empty if the server gave none. */
  readonly id: string;
  /** The name of the event; `message` if the server sent no name. */
  readonly kind: string;
  readonly data: string;
}

/** The most characters of one event. Events of Rondo servers are shorter. */
const BUFFER_CHARS_MAX = 64 * 1_048_576;

/**
 * Yields the server-sent events of a response until it ends. Leaving the loop early closes the connection. Throws if the connection
 * breaks.
 */
export async function* readServerEvents(
  response: HttpResponse,
  /** Called for every chunk of the body, even for comments, because each chunk shows that the connection is alive. */
  onChunk: () => void = () => {},
): AsyncGenerator<ServerEvent> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  const parse = eventParser();
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isOver = done;
      if (done) return;
      onChunk();
      yield* parse(typeof value === "string" ? value : decoder.decode(value, { stream: true }));
    }
  } finally {
    // If the connection is broken already, cancelling fails. The error is ignored, because nothing is left to close.
    if (!isOver) await reader.cancel().catch(() => {});
  }
}

/** Returns a parser: a function that accepts a chunk of text and returns the events that are complete with it. */
export function eventParser(): (text: string) => readonly ServerEvent[] {
  let events: ServerEvent[] = [];
  let lastId = "";
  const parser = createParser({
    maxBufferSize: BUFFER_CHARS_MAX,
    onEvent: ({ id = lastId, event = "message", data }) => {
      lastId = id;
      events.push({ id, kind: event, data });
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") throw error;
    },
  });
  return (text) => {
    events = [];
    parser.feed(text);
    return events;
  };
}
