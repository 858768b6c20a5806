/**
 * The way to the broker: two connections, one to publish and one to consume, since a broker that is short of memory or
 * disk stops reading from those who publish. They come and go together; what is lost is made again, later each time.
 */
import { type Channel, type ChannelModel, type ConfirmChannel, connect } from "amqplib";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import { BrokerFault, toFault } from "./broker-fault.ts";

export interface QueueCounts {
  /** Messages that nobody has taken. */
  readonly ready: number;
  readonly consumers: number;
}

/** Both connections, while they last. */
export interface BrokerSession {
  /** Publishes with confirms. */
  readonly publish: ConfirmChannel;
  /** Consumes; a consumer has its own prefetch. */
  readonly consume: Channel;
  /** Works on a channel of its own: what the broker refuses closes that one only, and is thrown as `BrokerFault`. */
  with<T>(work: (channel: Channel) => Promise<T>): Promise<T>;
  /** Null: there is no such queue. */
  look(queue: string): Promise<QueueCounts | null>;
}

export interface BrokerLinkOptions {
  readonly url: string;
  /** How the connections are called at the broker. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Deliveries that a consumer has at a time. */
  readonly prefetch: number;
  /** There is a session; it counts as up when this resolves. */
  readonly onUp: (session: BrokerSession) => Promise<void>;
  readonly onDown: () => void;
  /** The broker takes no messages, or does again. */
  readonly onBlocked: (isBlocked: boolean) => void;
  readonly onFault: (fault: Error) => void;
}

export type LinkState = "connecting" | "up" | "blocked" | "down" | "closed";

const HEARTBEAT_S = 10;
const CONNECT_MS = 10_000;
const AGAIN_MIN_MS = 100;
const AGAIN_MAX_MS = 10_000;

export class BrokerLink {
  readonly #options: BrokerLinkOptions;
  #connections: ChannelModel[] = [];
  #isUp = false;
  #isBlocked = false;
  #isClosed = false;
  #failures = 0;
  #fault: string | null = null;
  #stopWaiting: (() => void) | null = null;

  constructor(options: BrokerLinkOptions) {
    this.#options = options;
  }

