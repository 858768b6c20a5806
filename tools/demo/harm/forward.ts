/** One request passed on to a server, whole, and its whole answer: what stands between a worker and a server is made of it. */
import { type Agent, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";

export interface Forwarded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Breaks it off: whoever asked has gone, and nobody holds what it asked for. */
  readonly signal?: AbortSignal;
}

/** What the server said. */
export interface ForwardedAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Asks the server at `target`; rejects if no whole answer comes. */
export function forward(
  target: URL,
  agent: Agent,
  { method, path, headers, body, signal }: Forwarded,
): Promise<ForwardedAnswer> {
  const { host: _, ...others } = headers;
  const { hostname, port } = target;
  return new Promise((resolve, fail) => {
    const asked = request(
      { hostname, port, agent, method, path, headers: others, ...(signal === undefined ? {} : { signal }) },
      (answer) => {
        bodyOf(answer).then(
          (got) => resolve({ status: answer.statusCode ?? 502, headers: answer.headers, body: got }),
          fail,
        );
      },
    );
    asked.once("error", fail);
    asked.end(body);
  });
}

/** The whole body of a message; rejects if it breaks off. */
export async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of message as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}
