/**
 * HTTP requests to one server, over TCP or a unix socket, with kept-alive connections. Only a missing answer is an `HttpFault`.
 */
import http, { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { systemClock } from "../std/clock.ts";
import { HttpFault } from "./http-fault.ts";

export interface HttpRequest {
  readonly method: string;
  /** The path from the server's root, with its query. */
  readonly path: string;
  /** The body of the request. It is sent as JSON unless the headers name another type. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** The longest time without bytes: before the head of the answer, or between two parts of its body. */
  readonly silenceMs?: number;
  /** Called with each part of the answer's body. */
  readonly onPart?: () => void;
  readonly signal?: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** An answer whose body is read as it arrives. Reading it to its end, or `cancel`, frees the connection. */
export interface OpenAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AsyncIterable<string>;
  cancel(): void;
}

export interface HttpConnectionOptions {
  /** The address of the server: `http(s)://host:port`, with a path if the server has one, or `unix:<path of a socket>`. */
  readonly address: string;
  readonly token?: string;
  /** The longest answer, in bytes. A longer answer is a fault. */
  readonly answerBytesMax?: number;
}

/** Requests to one address. The simulator has another implementation than HTTP. */
export type Requests = Pick<HttpConnection, "address" | "localAddress" | "send" | "dropIdle" | "close">;

const ANSWER_BYTES_MAX = 64 * 1_048_576;
const clock = systemClock();

export class HttpConnection {
  readonly address: string;
  readonly #target: RequestOptions;
  readonly #base: string;
  readonly #isSecure: boolean;
  readonly #agent: http.Agent;
  readonly #token: string | undefined;
  readonly #answerBytesMax: number;
  #localAddress: string | null = null;

  constructor(options: HttpConnectionOptions) {
    this.address = options.address;
    this.#token = options.token;
    this.#answerBytesMax = options.answerBytesMax ?? ANSWER_BYTES_MAX;
    const { target, base, isSecure } = targetOf(options.address);
    this.#target = target;
    this.#base = base;
    this.#isSecure = isSecure;
    this.#agent = isSecure ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true });
  }

  /** The address of this side as the server sees it, after the first request; null if it is unknown, or for a unix socket. */
  get localAddress(): string | null {
    return this.#localAddress;
  }

  async send(request: HttpRequest): Promise<HttpAnswer> {
    const { message, limits } = await this.#start(request);
    return new Promise((resolve, fail) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      message.on("data", (chunk: Buffer) => {
        limits.restart();
        request.onPart?.();
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > this.#answerBytesMax)
          message.destroy(
            new HttpFault(`${this.address} answered with over ${this.#answerBytesMax} bytes`, "too_large"),
          );
      });
      message.on("end", () => {
        const text =
          chunks.length === 1 ? (chunks[0] as Buffer).toString() : Buffer.concat(chunks, bytes).toString();
        resolve({ status: message.statusCode ?? 0, headers: message.headers, text });
      });
      // If a time limit ends while the answer is read, Node reports a broken connection. The error of the limit is reported instead.
      message.on("error", (thrown) => fail(this.#fault(limits.late ?? thrown, request)));
    });
  }

  /** Sends a request; the caller reads the body of the answer as it arrives. */
  async open(request: HttpRequest): Promise<OpenAnswer> {
    const { message, limits } = await this.#start(request);
    message.setEncoding("utf8");
    const fault = (thrown: unknown) => this.#fault(limits.late ?? thrown, request);
    async function* read(): AsyncGenerator<string> {
      try {
        yield* message as AsyncIterable<string>;
      } catch (thrown) {
        throw fault(thrown);
      }
    }
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      body: read(),
      cancel: () => message.destroy(),
    };
  }

  /** Closes idle connections; the next request opens a new one. */
  dropIdle(): void {
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of [...(sockets ?? [])]) socket.destroy();
  }

  /** Closes all connections; open requests fail. */
  close(): void {
    this.#agent.destroy();
  }

  #start(request: HttpRequest): Promise<{ readonly message: IncomingMessage; readonly limits: Limits }> {
    const { body, signal } = request;
    const headers: Record<string, string | number> = { ...request.headers };
    if (this.#token !== undefined) headers["authorization"] ??= `Bearer ${this.#token}`;
    if (body !== undefined) {
      headers["content-type"] ??= "application/json";
      headers["content-length"] = Buffer.byteLength(body);
    }
    return new Promise((resolve, fail) => {
      const call = (this.#isSecure ? https : http).request({
        ...this.#target,
        agent: this.#agent,
        method: request.method,
        path: `${this.#base}${request.path}`,
        headers,
        ...(signal === undefined ? {} : { signal }),
      });
      const limits = new Limits(request, (late) => call.destroy(late));
      call.on("response", (message) => {
        limits.restart();
        resolve({ message, limits });
      });
      call.on("socket", (socket) => {
        if (socket.localAddress !== undefined) this.#localAddress = socket.localAddress;
        else if (socket.connecting)
          socket.once("connect", () => (this.#localAddress = socket.localAddress ?? null));
      });
      call.on("error", (thrown) => fail(this.#fault(limits.late ?? thrown, request, call.reusedSocket)));
      call.on("close", () => limits.end());
      call.end(body);
    });
  }

  #fault(thrown: unknown, { method, path, signal }: HttpRequest, isReused = false): HttpFault {
    if (thrown instanceof HttpFault) return thrown;
    const error = thrown as NodeJS.ErrnoException;
    const isAbort = error.name === "AbortError" || error.name === "TimeoutError";
    const code = isAbort ? (signal?.aborted === true ? "aborted" : "timeout") : (error.code ?? "unknown");
    const what = isAbort ? (code === "aborted" ? "was given up" : "took too long") : error.message || code;
    const isStale = isReused && (code === "ECONNRESET" || code === "EPIPE");
    return new HttpFault(`${method} ${path} at ${this.address}: ${what}`, code, { cause: thrown, isStale });
  }
}

/**
 * The time limits of one request: of the whole and of its silences. They are timers and not abort signals, because those would
 * stay in memory for their whole time after each request.
 */
class Limits {
  readonly #silenceMs: number | undefined;
  readonly #onLate: (late: Error) => void;
  readonly #stopWhole: (() => void) | null;
  #stopSilence: (() => void) | null = null;
  #hasEnded = false;
  /** The time-out error, if the request or one of its silences took too long; null otherwise. */
  late: Error | null = null;

  constructor({ timeoutMs, silenceMs }: HttpRequest, onLate: (late: Error) => void) {
    this.#silenceMs = silenceMs;
    this.#onLate = onLate;
    this.#stopWhole = timeoutMs === undefined ? null : clock.after(timeoutMs, () => this.#exceeded());
    this.restart();
  }

  /** Called when bytes have arrived: the silence timer starts again. */
  restart(): void {
    if (this.#silenceMs === undefined || this.#hasEnded) return;
    this.#stopSilence?.();
    this.#stopSilence = clock.after(this.#silenceMs, () => this.#exceeded());
  }

  end(): void {
    this.#hasEnded = true;
    this.#stopWhole?.();
    this.#stopSilence?.();
  }

  #exceeded(): void {
    this.end();
    this.late = new Error("the time is over");
    this.late.name = "TimeoutError";
    this.#onLate(this.late);
  }
}

function targetOf(address: string): { target: RequestOptions; base: string; isSecure: boolean } {
  if (address.startsWith("unix:"))
    return { target: { socketPath: address.slice(5), host: "localhost" }, base: "", isSecure: false };
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new HttpFault(`"${address}" is not http(s)://host:port or unix:<path>`, "invalid_address");
  const isSecure = url.protocol === "https:";
  return {
    target: {
      host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: url.port === "" ? (isSecure ? 443 : 80) : Number(url.port),
    },
    base: url.pathname.replace(/\/$/, ""),
    isSecure,
  };
}
