/**
 * A worker's requests to one server. Requests wait until the worker is registered at the server; failures are returned, not
 * thrown.
 */

import {
  type HttpAnswer,
  HttpConnection,
  type HttpRequest,
  type Requests,
} from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import {
  BRIEF_HEADER,
  CLAIM_HEADER,
  CLAIM_ID_HEADER,
  KEEP_ALIVE_HEADER,
  MEMORY_HEADER,
  type Registered,
  type Registration,
} from "../../protocol/worker-wire.ts";
import { BackOff, backOffMs } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { jsonFields } from "../../std/decode.ts";
import { OpenPromises } from "../../std/open-promises.ts";
import type { Random } from "../../std/random.ts";
import { atMost, sleep, within } from "../../std/within.ts";
import type { Route } from "./membership-io.ts";
import { readRegistered } from "./read-answers.ts";
import { describeRefusal, isPassing, problemOf, type Refused, ServerRefused } from "./server-problem.ts";

export interface ServerLinkOptions {
  /** The addresses of the server: `http(s)://host:port` or `unix:<path>`. */
  readonly addresses: readonly string[];
  readonly token?: string;
  /** Opens the requests to an address; by default they go over HTTP. */
  readonly connect?: Connect;
  readonly clock: Clock;
  readonly random: Random;
  readonly registration: () => Registration;
  /** The id of the worker, as it was last registered. */
  readonly worker: () => string;
  /** The time-out of an answer, which depends on the heartbeat time-outs of the held attempts. */
  readonly answerMs: () => number;
  readonly onAnswered: (route: Route) => void;
  readonly onFailed: (route: Route, what: string) => void;
  readonly onForgotten: () => void;
}

export type Connect = (address: string) => Requests;

export interface PostOptions<T> {
  /** Decodes the answer; returns null if the answer cannot be read. */
  readonly read: (value: unknown) => T | null;
  /** How long the server may wait before it answers; 0 by default. */
  readonly waitMs?: number;
  /** The id of a claim. Repeats of the claim have the same id. */
  readonly claimId?: string;
  /**
   * How many attempts are claimed in the same request as events. Only the first try of the request has a claim, because the
   * answer to it may have been lost together with work.
   */
  readonly claimMax?: number;
  /** How often the server sends keep-alive bytes while it waits. */
  readonly keepAlive?: KeepAlive;
  /** Whether the request is sent only once, so that after a failure the caller decides what to do next. */
  readonly isOnce?: boolean;
}

export interface KeepAlive {
  readonly everyMs: number;
  /** Whether keep-alive bytes have arrived in an earlier request. If so, a request without them counts as failed. */
  readonly isTrusted: boolean;
}

export interface CloseOptions {
  readonly saysGoodbye?: boolean;
  readonly waitsForClaims?: boolean;
}

/** The result of a request without an answer: the link was closed, or the request failed and is not repeated (`isOnce`). */
export interface Unsent {
  readonly kind: "unsent";
}

export type Called<T> =
  | {
      readonly kind: "answered";
      readonly value: T;
      /** Whether keep-alive bytes arrived while the server waited. */
      readonly isKeptAlive?: boolean;
    }
  | Refused
  | Unsent;

export type RegisterResult =
  | { readonly kind: "registered"; readonly registered: Registered }
  | { readonly kind: "failed"; readonly what: string; readonly refused: Refused | null };

const UNSENT: Unsent = { kind: "unsent" };
/** HTTP statuses that refuse the request itself. */
const REFUSALS = [400, 409, 413, 422];
/** HTTP statuses of a refused registration that a retry would not change. */
const HOPELESS = [401, 403, 404, 422];
/** The HTTP status for an attempt that another node owns. */
const NOT_OWNER = 421;
const REGISTER_MS = 4_000;
const READ_MS = 30_000;
const ANSWER_MAX_MS = 60_000;
/** How long `close` waits for claims whose answers may still arrive. */
const LAST_CLAIMS_MS = 5_000;
const GOODBYE_MS = 2_000;
const MEMORY_MS = 1_000;