  get state(): LinkState {
    if (this.#isClosed) return "closed";
    if (this.#isUp) return this.#isBlocked ? "blocked" : "up";
    return this.#failures === 0 ? "connecting" : "down";
  }

  /** Why it is down, or takes nothing; null: nothing is wrong. */
  get fault(): string | null {
    return this.#fault;
  }

  /** Connects, now or as soon as the broker is there; never throws. */
  async open(): Promise<void> {
    const { onUp } = this.#options;
    let made: ChannelModel[] = [];
    try {
      made = [await this.#connect("publish")];
      made.push(await this.#connect("consume"));
      if (this.#isClosed) return await closeAll(made);
      this.#connections = made;
      const session = await this.#session(made);
      await onUp(session);
      this.#isUp = this.#connections === made;
      if (!this.#isUp) return;
      this.#failures = 0;
      this.#fault = null;
    } catch (thrown) {
      await closeAll(made);
      this.#down(made, toFault(thrown));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopWaiting?.();
    const connections = this.#connections;
    this.#connections = [];
    this.#isUp = false;
    await closeAll(connections);
  }

  async #connect(what: string): Promise<ChannelModel> {
    const { url, name } = this.#options;
    const connection = await connect(withHeartbeat(url), {
      timeout: CONNECT_MS,
      noDelay: true,
      clientProperties: { connection_name: `${name} (${what})` },
    });
    // What went wrong is told by the close that follows.
    let error: Error | null = null;
    connection.on("error", (said) => {
      error = said;
    });
    connection.on("blocked", (reason) => this.#blocked(`it takes no messages: ${reason}`));
    connection.on("unblocked", () => this.#blocked(null));
    connection.on("close", () => {
      if (!this.#connections.includes(connection)) return;
      const fault = toFault(error ?? new BrokerFault("the connection is gone"));
      const all = this.#connections;
      this.#down(all, fault);
      void closeAll(all);
    });
    return connection;
  }

  /** A channel that all share breaks the session when it breaks. */
  async #session([out, into]: readonly ChannelModel[]): Promise<BrokerSession> {
    if (out === undefined || into === undefined) throw new BrokerFault("the connection is gone");
    const all = this.#connections;
    const shared = <T extends Channel>(channel: T): T => {
      let error: Error | null = null;
      channel.on("error", (said: Error) => {
        error = said;
      });
      channel.on("close", () => {
        if (this.#connections !== all) return;
        this.#down(all, toFault(error ?? new BrokerFault("a channel is gone")));
        void closeAll(all);
      });
      return channel;
    };
    const publish = shared(await out.createConfirmChannel());
    const consume = shared(await into.createChannel());
    await consume.prefetch(this.#options.prefetch);
    const looker = new Looker(into);
    return {
      publish,
      consume,
      with: (work) => withChannel(into, work),
      look: (queue) => looker.look(queue),
    };
  }

  #blocked(why: string | null): void {
    this.#isBlocked = why !== null;
    this.#fault = why;
    this.#options.onBlocked(why !== null);
  }

  #down(connections: readonly ChannelModel[], fault: BrokerFault): void {
    if (this.#isClosed) return;
    if (this.#connections.length > 0 && this.#connections !== connections) return;
    this.#connections = [];
    this.#isUp = false;
    this.#isBlocked = false;
    // Said once, not with every try.
    if (this.#fault !== fault.message) this.#options.onFault(fault);
    this.#fault = fault.message;
    // Also where it had only half come up.
    this.#options.onDown();
    this.#again();
  }

  #again(): void {
    if (this.#stopWaiting !== null) return;
    const most = Math.min(AGAIN_MAX_MS, AGAIN_MIN_MS * 2 ** Math.min(this.#failures++, 10));
    const ms = Math.round(most * (0.5 + this.#options.random.u32() / 8_589_934_592));
    this.#stopWaiting = this.#options.clock.after(ms, () => {
      this.#stopWaiting = null;
      void this.open();
    });
  }
}

/** Looks at queues over one channel, which is made again after each queue that is not there. */
class Looker {
  readonly #connection: ChannelModel;
  #channel: Promise<Channel> | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(connection: ChannelModel) {
    this.#connection = connection;
  }

  look(queue: string): Promise<QueueCounts | null> {
    const looked = this.#turn.then(() => this.#look(queue));
    this.#turn = looked.catch(() => null);
    return looked;
  }

  async #look(queue: string): Promise<QueueCounts | null> {
    try {
      this.#channel ??= openChannel(this.#connection);
      const { messageCount, consumerCount } = await (await this.#channel).checkQueue(queue);
      return { ready: messageCount, consumers: consumerCount };
    } catch (thrown) {
      this.#channel = null;
      const fault = toFault(thrown);
      if (fault.code === 404) return null;
      throw fault;
    }
  }
}

async function openChannel(connection: ChannelModel): Promise<Channel> {
  const channel = await connection.createChannel();
  // The call that broke it throws the same.
  channel.on("error", () => {});
  return channel;
}

async function withChannel<T>(connection: ChannelModel, work: (channel: Channel) => Promise<T>): Promise<T> {
  try {
    const channel = await openChannel(connection);
    const done = await work(channel);
    await channel.close();
    return done;
  } catch (thrown) {
    throw toFault(thrown);
  }
}

async function closeAll(connections: readonly ChannelModel[]): Promise<void> {
  // They may be closing already, from the other side.
  await Promise.all(connections.map((connection) => connection.close().catch(() => {})));
}

/** A peer that is gone without a word is found by its silence. */
function withHeartbeat(url: string): string {
  const at = new URL(url);
  if (!at.searchParams.has("heartbeat")) at.searchParams.set("heartbeat", String(HEARTBEAT_S));
  return at.href;
}
