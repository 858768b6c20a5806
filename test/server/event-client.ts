// Follows a stream of server-sent events over a connection of its own, and can let go of it at any time.
import { type ClientRequest, type IncomingMessage, request } from "node:http";

export interface StreamEvent {
  readonly id: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventClientOptions {
  readonly url: string;
  readonly path: string;
  readonly lastEventId?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export class EventClient {
  readonly events: StreamEvent[] = [];
  comments = 0;
  status = 0;
  isEnded = false;
  /** The connection broke before the stream ended. */
  isBroken = false;
  readonly #request: ClientRequest;
  #text = "";
  #wake: () => void = () => {};

  constructor({ url, path, lastEventId, headers }: EventClientOptions) {
    this.#request = request(`${url}${path}`, {
      agent: false,
      headers: {
        accept: "text/event-stream",
        ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
        ...headers,
      },
    });
    this.#request.once("response", (response) => this.#read(response));
    this.#request.on("error", () => this.#end(true));
    this.#request.end();
  }

  get lastId(): string | undefined {
    return this.events.at(-1)?.id;
  }

  /** Resolves when something holds, or the stream is over. */
  async until(holds: () => boolean): Promise<void> {
    while (!this.isEnded && !holds())
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** Resolves when the stream is over. */
  ended(): Promise<void> {
    return this.until(() => false);
  }

  close(): void {
    this.#request.destroy();
    this.#end(true);
  }

  #read(response: IncomingMessage): void {
    this.status = response.statusCode ?? 0;
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      this.#text += text;
      const frames = this.#text.split("\n\n");
      this.#text = frames.pop() ?? "";
      for (const frame of frames) this.#take(frame);
      this.#wake();
    });
    response.once("end", () => this.#end(false));
    response.on("error", () => this.#end(true));
    this.#wake();
  }

  #take(frame: string): void {
    const field = (name: string): string | undefined =>
      frame
        .split("\n")
        .find((line) => line.startsWith(`${name}: `))
        ?.slice(name.length + 2);
    const data = field("data");
    if (data === undefined) this.comments++;
    else this.events.push({ id: field("id") ?? "", data: JSON.parse(data) as StreamEvent["data"] });
  }

  #end(isBroken: boolean): void {
    if (this.isEnded) return;
    this.isEnded = true;
    this.isBroken = isBroken;
    this.#wake();
  }
}
