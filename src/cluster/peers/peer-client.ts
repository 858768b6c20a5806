/**
 * Sends requests to other nodes. Each request returns a value and never throws. After the result `unreached`, the request may have
 * arrived all the same. This class repeats no request.
 */
import {
  type HttpAnswer,
  HttpConnection,
  type HttpRequest,
  type OpenAnswer,
} from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { defined } from "../../std/defined.ts";
import { type Rejection, type RejectionCode, reject } from "../../std/rejection.ts";
import { digestOf, type PeerKey } from "./peer-key.ts";
import { BODY_BYTES_MAX, HEADER, PEER_PATH, SCHEME } from "./peer-wire.ts";

export type PeerAnswer<T> =
  | { readonly kind: "answered"; readonly value: T }
  | { readonly kind: "not-owner" }
  /** The node could not be reached, or could not answer now. In the second case the HTTP status of its answer is given. */
  | { readonly kind: "unreached"; readonly why: string; readonly status?: number }
  /** The node refused the request, and would refuse it again. */
  | { readonly kind: "refused"; readonly rejection: Rejection };

export interface PeerClientOptions {
  readonly url: string;
  readonly key: PeerKey;
  /** Called once for each node that refuses this node's signature, which means that the secrets in the configurations differ. */
  readonly onFault?: (fault: Error) => void;
}

export interface CallOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const TIMEOUT_MS = 30_000;
const PROBE_MS = 2_000;
/** HTTP statuses that mean that the request itself is wrong. */
const REFUSALS: Readonly<Record<number, RejectionCode>> = {
  400: "invalid_json",
  413: "too_large",
  422: "invalid_input",
};

export class PeerClient {
  readonly #options: PeerClientOptions;
  readonly #links = new Map<string, Link>();
  readonly #strangers = new Set<string>();
  #isClosed = false;

  constructor(options: PeerClientOptions) {
    this.#options = options;
  }

  async call<T>(to: string, name: string, body: unknown, options: CallOptions = {}): Promise<PeerAnswer<T>> {
    const { timeoutMs = TIMEOUT_MS, signal } = options;
    const request = this.#request(name, body, signal === undefined ? { timeoutMs } : { timeoutMs, signal });
    if (request === null) return tooLarge(to);
    const answer = await this.#tried(to, (connection) => connection.send(request));
    if (answer instanceof HttpFault) return { kind: "unreached", why: answer.message };
    if (answer.status !== 200) return this.#refusal(to, answer);
    this.#strangers.delete(to);
    try {
      return { kind: "answered", value: JSON.parse(answer.text) as T };
    } catch (thrown) {
      return { kind: "unreached", why: `${to} did not answer with JSON: ${String(thrown)}` };
    }
  }

  /** Passes a client's request on unchanged. Returns any answer, unless the node is not the owner or not ready. */
  async pass(to: string, request: HttpRequest, options: CallOptions = {}): Promise<PeerAnswer<HttpAnswer>> {
    const { timeoutMs = TIMEOUT_MS, signal } = options;
    const limits = signal === undefined ? { timeoutMs } : { timeoutMs, signal };
    const answer = await this.#tried(to, (connection) => connection.send({ ...request, ...limits }));
    if (answer instanceof HttpFault) return { kind: "unreached", why: answer.message };
    if (answer.status === 421) return { kind: "not-owner" };
    if (answer.status >= 500)
      return { kind: "unreached", why: `${to} answered ${answer.status}: ${answer.text.slice(0, 200)}` };
    return { kind: "answered", value: answer };
  }

  /** Asks a node whether it refuses this node's signature. Returns false also if that node cannot be reached. */
  async isRefusedBy(url: string): Promise<boolean> {
    await this.call(url, "state", {}, { timeoutMs: PROBE_MS });
    return this.#strangers.has(url);
  }

  /** Opens a stream of JSON lines. Reading ends with the stream, or throws an `HttpFault` if the connection breaks. */
  async open<T>(
    to: string,
    name: string,
    body: unknown,
    signal: AbortSignal,
  ): Promise<PeerAnswer<AsyncIterable<T>>> {
    const request = this.#request(name, body, { signal });
    if (request === null) return tooLarge(to);
    const answer = await this.#tried(to, (connection) => connection.open(request));
    if (answer instanceof HttpFault) return { kind: "unreached", why: answer.message };
    if (answer.status === 200) return { kind: "answered", value: linesOf<T>(answer) };
    let told = "";
    try {
      for await (const piece of answer.body) told = (told + piece).slice(0, 10_000);
    } catch (thrown) {
      if (!(thrown instanceof HttpFault)) throw thrown;
      return { kind: "unreached", why: thrown.message };
    }
    return this.#refusal(to, { status: answer.status, text: told });
  }

