/**
 * A worker's way to its server: which of the addresses is used, whether it is registered there, and what to do when an
 * answer does not come. A request is sent until the server has taken or refused it; between tries it waits, longer each
 * time, and the next address has its turn.
 */
import { type HttpAnswer, HttpConnection, type HttpRequest } from "../../http/http-connection.ts";
import { HttpFault } from "../../http/http-fault.ts";
import { MEMORY_HEADER, type Registered, type Registration } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "./back-off.ts";

export interface ServerLinkOptions {
  /** Tried in turn: `http(s)://host:port` or `unix:<path>`. */
  readonly addresses: readonly string[];
  readonly token?: string;
  readonly clock: Clock;
  readonly random: Random;
  /** What to register as; `worker` is kept from the first registration on. */
  readonly registration: () => Registration;
  /** Called after every registration. */
  readonly onRegistered: (registered: Registered) => void;
  /** Told when the server cannot be reached or refuses, and when it is there again. */
  readonly onTrouble: (what: string | null) => void;
}

export interface PostOptions {
  readonly timeoutMs?: number;
  /** It is not tried again: there are others who can be asked. */
  readonly isOnce?: boolean;
}

export interface CloseOptions {
  readonly saysGoodbye?: boolean;
  readonly waitsForClaims?: boolean;
}

/** The server's word that a request as such is wrong: sending it again would change nothing. */
export interface Refused {
  readonly kind: "refused";
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/** The link was closed before an answer came, or there was none to a request that is sent once. */
export interface Unsent {
  readonly kind: "unsent";
}

export type Called = { readonly kind: "answered"; readonly value: unknown } | Refused | Unsent;

/** Statuses with which a request as such is refused. */
const REFUSALS = [400, 409, 413, 422];
/** The status of what another node has. */
const NOT_OWNER = 421;
const TIMEOUT_MS = 60_000;
/** How long the answer of a claim is waited for that may be on its way when the link is closed. */
const LAST_CLAIMS_MS = 5_000;

export class ServerLink {
  readonly #options: ServerLinkOptions;
  readonly #connections: readonly HttpConnection[];
  /** Claims have connections of their own: they may be let go of later. */
  readonly #claimConnections: readonly HttpConnection[];
  readonly #claiming = new Set<Promise<unknown>>();
  #at = 0;
  #worker: string | null = null;
  #registering: Promise<void> | null = null;
  #isRegistered = false;
  #isClosed = false;
  #isInTrouble = false;
  /** The server does not want to ask at the worker's own address: something is in between. */
  #isAsked = true;
  readonly #sleeping = new Set<() => void>();

  constructor(options: ServerLinkOptions) {
    this.#options = options;
    const { token } = options;
    const connect = (address: string): HttpConnection =>
      new HttpConnection({ address, ...(token === undefined ? {} : { token }) });
    this.#connections = options.addresses.map(connect);
    this.#claimConnections = options.addresses.map(connect);
  }

  /** This worker's id, once it is registered. */
  get worker(): string | null {
    return this.#worker;
  }

  get isInTrouble(): boolean {
    return this.#isInTrouble;
  }

  /** It is registered there, and was answered last. */
  get isConnected(): boolean {
    return this.#isRegistered && !this.#isInTrouble;
  }

