/**
 * The connection to a broker. It reconnects with exponential back-off until it is closed from this side. A session is the
 * time from one connect to the next loss: channels, consumers and deliveries belong to a session and end with it.
 *
 * The engine uses two TCP connections, one to publish and one to consume: a broker that is short of memory or disk stops
 * reading from connections that publish. If one breaks, the session ends, and both are made again.
 */
import { type Channel, type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect } from "amqplib";
import { whyNoConnection } from "../../protocol/broker-address.ts";
import type { LinkState } from "../../protocol/broker-view.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { atMost, Longer, within } from "../../std/within.ts";
import { BrokerFault, toFault } from "./broker-fault.ts";
import { dropRepeatedCancelReplies } from "./cancel-replies.ts";
import { Delivery, Lane } from "./delivery.ts";
import { gatherWrites, hangUp, SOCKET_OPTIONS } from "./socket.ts";

export interface QueueCounts {
  /** The number of messages that no consumer has received. */
  readonly ready: number;
  readonly consumers: number;
}

export interface BrokerSession {
  /** The channel for publishing, with publisher confirms. */
  readonly publish: ConfirmChannel;
  /** The reply code with which the broker ended the connection, such as 320 or 541; null if it gave none. */
  readonly code: number | null;
  /** Opens a channel. An error closes only this channel. */
  openChannel(): Promise<Channel>;
  /** Runs `work` with a channel of its own. Throws a `BrokerFault` if the broker refuses, or does not answer in time. */
  withChannel<T>(work: (channel: Channel) => Promise<T>): Promise<T>;
  /**
   * Waits for `work` and returns its result. Throws a `BrokerFault` with `isSilent` if the broker does not answer in time. A
   * blocked broker gets more time.
   */
  answered<T>(work: Promise<T>, what: string): Promise<T>;
  /**
   * Consumes a queue over a shared channel; returns the consumer's tag. `onDelivery` gets null when the queue was deleted. If
   * the broker does not answer, the session ends, because later answers on this channel would wait too.
   */
  consume(queue: string, onDelivery: (delivery: Delivery | null) => void): Promise<string>;
  cancel(tag: string): Promise<void>;
  /** Counts the messages and consumers of a queue; null if there is no such queue. */
  counts(queue: string): Promise<QueueCounts | null>;
}

export interface BrokerConnectionOptions {
  readonly url: string;
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly answerMs: number;
  /** Whether to publish and consume over two TCP connections. */
  readonly isSplit?: boolean;
  /** The most unacknowledged deliveries of each consumer of `BrokerSession.consume`. */
  readonly prefetch?: number;
  /** Sets up a new session. The connection counts as up when the returned promise resolves. */
  readonly onUp: (session: BrokerSession) => Promise<void>;
  /** Called when the session has ended, or no connection could be made. */
  readonly onDown: () => void;
  /** Called with true when the broker stops accepting messages, and with false when it accepts them again. */
  readonly onBlocked: (isBlocked: boolean) => void;
  /** Called with a fault. A series of equal faults is reported once. */
  readonly onFault: (fault: BrokerFault) => void;
}

/** The heartbeat interval. A peer that vanished without closing the connection is noticed when two heartbeats are missing. */
const HEARTBEAT_S = 10;
const CONNECT_MS = 10_000;
const CLOSE_MS = 3_000;
const NOT_FOUND = 404;

export class BrokerConnection {
  readonly #options: BrokerConnectionOptions;
  readonly #backOff: BackOff;
  /** The current session, also while it is being set up. */
  #session: Session | null = null;
  #isUp = false;
  #isBlocked = false;
  #isClosed = false;
  #fault: string | null = null;
  #cancelRetry: (() => void) | null = null;

  constructor(options: BrokerConnectionOptions) {
    this.#options = options;
    this.#backOff = new BackOff({ random: options.random });
  }