export class ServerLink {
  readonly #options: ServerLinkOptions;
  readonly #connections: ReadonlyMap<string, Requests>;
  /** Claims have connections of their own, so that they can be closed after all others. */
  readonly #claimConnections: ReadonlyMap<string, Requests>;
  readonly #claiming = new OpenPromises();
  /** The open registrations, with their addresses. */
  readonly #registering = new Map<Promise<RegisterResult>, string>();
  #address: string | null = null;
  /** Whether a registration or a request has failed since the session was last registered. */
  #hasFailed = false;
  #isClosed = false;
  /**
   * Whether the worker sends the URL of its status API. False after the server refused the URL, because a proxy between them
   * changes addresses.
   */
  #sendsUrl = true;
  /** The number of timed-out requests in a row, by route. */
  readonly #timeouts = new Map<Route, number>();
  readonly #waiting = new Set<() => void>();
  /** Aborted to end all back-off pauses. */
  #wake = new AbortController();
  /** The number of back-off pauses under way. */
  #sleeping = 0;
  /** The memory of this process, and when it was read. */
  #memory = { bytes: 0, at: Number.NEGATIVE_INFINITY };

  constructor(options: ServerLinkOptions) {
    this.#options = options;
    const {
      token,
      connect = (address) => new HttpConnection({ address, ...(token === undefined ? {} : { token }) }),
    } = options;
    this.#connections = new Map(options.addresses.map((address) => [address, connect(address)]));
    this.#claimConnections = new Map(options.addresses.map((address) => [address, connect(address)]));
  }

  get isConnected(): boolean {
    return this.#address !== null;
  }