  /** Closes idle connections to nodes that are no longer members. */
  keep(urls: readonly string[]): void {
    for (const [url, { connection, asking }] of this.#links) {
      if (urls.includes(url) || asking > 0) continue;
      this.#links.delete(url);
      connection.close();
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { connection } of this.#links.values()) connection.close();
    this.#links.clear();
  }

  #request(
    name: string,
    body: unknown,
    limits: Pick<HttpRequest, "timeoutMs" | "signal">,
  ): HttpRequest | null {
    const { url: from, key } = this.#options;
    const text = JSON.stringify(body);
    if (Buffer.byteLength(text) > BODY_BYTES_MAX) return null;
    const path = `${PEER_PATH}${name}`;
    const digest = digestOf(text);
    const headers = {
      authorization: `${SCHEME} ${key.sign({ path, from, digest })}`,
      [HEADER.from]: from,
      [HEADER.digest]: digest,
      [HEADER.hops]: "1",
    };
    return { method: "POST", path, body: text, headers, ...limits };
  }

  async #tried<T>(to: string, ask: (connection: HttpConnection) => Promise<T>): Promise<T | HttpFault> {
    if (this.#isClosed) return new HttpFault("this node is closing", "closed");
    try {
      // An invalid address counts as a node that cannot be reached.
      return await askOver(this.#link(to), ask);
    } catch (thrown) {
      if (!(thrown instanceof HttpFault)) throw thrown;
      return thrown;
    }
  }

  #link(to: string): Link {
    let link = this.#links.get(to);
    if (link === undefined) {
      link = { connection: new HttpConnection({ address: to, answerBytesMax: BODY_BYTES_MAX }), asking: 0 };
      this.#links.set(to, link);
    }
    return link;
  }

  #refusal(to: string, { status, text }: { status: number; text: string }): PeerAnswer<never> {
    if (status === 421) return { kind: "not-owner" };
    const { detail = text.slice(0, 200), hint, path, code: said } = readProblem(text);
    if (status === 401) {
      const why = `the node ${to} refuses the signature of this node: ${detail}`;
      if (!this.#strangers.has(to)) this.#options.onFault?.(new Error(why));
      this.#strangers.add(to);
      return {
        kind: "refused",
        rejection: reject("not_ready", why, { hint: "give all nodes the same RONDO_SECRET" }),
      };
    }
    const code = said === "store_unavailable" ? said : REFUSALS[status];
    if (code === undefined) return { kind: "unreached", why: `${to} answered ${status}: ${detail}`, status };
    return { kind: "refused", rejection: reject(code, `${to}: ${detail}`, defined({ hint, path })) };
  }
}

interface Link {
  readonly connection: HttpConnection;
  /** The number of open requests. */
  asking: number;
}

async function askOver<T>(link: Link, ask: (connection: HttpConnection) => Promise<T>): Promise<T> {
  link.asking++;
  try {
    return await ask(link.connection).catch((thrown: unknown) => {
      if (!(thrown instanceof HttpFault)) throw thrown;
      // If one connection is dead, idle connections to the same node are closed too: they may be dead, and each would cost a time-out.
      link.connection.dropIdle();
      if (thrown.isStale) return ask(link.connection);
      throw thrown;
    });
  } finally {
    link.asking--;
  }
}

interface Problem {
  readonly detail?: string;
  readonly hint?: string;
  readonly path?: string;
  readonly code?: string;
}

function readProblem(text: string): Problem {
  try {
    const { detail, hint, path, code } = JSON.parse(text) as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries({ detail, hint, path, code }).filter(([, value]) => typeof value === "string"),
    );
  } catch (thrown) {
    return { detail: `not a problem: ${String(thrown)}` };
  }
}

function tooLarge(to: string): PeerAnswer<never> {
  const message = `the request to ${to} is larger than ${BODY_BYTES_MAX} bytes`;
  return { kind: "refused", rejection: reject("too_large", message) };
}

async function* linesOf<T>(answer: OpenAnswer): AsyncGenerator<T> {
  let rest = "";
  try {
    for await (const piece of answer.body) {
      const lines = (rest + piece).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > BODY_BYTES_MAX) throw new HttpFault("a line without end", "too_large");
      for (const line of lines) yield parseLine(line) as T;
    }
  } finally {
    answer.cancel();
  }
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new HttpFault("the stream has a line that is not JSON", "invalid_json", { cause });
  }
}