  get state(): LinkState {
    if (this.#isClosed) return "closed";
    if (this.#isUp) return this.#isBlocked ? "blocked" : "up";
    return this.#backOff.failures === 0 ? "connecting" : "down";
  }

  /** Why the connection is down or blocked; null if it is neither. */
  get fault(): string | null {
    return this.#fault;
  }

  /** Connects, and tries again until a broker answers. Resolves after the first try; never throws. */
  async open(): Promise<void> {
    const session = new Session(this.#options, {
      onBroken: (fault) => this.#down(session, fault),
      onBlocked: (reason) => this.#blocked(reason),
    });
    this.#session = session;
    try {
      await session.connect();
      if (this.#session !== session) return;
      await this.#options.onUp(session);
      if (this.#session !== session) return;
      this.#isUp = true;
      this.#backOff.reset();
      if (!this.#isBlocked) this.#fault = null;
    } catch (thrown) {
      this.#down(session, toFault(thrown));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#isUp = false;
    this.#cancelRetry?.();
    const session = this.#session;
    this.#session = null;
    await session?.close();
  }

  #blocked(reason: string | null): void {
    this.#isBlocked = reason !== null;
    this.#fault = reason === null ? null : `the broker takes no messages: ${reason}`;
    this.#options.onBlocked(this.#isBlocked);
  }

  #down(session: Session, fault: BrokerFault): void {
    if (this.#session !== session) return;
    const { clock, onFault, onDown } = this.#options;
    this.#session = null;
    this.#isUp = false;
    this.#isBlocked = false;
    void session.close();
    if (this.#fault !== fault.message) onFault(fault);
    this.#fault = fault.message;
    onDown();
    this.#cancelRetry = clock.after(this.#backOff.next(), () => void this.open());
  }
}

interface SessionEvents {
  readonly onBroken: (fault: BrokerFault) => void;
  readonly onBlocked: (reason: string | null) => void;
}

class Session implements BrokerSession {
  readonly #options: BrokerConnectionOptions;
  readonly #events: SessionEvents;
  readonly #connections: ChannelModel[] = [];
  #publish: ConfirmChannel | null = null;
  /** The shared channel of `consume`, opened on first use. */
  #opening: Promise<Lane> | null = null;
  #lane: Lane | null = null;
  /** The channel of `counts`; asking for a queue that does not exist closes this channel. */
  #counter: Promise<Channel> | null = null;
  #counting: Promise<unknown> = Promise.resolve();
  /** Connections from which the broker does not read. */
  readonly #blocked = new Set<ChannelModel>();
  #isClosed = false;
  /** The error with which a connection ended; null while there is none. */
  #fault: BrokerFault | null = null;
  code: number | null = null;

  constructor(options: BrokerConnectionOptions, events: SessionEvents) {
    this.#options = options;
    this.#events = events;
  }

  async connect(): Promise<void> {
    const { name, isSplit = false } = this.#options;
    const out = await this.#connect(isSplit ? `${name} (publish)` : name);
    if (isSplit) await this.#connect(`${name} (consume)`);
    const channel = await out.createConfirmChannel();
    this.#breakWith(channel);
    this.#publish = channel;
  }

  get publish(): ConfirmChannel {
    if (this.#publish === null) throw new BrokerFault("the connection is not open");
    return this.#publish;
  }

  async openChannel(): Promise<Channel> {
    const channel = await this.#consuming.createChannel();
    dropRepeatedCancelReplies(channel);
    // The error event is ignored, because the call that broke the channel throws the same error.
    channel.on("error", () => {});
    return channel;
  }

  withChannel<T>(work: (channel: Channel) => Promise<T>): Promise<T> {
    const run = async (): Promise<T> => {
      try {
        const channel = await this.openChannel();
        const done = await work(channel);
        await channel.close();
        return done;
      } catch (thrown) {
        throw toFault(thrown);
      }
    };
    return this.answered(run(), "work on queues");
  }

  answered<T>(work: Promise<T>, what: string): Promise<T> {
    const { clock, answerMs } = this.#options;
    return within(clock, answerMs, work, () => {
      if (this.#isBlocked) return new Longer(answerMs);
      throw new BrokerFault(`no answer within ${answerMs} ms: ${what}`, { isSilent: true });
    });
  }

  async consume(queue: string, onDelivery: (delivery: Delivery | null) => void): Promise<string> {
    this.#opening ??= this.#openLane();
    const lane = await this.#opening;
    const onMessage = (message: ConsumeMessage | null): void => {
      if (!this.#isClosed) onDelivery(message === null ? null : new Delivery(message, queue, lane));
    };
    try {
      const consumed = this.answered(lane.channel.consume(queue, onMessage), `consuming ${queue}`);
      return (await consumed).consumerTag;
    } catch (thrown) {
      const fault = toFault(thrown);
      if (fault.isSilent) this.#break(fault);
      throw fault;
    }
  }

  async cancel(tag: string): Promise<void> {
    await this.#lane?.channel.cancel(tag);
  }

  counts(queue: string): Promise<QueueCounts | null> {
    const counted = this.#counting.then(() => this.#count(queue));
    this.#counting = counted.catch(() => null);
    return counted;
  }

  /** Closes the connections. A broker that does not read does not notice the close; then the sockets are destroyed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#lane?.flush();
    if (this.#lane !== null) this.#lane.isOpen = false;
    const closed = this.#connections.splice(0).map((connection) => this.#close(connection));
    await Promise.all(closed);
  }

  /** The connection that consumes, and declares and deletes queues. */
  get #consuming(): ChannelModel {
    const last = this.#connections.at(-1);
    if (last === undefined) throw new BrokerFault("the connection is gone");
    return last;
  }

  get #isBlocked(): boolean {
    return !this.#isClosed && this.#blocked.has(this.#consuming);
  }

  async #connect(name: string): Promise<ChannelModel> {
    const { url } = this.#options;
    const connection = await connect(withHeartbeat(url), {
      timeout: CONNECT_MS,
      noDelay: true,
      ...SOCKET_OPTIONS,
      clientProperties: { connection_name: name },
    }).catch((thrown: unknown) => {
      throw new BrokerFault(whyNoConnection(url, thrown), { cause: thrown });
    });
    gatherWrites(connection);
    const gone = new BrokerFault("the connection is gone");
    // The library closes the channels and emits `close` after each `error`, so the error is only kept here.
    connection.on("error", (thrown) => {
      this.#fault ??= toFault(thrown);
      this.code ??= this.#fault.code;
    });
    connection.on("blocked", (reason) => this.#setBlocked(connection, reason));
    connection.on("unblocked", () => this.#setBlocked(connection, null));
    connection.on("close", () => this.#break(gone));
    if (this.#isClosed) {
      await this.#close(connection);
      throw this.#fault ?? gone;
    }
    this.#connections.push(connection);
    return connection;
  }

  async #openLane(): Promise<Lane> {
    const channel = await this.#consuming.createChannel();
    dropRepeatedCancelReplies(channel);
    const lane = new Lane(channel);
    this.#breakWith(channel);
    await channel.prefetch(this.#options.prefetch ?? 1);
    this.#lane = lane;
    return lane;
  }

  /** Ends the session if a channel that all consumers share breaks. */
  #breakWith(channel: Channel): void {
    let fault = new BrokerFault("a channel is gone");
    channel.on("error", (thrown) => {
      fault = toFault(thrown);
    });
    channel.on("close", () => this.#break(fault));
  }

  /** Ends the session. An error of a connection is the cause of what its channels report. */
  #break(fault: BrokerFault): void {
    if (!this.#isClosed) this.#events.onBroken(this.#fault ?? fault);
  }

  #setBlocked(connection: ChannelModel, reason: string | null): void {
    if (reason === null) this.#blocked.delete(connection);
    else this.#blocked.add(connection);
    if (!this.#isClosed) this.#events.onBlocked(reason);
  }

  async #count(queue: string): Promise<QueueCounts | null> {
    try {
      this.#counter ??= this.openChannel();
      const channel = await this.answered(this.#counter, "opening a channel");
      const found = await this.answered(channel.checkQueue(queue), `the queue ${queue}`);
      return { ready: found.messageCount, consumers: found.consumerCount };
    } catch (thrown) {
      this.#counter = null;
      const fault = toFault(thrown);
      if (fault.code === NOT_FOUND) return null;
      throw fault;
    }
  }

  async #close(connection: ChannelModel): Promise<void> {
    let isClosed = false;
    const end = (): void => {
      isClosed = true;
    };
    // The close fails if the broker is closing the connection already.
    await atMost(this.#options.clock, CLOSE_MS, connection.close().then(end, end));
    if (!isClosed) hangUp(connection);
  }
}

function withHeartbeat(url: string): string {
  const at = new URL(url);
  if (!at.searchParams.has("heartbeat")) at.searchParams.set("heartbeat", String(HEARTBEAT_S));
  return at.href;
}
