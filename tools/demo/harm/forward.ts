/** Forwards one whole request to a server, and returns the whole answer. Proxies between a worker and a server use it. */
import { type Agent, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";

export interface Forwarded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Aborts the request when its sender has gone. */
  readonly signal?: AbortSignal;
}

/** The answer of the server. */
export interface ForwardedAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends the request to the server at `target`. Rejects if no complete answer comes. */
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

/** The complete body of a message. Rejects if it breaks off. */
export async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of message as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}
