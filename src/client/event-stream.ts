/** Reads server-sent events from the body of an answer. */
import { createParser } from "eventsource-parser";
import type { HttpResponse } from "./transport.ts";

export interface ServerEvent {
  /** The id to send as Last-Event-ID to continue after this event; empty if none was given. */
  readonly id: string;
  /** The name of the event; `message` if the server sent no name. */
  readonly kind: string;
  readonly data: string;
}

/** The most characters of one event: no event of a Rondo server is this long. */
const BUFFER_CHARS_MAX = 64 * 1_048_576;

/**
 * Yields the server-sent events of an answer until it ends. Leaving the loop early closes the connection. Throws if the
 * connection breaks.
 */
export async function* readServerEvents(
  response: HttpResponse,
  /** Called for every piece of the body, comments included, because each shows that the connection is alive. */
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
    // The connection may be broken already; then cancelling fails, and nothing is left to close.
    if (!isOver) await reader.cancel().catch(() => {});
  }
}

/** Returns a function that accepts a piece of text and returns the events that it completes. */
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