  /** Called when the session is registered at this address. Requests are sent there. */
  ready(address: string): void {
    this.#address = address;
    this.#hasFailed = false;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Called when the session is not registered any more. Requests wait, but those that are sent only once fail if the server has failed. */
  notReady(): void {
    this.#address = null;
  }

  /** Called when a registration failed. Requests that are sent only once fail then. */
  failed(): void {
    if (this.#address !== null) return;
    this.#hasFailed = true;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Returns the address of this machine as the server sees it, from the first server that answers; null for a unix socket. */
  async ownAddress(): Promise<string | null> {
    const backOff = new BackOff({ random: this.#options.random });
    const request = { method: "GET", path: "/healthz", timeoutMs: REGISTER_MS };
    const ask = async (connection: Requests): Promise<string | null> => {
      await connection.send(request);
      return connection.localAddress;
    };
    while (!this.#isClosed) {
      try {
        return await Promise.any(Array.from(this.#connections.values(), ask));
      } catch (thrown) {
        const faults = (thrown as AggregateError).errors as unknown[];
        for (const fault of faults) if (!(fault instanceof HttpFault)) throw fault;
        const fault = faults.find((one) => !(one as HttpFault).isStale) as HttpFault | undefined;
        if (this.#isClosed || fault === undefined) continue;
        this.#options.onFailed("read", fault.message);
        await this.#sleep(backOff.next());
      }
    }
    return null;
  }

  async register(address: string): Promise<RegisterResult> {
    const registering = this.#register(address);
    this.#registering.set(registering, address);
    try {
      return await registering;
    } finally {
      this.#registering.delete(registering);
    }
  }

  async #register(address: string): Promise<RegisterResult> {
    const { url, ...registration } = this.#options.registration();
    const sendsUrl = url !== undefined && this.#sendsUrl;
    const body = JSON.stringify({ ...registration, ...(sendsUrl ? { url } : {}) });
    const request = { method: "POST", path: "/v1/workers", body, timeoutMs: REGISTER_MS };
    const answer = await this.#send(this.#at(this.#connections, address), request);
    if (answer instanceof HttpFault) {
      if (answer.isStale && !this.#isClosed) return this.#register(address);
      return { kind: "failed", what: answer.message, refused: null };
    }
    const { status, text } = answer;
    if (status === 422 && sendsUrl && jsonFields(text)?.["path"] === "url") {
      this.#sendsUrl = false;
      return this.#register(address);
    }
    const registered = status === 200 ? readRegistered(jsonFields(text)) : null;
    if (registered !== null) return { kind: "registered", registered };
    const problem = problemOf(status, text);
    return {
      kind: "failed",
      what: `${address} ${describeRefusal(problem)}`,
      refused: HOPELESS.includes(status) ? problem : null,
    };
  }

  async post<T>(route: Route, body: string, options: PostOptions<T>): Promise<Called<T>> {
    const backOff = new BackOff({ random: this.#options.random });
    const { claimMax, ...later } = options;
    let isFirst = true;
    while (!this.#isClosed) {
      const address = await this.#registered(options.isOnce !== true);
      if (address === null) break;
      const claims = isFirst && claimMax !== undefined ? { claimMax } : {};
      isFirst = false;
      const called = await this.#postNow(address, route, { ...later, ...claims, body });
      if (called !== "failed") {
        if (called !== "forgotten") return called;
        continue;
      }
      if (options.isOnce === true) break;
      await this.#sleep(backOff.next());
    }
    return UNSENT;
  }

  /**
   * Reads an API path with an attempt's token. Throws if the server refuses it or the link is closed. With `isOnce`, it is sent
   * only once, and null means that there was no answer.
   */
  async read(path: string, token: string, options: { isOnce?: boolean } = {}): Promise<string | null> {
    const backOff = new BackOff({ random: this.#options.random });
    const headers = { authorization: `Bearer ${token}` };
    const isOnce = options.isOnce === true;
    while (!this.#isClosed) {
      const address = await this.#registered(!isOnce);
      if (address === null) break;
      const request = { method: "GET", path, headers, timeoutMs: READ_MS };
      const answer = await this.#send(this.#at(this.#connections, address), request);
      if (answer instanceof HttpFault || isPassing(answer)) {
        if (answer instanceof HttpFault && answer.isStale) continue;
        const what =
          answer instanceof HttpFault
            ? answer.message
            : describeRefusal(problemOf(answer.status, answer.text));
        this.#reportFailure("read", what);
        if (isOnce) return null;
        await this.#sleep(backOff.next());
        continue;
      }
      if (isOnce && answer.status === NOT_OWNER) return null;
      if (answer.status !== 200) throw new ServerRefused(problemOf(answer.status, answer.text));
      this.#reportAnswer("read");
      return answer.text;
    }
    if (isOnce) return null;
    throw new Error("the worker is stopping, and the server has not answered");
  }

  /** Deregisters the worker and ends all requests. It waits for open registrations first; with `waitsForClaims`, also for open claims. */
  async close(options: CloseOptions & { readonly worker?: string | null } = {}): Promise<void> {
    const address = this.#address;
    this.#isClosed = true;
    this.#address = null;
    for (const look of [...this.#waiting]) look();
    this.#wake.abort();
    const { worker = null } = options;
    if (options.saysGoodbye !== false) {
      const goodbyes = Array.from(this.#registering, ([registering, at]) => this.#undo(registering, at));
      if (address !== null && worker !== null) goodbyes.push(this.#deregister(address, worker));
      await Promise.all(goodbyes);
    }
    for (const connection of this.#connections.values()) connection.close();
    if (options.waitsForClaims === true && this.#claiming.size > 0)
      await atMost(this.#options.clock, LAST_CLAIMS_MS, this.#claiming.settled());
    for (const connection of this.#claimConnections.values()) connection.close();
  }

  async #undo(registering: Promise<RegisterResult>, address: string): Promise<void> {
    const { clock } = this.#options;
    const result = await within<RegisterResult | null>(clock, GOODBYE_MS, registering, () => null);
    if (result?.kind === "registered") await this.#deregister(address, result.registered.worker);
  }

  /** Deregisters the worker. If this request is lost, the server notices after a while that the worker is silent. */
  async #deregister(address: string, worker: string): Promise<void> {
    const path = `/v1/workers/${encodeURIComponent(worker)}`;
    await this.#send(this.#at(this.#connections, address), { method: "DELETE", path, timeoutMs: GOODBYE_MS });
  }

  /** Sends one request and classifies its result. */
  async #postNow<T>(
    address: string,
    route: Route,
    { body, waitMs = 0, read, claimId, claimMax, keepAlive }: PostOptions<T> & { readonly body: string },
  ): Promise<Called<T> | "failed" | "forgotten"> {
    const { clock, worker } = this.#options;
    const path = `/v1/workers/${encodeURIComponent(worker())}/${route}`;
    const answerMs = this.#answerMs(route);
    let firstPartAt: number | null = null;
    const request = {
      ...{ method: "POST", path, body, timeoutMs: waitMs + answerMs },
      headers: {
        ...(route === "heartbeat" ? {} : { [BRIEF_HEADER]: "1" }),
        ...(route === "claim" ? { [MEMORY_HEADER]: String(this.#memoryBytes()) } : {}),
        ...(claimMax === undefined ? {} : { [CLAIM_HEADER]: String(claimMax) }),
        ...(claimId === undefined ? {} : { [CLAIM_ID_HEADER]: claimId }),
        ...(keepAlive === undefined ? {} : { [KEEP_ALIVE_HEADER]: String(keepAlive.everyMs) }),
      },
      onPart: () => (firstPartAt ??= clock.now()),
      ...(keepAlive?.isTrusted === true ? { silenceMs: keepAlive.everyMs + answerMs } : {}),
    };
    const connections = route === "claim" ? this.#claimConnections : this.#connections;
    const sent = this.#send(this.#at(connections, address), request);
    if (route === "claim") this.#claiming.add(sent);
    const answer = await sent;
    if (answer instanceof HttpFault) {
      if (answer.isStale) return "forgotten";
      if (answer.code === "timeout") this.#timeouts.set(route, (this.#timeouts.get(route) ?? 0) + 1);
      return this.#reportFailure(route, answer.message);
    }
    const { status, text } = answer;
    const value = status === 200 ? read(jsonFields(text)) : null;
    if (value !== null) {
      this.#reportAnswer(route);
      // Keep-alive bytes must arrive during the wait. A proxy that buffers sends all of them together at the end, and those do not count.
      const isKeptAlive =
        keepAlive !== undefined && clock.now() - (firstPartAt ?? clock.now()) >= keepAlive.everyMs / 2;
      return { kind: "answered", value, ...(isKeptAlive ? { isKeptAlive } : {}) };
    }
    const problem = problemOf(status, text);
    if (REFUSALS.includes(status) && route === "events") return problem;
    if (status !== 404 || problem.code !== "not_found")
      return this.#reportFailure(route, `${address} ${describeRefusal(problem)}`);
    // The server has forgotten this worker, or is a different server.
    if (address === this.#address && !this.#isClosed) this.#options.onForgotten();
    return "forgotten";
  }

  /** Returns the memory of this process. Reading it takes longer than a request, so it is read at most once a second. */
  #memoryBytes(): number {
    const now = this.#options.clock.now();
    if (now - this.#memory.at >= MEMORY_MS) this.#memory = { bytes: process.memoryUsage.rss(), at: now };
    return this.#memory.bytes;
  }

  #reportAnswer(route: Route): void {
    this.#timeouts.delete(route);
    if (!this.#isClosed) this.#options.onAnswered(route);
    // The server has answered, so all back-off pauses end.
    if (this.#sleeping === 0) return;
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  #reportFailure(route: Route, what: string): "failed" {
    this.#hasFailed = true;
    if (!this.#isClosed) this.#options.onFailed(route, what);
    return "failed";
  }

  /**
   * Returns the time-out of an answer. It doubles with each timed-out request in a row, so that a slow network does not count
   * as broken for ever.
   */
  #answerMs(route: Route): number {
    const timeouts = this.#timeouts.get(route) ?? 0;
    return backOffMs(timeouts, { minMs: this.#options.answerMs(), maxMs: ANSWER_MAX_MS });
  }

  /**
   * Waits until the session is registered, and resolves with its address. Resolves with null if the link is closed, or if the
   * server has failed and the request is sent only once.
   */
  #registered(isPatient: boolean): Promise<string | null> {
    const isKnown = (): boolean =>
      this.#isClosed || this.#address !== null || (this.#hasFailed && !isPatient);
    const address = (): string | null => (this.#isClosed ? null : this.#address);
    if (isKnown()) return Promise.resolve(address());
    return new Promise((resolve) => {
      const look = (): void => {
        if (!isKnown()) return;
        this.#waiting.delete(look);
        resolve(address());
      };
      this.#waiting.add(look);
    });
  }

  async #send(connection: Requests, request: HttpRequest): Promise<HttpAnswer | HttpFault> {
    try {
      return await connection.send(request);
    } catch (thrown) {
      if (!(thrown instanceof HttpFault)) throw thrown;
      // If one connection is dead, other idle connections may be dead too, and each would cost a time-out. So all idle ones are dropped.
      for (const connections of [this.#connections, this.#claimConnections])
        this.#at(connections, connection.address).dropIdle();
      return thrown;
    }
  }

  #at(connections: ReadonlyMap<string, Requests>, address: string): Requests {
    return connections.get(address) as Requests;
  }

  async #sleep(ms: number): Promise<void> {
    if (this.#isClosed) return;
    this.#sleeping++;
    await sleep(this.#options.clock, ms, this.#wake.signal);
    this.#sleeping--;
  }
}
