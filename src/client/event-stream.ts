/** Server-sent events out of the bytes of an answer: the part of the format that Rondo's servers use. */
import type { HttpResponse } from "./transport.ts";

export interface ServerEvent {
  /** What to send as Last-Event-ID to go on after it; empty if none was given. */
  readonly id: string;
  /** `message` unless the server named it. */
  readonly kind: string;
  readonly data: string;
}

/** A line beyond this is no event of ours: the connection is given up. */
const LINE_MAX = 64 * 1_048_576;

/** The events of an answer, until it ends; leaving early closes it. Throws if the connection breaks. */
export async function* readServerEvents(
  response: HttpResponse,
  /** Called for whatever comes, comments too: the connection lives. */
  heard: () => void = () => {},
): AsyncGenerator<ServerEvent> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  const parser = new EventParser();
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isOver = done;
      if (done) return;
      heard();
      yield* parser.take(typeof value === "string" ? value : decoder.decode(value, { stream: true }));
    }
  } finally {
    // Cancelling may fail on a connection that is broken already: that is where it should be.
    if (!isOver) await reader.cancel().catch(() => {});
  }
}

/** Takes pieces of text, gives the events that they complete. */
export class EventParser {
  #line = "";
  #id = "";
  #kind = "";
  #data: string[] = [];

  *take(text: string): Generator<ServerEvent> {
    let from = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", from)) {
      const line = this.#line + text.slice(from, end);
      this.#line = "";
      from = end + 1;
      const event = this.#takeLine(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event !== null) yield event;
    }
    this.#line += text.slice(from);
    if (this.#line.length > LINE_MAX) throw new Error("the server sent a line without an end");
  }

  /** An empty line ends an event; one without data is none. Lines that begin with a colon only keep the line open. */
  #takeLine(line: string): ServerEvent | null {
    if (line === "") {
      const [kind, data] = [this.#kind || "message", this.#data];
      this.#kind = "";
      this.#data = [];
      return data.length === 0 ? null : { id: this.#id, kind, data: data.join("\n") };
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    else if (field === "event") this.#kind = value;
    return null;
  }
}