  /** This side's own address, as the server sees it; asks the server for it. Null: it is reached by a unix socket. */
  async ownAddress(): Promise<string | null> {
    const backOff = new BackOff(this.#options.random);
    while (!this.#isClosed) {
      const connection = this.#connection;
      try {
        await connection.send({ method: "GET", path: "/healthz", timeoutMs: TIMEOUT_MS });
        return connection.localAddress;
      } catch (thrown) {
        await this.#wait(thrown, connection, backOff);
      }
    }
    return null;
  }

  /** Posts to a route under this worker (`claim`, `events`, `heartbeat`), as a registered one. */
  async post(route: string, body: string, options: PostOptions = {}): Promise<Called> {
    const backOff = new BackOff(this.#options.random);
    while (!this.#isClosed) {
      const connection = this.#connection;
      try {
        if (!this.#isRegistered) {
          await this.#register(connection);
          // Who heard of it may have closed the link.
          continue;
        }
        const path = `/v1/workers/${encodeURIComponent(this.#worker ?? "")}/${route}`;
        const { timeoutMs = TIMEOUT_MS } = options;
        const headers = { [MEMORY_HEADER]: String(process.memoryUsage.rss()) };
        const request = { method: "POST", path, body, headers, timeoutMs };
        const { status, text } = await (route === "claim" ? this.#claim(request) : connection.send(request));
        if (status === 200) {
          this.#tell(null);
          return { kind: "answered", value: JSON.parse(text) as unknown };
        }
        const problem = problemOf(status, text);
        if (REFUSALS.includes(status)) return problem;
        // The server has forgotten this worker, or is another one.
        if (status === 404 && connection === this.#connection) this.#isRegistered = false;
        if (status !== 404 || problem.code !== "not_found") throw new ServerRefused(problem);
      } catch (thrown) {
        if (options.isOnce === true && this.#isTrouble(thrown)) break;
        await this.#wait(thrown, connection, backOff);
      }
    }
    return { kind: "unsent" };
  }

  /**
   * Reads by an attempt's own token, once the server is there; throws if that refuses, or if the link is closed. Null: it
   * is to be asked once, and another one may know.
   */
  async read(path: string, token: string, options: { isOnce?: boolean } = {}): Promise<string | null> {
    const backOff = new BackOff(this.#options.random);
    const headers = { authorization: `Bearer ${token}` };
    while (!this.#isClosed) {
      const connection = this.#connection;
      let answer: { status: number; text: string };
      try {
        answer = await connection.send({ method: "GET", path, headers, timeoutMs: TIMEOUT_MS });
        if (isPassing(answer.status)) throw new ServerRefused(problemOf(answer.status, answer.text));
      } catch (thrown) {
        if (options.isOnce === true && this.#isTrouble(thrown)) return null;
        await this.#wait(thrown, connection, backOff);
        continue;
      }
      if (options.isOnce === true && answer.status === NOT_OWNER) return null;
      if (answer.status !== 200) throw new ServerRefused(problemOf(answer.status, answer.text));
      this.#tell(null);
      return answer.text;
    }
    throw new Error("the worker ends, and the server is not there");
  }

  /**
   * Says goodbye, if there is anybody to say it to, and ends what is under way; with `waitsForClaims` not yet those
   * answers that may bring work, which nobody else would get before it lapsed.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const isKnown = this.isConnected && options.saysGoodbye !== false;
    this.#isClosed = true;
    for (const wake of [...this.#sleeping]) wake();
    if (isKnown && this.#worker !== null) {
      const path = `/v1/workers/${encodeURIComponent(this.#worker)}`;
      // If it cannot be said, the server notices by itself.
      await this.#connection.send({ method: "DELETE", path, timeoutMs: 2_000 }).catch(() => null);
    }
    for (const connection of this.#connections) connection.close();
    if (options.waitsForClaims === true && this.#claiming.size > 0) await this.#lastClaims();
    for (const connection of this.#claimConnections) connection.close();
  }

  #lastClaims(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(LAST_CLAIMS_MS, resolve);
      void Promise.allSettled(this.#claiming).then(() => {
        cancel();
        resolve();
      });
    });
  }

  async #claim(request: HttpRequest): Promise<HttpAnswer> {
    const { length } = this.#claimConnections;
    const answer = (this.#claimConnections[this.#at % length] as HttpConnection).send(request);
    this.#claiming.add(answer);
    return answer.finally(() => this.#claiming.delete(answer));
  }

  get #connection(): HttpConnection {
    return this.#connections[this.#at % this.#connections.length] as HttpConnection;
  }

  /** Registers again, since what the worker serves has changed. */
  async registerAgain(): Promise<void> {
    this.#isRegistered = false;
    await this.post("heartbeat", '{"tokens":{}}');
  }

  /** Registers, once for all who wait for it. */
  #register(connection: HttpConnection): Promise<void> {
    this.#registering ??= this.#registerNow(connection).finally(() => {
      this.#registering = null;
    });
    return this.#registering;
  }

  async #registerNow(connection: HttpConnection): Promise<void> {
    const { url, ...registration } = this.#options.registration();
    const body = JSON.stringify({
      ...registration,
      ...(url === undefined || !this.#isAsked ? {} : { url }),
      ...(this.#worker === null ? {} : { worker: this.#worker }),
    });
    const { status, text } = await connection.send({
      method: "POST",
      path: "/v1/workers",
      body,
      timeoutMs: TIMEOUT_MS,
    });
    if (status === 422 && url !== undefined && this.#isAsked && pathOf(text) === "url") {
      this.#isAsked = false;
      return this.#registerNow(connection);
    }
    if (status !== 200) throw new ServerRefused(problemOf(status, text));
    const registered = JSON.parse(text) as Registered;
    this.#worker = registered.worker;
    this.#isRegistered = true;
    this.#tell(null);
    this.#options.onRegistered(registered);
  }

  /** Whether what went wrong is trouble with the server, which is told then; a stale connection is none. */
  #isTrouble(thrown: unknown): boolean {
    if (!isWorldly(thrown)) throw thrown;
    if (thrown instanceof HttpFault && thrown.isStale) return false;
    if (!this.#isClosed) this.#tell(thrown.message);
    return true;
  }

  /** Waits after something went wrong; only faults and refusals are waited out. */
  async #wait(thrown: unknown, connection: HttpConnection, backOff: BackOff): Promise<void> {
    if (!isWorldly(thrown)) throw thrown;
    if (this.#isClosed || (thrown instanceof HttpFault && thrown.isStale)) return;
    this.#tell(thrown.message);
    if (connection === this.#connection && this.#connections.length > 1) {
      this.#at++;
      this.#isRegistered = false;
    }
    await this.#sleep(backOff.next());
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleeping.delete(wake);
        cancel();
        resolve();
      };
      const cancel = this.#options.clock.after(ms, wake);
      this.#sleeping.add(wake);
    });
  }

  #tell(what: string | null): void {
    if ((what !== null) === this.#isInTrouble) return;
    this.#isInTrouble = what !== null;
    this.#options.onTrouble(what);
    // It is there again: nobody has to wait for the end of a long back-off to be heard.
    if (what === null) for (const wake of [...this.#sleeping]) wake();
  }
}

/** The server answered, and the answer is no. */
export class ServerRefused extends Error {
  override name = "ServerRefused";
  readonly problem: Refused;
  constructor(problem: Refused) {
    super(`the server answers ${problem.status} ${problem.code}: ${problem.message}`);
    this.problem = problem;
  }
}

function isWorldly(thrown: unknown): thrown is HttpFault | ServerRefused {
  return thrown instanceof HttpFault || thrown instanceof ServerRefused;
}

/** Whether another try may be answered otherwise. */
function isPassing(status: number): boolean {
  return status >= 500 || status === 429;
}

/** The field that a refusal is about. */
function pathOf(text: string): string | null {
  try {
    return (JSON.parse(text) as { path?: string }).path ?? null;
  } catch {
    // Not one of our servers, or something in between.
    return null;
  }
}

function problemOf(status: number, text: string): Refused {
  const kind = "refused";
  try {
    const { code, detail } = JSON.parse(text) as { code?: string; detail?: string };
    return { kind, status, code: code ?? "unknown", message: detail ?? text.slice(0, 200) };
  } catch {
    // Not one of our servers, or something in between.
    return { kind, status, code: "unknown", message: text.slice(0, 200) };
  }
}
