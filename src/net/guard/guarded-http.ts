/**
 * Outgoing HTTP whose target comes from users' data. Before the first byte is sent, these steps happen in order: the URL and a
 * literal address in it are checked; the name is resolved and every address of the answer is checked; a connection is made to
 * one of these addresses (the name is not resolved again); and the address that was reached is checked. Redirects are not
 * followed. A refused target is a rejection; a server that does not answer is an `HttpFault`.
 */
import { lookup } from "node:dns/promises";
import http, { type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { defined } from "../../std/defined.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { HttpFault } from "../http-fault.ts";
import { type Address, parseAddress } from "./address.ts";
import type { AllowList } from "./allow-list.ts";
import { parseTarget, type Target, whyNotAt } from "./target.ts";

/** Resolves a name to addresses, as text. */
export type Lookup = (host: string) => Promise<readonly string[]>;
/** Connects to an address; resolves when the connection is made. */
export type Dial = (place: {
  readonly address: string;
  readonly port: number;
  readonly signal: AbortSignal;
}) => Promise<Socket>;

export interface GuardLimits {
  /** The time limit for resolving the name and connecting. */
  readonly connectMs: number;
  /** The time limit of the whole request and answer. */
  readonly wholeMs: number;
  /** The most bytes of the answer's body that are read; the rest is cut off. */
  readonly bodyBytes: number;
  readonly headerBytes: number;
}

export interface GuardOptions {
  readonly allow: AllowList;
  readonly limits?: Partial<GuardLimits>;
  readonly lookup?: Lookup;
  readonly dial?: Dial;
  /** Certificates to trust instead of the system's. */
  readonly ca?: string;
}

export interface GuardedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** A time limit shorter than the guard's own. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface GuardedAnswer {
  readonly kind: "answer";
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Whether the body was longer than the part that was read. */
  readonly isCut: boolean;
}

const LIMITS: GuardLimits = { connectMs: 5_000, wholeMs: 60_000, bodyBytes: 65_536, headerBytes: 16_384 };
const ADDRESSES_TRIED = 3;

export class GuardedHttp {
  readonly #allow: AllowList;
  readonly #limits: GuardLimits;
  readonly #lookup: Lookup;
  readonly #dial: Dial;
  readonly #ca: string | undefined;

  constructor(options: GuardOptions) {
    this.#allow = options.allow;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#lookup = options.lookup ?? lookupAll;
    this.#dial = options.dial ?? dialTcp;
    this.#ca = options.ca;
  }

