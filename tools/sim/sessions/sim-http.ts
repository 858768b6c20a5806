/**
 * Simulated HTTP between workers and one server, in virtual time: requests and answers take their time, get lost, or arrive
 * twice, and connections break. A frozen process reads its answers when it goes on; a dead one never does. The routes of the
 * server and the code of the worker are the real ones.
 */
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HttpAnswer, HttpRequest, Requests } from "../../../src/net/http-connection.ts";
import { HttpFault } from "../../../src/net/http-fault.ts";
import { CLAIM_HEADER, CLAIM_ID_HEADER } from "../../../src/protocol/worker-wire.ts";
import { anybody } from "../../../src/server/auth/access.ts";
import { problemOf } from "../../../src/server/http/problem.ts";
import { checkPart } from "../../../src/server/http/request-check.ts";
import type { Answer, Ask, Route } from "../../../src/server/route.ts";
import type { Clock } from "../../../src/std/clock.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import { isRejection, type Rejection, reject } from "../../../src/std/rejection.ts";

/** The faults of the network, each as a probability. */
export interface NetworkFaults {
  /** A request is lost. */
  readonly lostRequest: number;
  /** An answer is lost, after the server has done what was asked. */
  readonly lostAnswer: number;
  /** A lost message leaves the connection open, so that only a time-out tells of it. Otherwise the connection breaks at once. */
  readonly silence: number;
  /** A message takes up to `slowMs`. */
  readonly slow: number;
  readonly slowMs: number;
  /** The server gets a request twice. */
  readonly repeated: number;
}

export const NO_FAULTS: NetworkFaults = {
  lostRequest: 0,
  lostAnswer: 0,
  silence: 0,
  slow: 0,
  slowMs: 0,
  repeated: 0,
};

/** A running server process, as the network sees it. */
export interface SimServer {
  /** The clock of the process: it stands still while the process is frozen. */
  readonly clock: Clock;
  readonly routes: readonly Route[];
}

interface SimHttpOptions {
  readonly clock: Clock;
  readonly random: SeededRandom;
  /** The server that listens now; null if there is none. */
  readonly server: () => SimServer | null;
  readonly faults: () => NetworkFaults;
  readonly note: (what: string) => void;
  /** Called when a request has taken longer than its worker waits. */
  readonly onTimeout: (request: HttpRequest) => void;
  readonly onBug: (thrown: unknown) => void;
}

const USUAL_MS = 4;
const TIMEOUT = "timeout";

export class SimHttp {
  readonly options: SimHttpOptions;
  /** The exchanges under way, with their servers. */
  readonly exchanges = new Map<Exchange, SimServer>();

  constructor(options: SimHttpOptions) {
    this.options = options;
  }

  /** The time that a message takes. */
  delay(): number {
    const { random, faults } = this.options;
    const { slow, slowMs } = faults();
    return random.below(random.chance(slow) ? slowMs : USUAL_MS);
  }

  /** Breaks the connections of a server that has died. */
  breakAll(server: SimServer): void {
    for (const [exchange, at] of this.exchanges) {
      if (at !== server) continue;
      this.exchanges.delete(exchange);
      if (!this.options.random.chance(this.options.faults().silence))
        exchange.call.end(faultOf(exchange.call.request, "ECONNRESET"));
    }
  }
}

/** The requests of one worker process to one address. */
export class SimConnection implements Requests {
  readonly address: string;
  readonly localAddress = null;
  readonly #http: SimHttp;
  /** The clock of the worker's process. */
  readonly #clock: Clock;
  readonly #open = new Set<Call>();

  constructor(address: string, http: SimHttp, clock: Clock) {
    this.address = address;
    this.#http = http;
    this.#clock = clock;
  }