  /** Returns why no request would be sent to this URL, judged by the URL alone; null if it may be allowed. */
  refusalOf(url: string): Rejection | null {
    const target = parseTarget(url, this.#allow);
    return isRejection(target) ? target : null;
  }

  async send(request: GuardedRequest): Promise<GuardedAnswer | Rejection> {
    const target = parseTarget(request.url, this.#allow);
    if (isRejection(target)) return target;
    const { connectMs, wholeMs } = this.#limits;
    const limit = AbortSignal.timeout(Math.min(request.timeoutMs ?? wholeMs, wholeMs));
    const signal = request.signal === undefined ? limit : AbortSignal.any([limit, request.signal]);
    const connecting = AbortSignal.any([signal, AbortSignal.timeout(connectMs)]);
    try {
      const addresses = await this.#resolve(target, connecting);
      if (isRejection(addresses)) return addresses;
      const socket = await this.#connect(target, addresses, connecting);
      if (isRejection(socket)) return socket;
      return await this.#exchange(target, socket, { ...request, signal });
    } catch (thrown) {
      throw faultOf(thrown, target, request.signal);
    }
  }

  /** Resolves the name to all its addresses, if every one is allowed: a forbidden one would be reached sooner or later. */
  async #resolve(target: Target, signal: AbortSignal): Promise<readonly Address[] | Rejection> {
    if (target.literal !== null) return [target.literal];
    const found = await unlessAborted(this.#lookup(target.host), signal);
    const addresses: Address[] = [];
    for (const text of found) {
      const address = parseAddress(text);
      const refusal = address === null ? noAddress(target, text) : whyNotAt(target, address, this.#allow);
      if (refusal !== null) return refusal;
      addresses.push(address as Address);
    }
    if (addresses.length === 0) throw new HttpFault(`${target.host} has no address`, "ENOTFOUND");
    return addresses.slice(0, ADDRESSES_TRIED);
  }

  async #connect(
    target: Target,
    addresses: readonly Address[],
    signal: AbortSignal,
  ): Promise<Socket | Rejection> {
    let failure: unknown = null;
    for (const wanted of addresses) {
      let socket: Socket;
      try {
        socket = await this.#dial({ address: wanted.text, port: target.port, signal });
      } catch (thrown) {
        signal.throwIfAborted();
        failure = thrown;
        continue;
      }
      // An error event without a listener would end the process, so an early error is ignored here.
      socket.on("error", ignoreHere);
      const refusal = this.#whyNotConnected(target, wanted, socket);
      if (refusal !== null) {
        socket.destroy();
        return refusal;
      }
      return target.isSecure ? this.#secure(socket, target.host, signal) : socket;
    }
    throw failure;
  }

  /** Begins TLS. The certificate must be valid for the host of the URL. */
  #secure(socket: Socket, host: string, signal: AbortSignal): Promise<Socket> {
    const isAddress = parseAddress(host) !== null;
    const tls = connectTls({
      socket,
      host,
      ...(isAddress ? {} : { servername: host }),
      ...defined({ ca: this.#ca }),
    });
    tls.once("close", () => socket.destroy());
    return untilReady(tls, "secureConnect", signal);
  }

  #whyNotConnected(target: Target, wanted: Address, socket: Socket): Rejection | null {
    const reached = socket.remoteAddress ?? "nowhere";
    const address = parseAddress(reached);
    if (address === null) return noAddress(target, reached);
    const refusal = whyNotAt(target, address, this.#allow);
    if (refusal !== null) return refusal;
    return address.text === wanted.text
      ? null
      : reject(
          "forbidden",
          `not sent: the connection to ${target.host} should have reached ${wanted.text}, but reached ${reached}`,
          {
            path: "url",
            hint: "check whether a proxy or a firewall redirects connections",
          },
        );
  }

  async #exchange(
    target: Target,
    socket: Socket,
    request: GuardedRequest & { readonly signal: AbortSignal },
  ): Promise<GuardedAnswer> {
    const { bodyBytes, headerBytes } = this.#limits;
    const read = async (): Promise<GuardedAnswer> => {
      const message = await ask(target, socket, { ...request, headerBytes });
      const { text, isCut } = await readUpTo(message, bodyBytes);
      return { kind: "answer", status: message.statusCode ?? 0, headers: message.headers, text, isCut };
    };
    try {
      return await unlessAborted(read(), request.signal);
    } finally {
      socket.destroy();
    }
  }
}

/** Writes a request to a connection; resolves with the headers of the answer. */
function ask(
  { path, authority }: Target,
  socket: Socket,
  { method, headers, body, headerBytes }: GuardedRequest & { readonly headerBytes: number },
): Promise<IncomingMessage> {
  return new Promise((resolve, fail) => {
    const call = http.request({
      method,
      path,
      setHost: false,
      headers: {
        ...headers,
        host: authority,
        connection: "close",
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
      },
      createConnection: () => socket,
      maxHeaderSize: headerBytes,
    });
    call.on("response", resolve);
    call.on("error", fail);
    // The close event covers all other ends of a request, such as an answer that changes the protocol.
    call.on("close", () => fail(new HttpFault(`${authority}: closed without an answer`, "ECONNRESET")));
    call.end(body);
  });
}

async function readUpTo(
  message: IncomingMessage,
  bytesMax: number,
): Promise<{ text: string; isCut: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) break;
  }
  const isCut = bytes > bytesMax;
  return { text: Buffer.concat(chunks).subarray(0, bytesMax).toString(), isCut };
}

async function lookupAll(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);
}

function dialTcp({ address, port, signal }: Parameters<Dial>[0]): Promise<Socket> {
  const socket = connect({ host: address, port });
  return untilReady(socket, "connect", signal);
}

/** Resolves when the socket emits the event. An error or an abort before that destroys the socket and rejects. */
function untilReady(socket: Socket, event: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, fail) => {
    const giveUp = (): void => void socket.destroy(signal.reason as Error);
    const end = (): void => signal.removeEventListener("abort", giveUp);
    socket.on("error", (thrown) => {
      end();
      fail(thrown);
    });
    socket.once(event, () => {
      end();
      resolve(socket);
    });
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
  });
}

/** Ignores an error event: the request itself reports the error to its caller. */
function ignoreHere(): void {}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, fail) => {
    const giveUp = (): void => fail(signal.reason as Error);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    void promise.then(resolve, fail).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

function noAddress({ host }: Target, text: string): Rejection {
  return reject("forbidden", `not sent: ${host} is at ${JSON.stringify(text)}, which is not an address`, {
    path: "url",
    hint: "check what the name resolves to",
  });
}

function faultOf(thrown: unknown, { authority }: Target, given: AbortSignal | undefined): HttpFault {
  if (thrown instanceof HttpFault) return thrown;
  const error = thrown as NodeJS.ErrnoException;
  const isAbort = error.name === "AbortError" || error.name === "TimeoutError";
  const code = isAbort ? (given?.aborted === true ? "aborted" : "timeout") : (error.code ?? "unknown");
  const what = isAbort ? (code === "aborted" ? "was given up" : "took too long") : error.message || code;
  return new HttpFault(`${authority}: ${what}`, code, { cause: thrown });
}