  send(request: HttpRequest): Promise<HttpAnswer> {
    return new Promise((resolve, fail) => {
      const call = new Call(request, this.#clock, (result) => {
        this.#open.delete(call);
        if (!(result instanceof HttpFault)) return resolve(result);
        if (result.code === TIMEOUT) this.#http.options.onTimeout(request);
        fail(result);
      });
      this.#open.add(call);
      this.#travel(call);
    });
  }

  dropIdle(): void {
    // Connections are not kept here: each request has its own.
  }

  close(): void {
    for (const call of [...this.#open]) call.end(faultOf(call.request, "ECONNRESET"));
  }

  #travel(call: Call): void {
    const { clock, random, faults, note } = this.#http.options;
    const { lostRequest, silence, repeated } = faults();
    const { path } = call.request;
    const ms = this.#http.delay();
    if (random.chance(lostRequest)) {
      note(`the request ${path} is lost`);
      if (!random.chance(silence)) clock.after(ms, () => call.end(faultOf(call.request, "ECONNRESET")));
      return;
    }
    clock.after(ms, () => this.#arrive(call));
    if (random.chance(repeated)) clock.after(ms + this.#http.delay(), () => this.#arrive(call));
  }

  #arrive(call: Call): void {
    const { server: listening, note } = this.#http.options;
    const server = listening();
    if (server === null) return call.end(faultOf(call.request, "ECONNREFUSED"));
    const exchange = new Exchange(call);
    this.#http.exchanges.set(exchange, server);
    const { method, path, headers = {} } = call.request;
    note(`${method} ${path} ${headers[CLAIM_ID_HEADER] ?? ""} ${headers[CLAIM_HEADER] ?? ""}`.trimEnd());
    // A frozen server takes the request when it goes on.
    server.clock.soon(() => {
      exchange
        .serve(server)
        .then((answer) => this.#answer(exchange, answer))
        .catch(this.#http.options.onBug);
    });
  }

  #answer(exchange: Exchange, answer: HttpAnswer | null): void {
    const { clock, random, faults, note } = this.#http.options;
    this.#http.exchanges.delete(exchange);
    const { call, outgoing } = exchange;
    const fault = faultOf(call.request, "ECONNRESET");
    if (answer === null) return call.end(fault);
    const { lostAnswer, silence } = faults();
    const isLost = random.chance(lostAnswer);
    // The server sees its answer as written when its machine has taken it, also if it is lost after that.
    outgoing.finish(!isLost || random.chance(0.7));
    note(`${isLost ? "lost" : "answer"} ${answer.status} ${answer.text.length}`);
    if (!isLost) clock.after(this.#http.delay(), () => call.end(answer));
    else if (!random.chance(silence)) clock.after(this.#http.delay(), () => call.end(fault));
  }
}

/** A request, as the worker sees it. */
class Call {
  readonly request: HttpRequest;
  readonly #clock: Clock;
  readonly #settle: (result: HttpAnswer | HttpFault) => void;
  readonly #stopWhole: () => void;
  #stopSilence: () => void = () => {};
  #hasEnded = false;
  /** Called when the worker waits no longer. */
  readonly onEnd: (() => void)[] = [];

  constructor(request: HttpRequest, clock: Clock, settle: (result: HttpAnswer | HttpFault) => void) {
    this.request = request;
    this.#clock = clock;
    this.#settle = settle;
    const late = (): void => this.end(faultOf(request, TIMEOUT));
    this.#stopWhole = request.timeoutMs === undefined ? () => {} : clock.after(request.timeoutMs, late);
    this.#listen();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Called when a part of the answer arrives. */
  part(): void {
    if (this.#hasEnded) return;
    this.request.onPart?.();
    this.#listen();
  }

  end(result: HttpAnswer | HttpFault): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#stopWhole();
    this.#stopSilence();
    for (const run of this.onEnd.splice(0)) run();
    this.#clock.soon(() => this.#settle(result));
  }

  #listen(): void {
    const { silenceMs } = this.request;
    if (silenceMs === undefined) return;
    this.#stopSilence();
    this.#stopSilence = this.#clock.after(silenceMs, () => this.end(faultOf(this.request, TIMEOUT)));
  }
}

/** A request, as the server sees it. */
class Exchange {
  readonly call: Call;
  readonly outgoing: SimResponse;
  readonly #abort = new AbortController();

  constructor(call: Call) {
    this.call = call;
    this.outgoing = new SimResponse(() => call.part());
    const disconnect = (): void => {
      this.#abort.abort();
      this.outgoing.finish(false);
    };
    if (call.hasEnded) disconnect();
    else call.onEnd.push(disconnect);
  }

  /** Runs the route; null if the connection must be closed without an answer. */
  async serve({ routes }: SimServer): Promise<HttpAnswer | null> {
    const { request } = this.call;
    const found = findRoute(routes, request);
    let answer: Answer | Rejection = reject("not_found", `there is no route ${request.path}`);
    if (found !== null) {
      const ask = this.#ask(found);
      answer = isRejection(ask) ? ask : await found.route.handle(ask);
    }
    if (isRejection(answer)) {
      const problem = problemOf(answer);
      return this.outgoing.headersSent ? null : answerOf(problem.status, JSON.stringify(problem));
    }
    if (answer.kind === "json") return answerOf(answer.status, JSON.stringify(answer.body));
    if (answer.kind === "bytes") return answerOf(answer.status, String(answer.body));
    throw new Error(`a route of the worker protocol answers with ${answer.kind}`);
  }

  #ask({ route, params, query }: FoundRoute): Ask | Rejection {
    const { body, headers = {} } = this.call.request;
    const given = { params, query, body: body === undefined ? undefined : (JSON.parse(body) as unknown) };
    const parts: Record<string, unknown> = {};
    for (const part of ["params", "query", "body"] as const) {
      const schema = route[part];
      if (schema === undefined) continue;
      const checked = checkPart(schema, given[part], part === "params" ? "path" : part);
      if (isRejection(checked)) return checked;
      parts[part] = checked.value;
    }
    const incoming = { socket: { remoteAddress: "127.0.0.1" }, headers } as unknown as IncomingMessage;
    const ask = {
      ...{ params: undefined, query: undefined, body: undefined, ...parts },
      caller: anybody(incoming),
      bearer: /^Bearer (.+)$/.exec(headers["authorization"] ?? "")?.[1] ?? null,
      header: (name: string) => headers[name],
      incoming,
      outgoing: this.outgoing as unknown as ServerResponse,
      whenOver: (call: () => void) => {
        const { signal } = this.#abort;
        if (signal.aborted) call();
        else signal.addEventListener("abort", call);
        return () => signal.removeEventListener("abort", call);
      },
      signal: this.#abort.signal,
      ...{ idempotencyKey: null, trace: null, target: () => {} },
    };
    return ask;
  }
}

/** The parts of a response that routes of the worker protocol use. */
class SimResponse extends EventEmitter {
  closed = false;
  destroyed = false;
  headersSent = false;
  writableFinished = false;
  readonly #onPart: () => void;

  constructor(onPart: () => void) {
    super();
    this.#onPart = onPart;
  }

  writeHead(): void {
    this.headersSent = true;
  }

  write(): void {
    if (!this.closed) this.#onPart();
  }

  /** Closes the response; `isWritten`: all of it was written before. */
  finish(isWritten: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.destroyed = true;
    this.writableFinished = isWritten;
    this.emit("close");
  }
}

interface FoundRoute {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

function findRoute(routes: readonly Route[], { method, path }: HttpRequest): FoundRoute | null {
  const url = new URL(path, "http://server");
  for (const route of routes) {
    if (route.method.toUpperCase() !== method) continue;
    const pattern = new RegExp(`^${route.path.replaceAll(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`);
    const groups = pattern.exec(url.pathname)?.groups;
    if (groups === undefined && !pattern.test(url.pathname)) continue;
    const params = Object.fromEntries(
      Object.entries(groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]),
    );
    return { route, params, query: Object.fromEntries(url.searchParams) };
  }
  return null;
}

function answerOf(status: number, text: string): HttpAnswer {
  return { status, headers: {}, text };
}

function faultOf({ method, path }: HttpRequest, code: string): HttpFault {
  return new HttpFault(`${method} ${path}: ${code}`, code);
}
