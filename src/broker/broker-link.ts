/**
 * The way to the broker: two connections, one to publish and one to consume, since a broker that is short of memory or
 * disk stops reading from those who publish. They come and go together; what is lost is made again, later each time.
 */
import { type Channel, type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect } from "amqplib";
import { hangUp } from "../net/check-broker.ts";
import { whyNoConnection } from "../protocol/broker-address.ts";
import type { LinkState } from "../protocol/broker-view.ts";
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
  /**
   * Works on a channel of its own: what the broker refuses closes that one only, and is thrown as `BrokerFault`; so is
   * that it does not answer in time.
   */
  with<T>(work: (channel: Channel) => Promise<T>): Promise<T>;
  /** Consumes a queue over `consume`; where nothing is answered, all of the session is made again. */
  take(queue: string, onMessage: (message: ConsumeMessage | null) => void): Promise<string>;
  /** Null: there is no such queue. */
  look(queue: string): Promise<QueueCounts | null>;
  /** Why the broker ended it, such as 320 or 541; null: it did not, or said nothing. */
  readonly code: number | null;
}

export interface BrokerLinkOptions {
  readonly url: string;
  /** How the connections are called at the broker. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Deliveries that a consumer has at a time. */
  readonly prefetch: number;
  /** How long the broker may take to answer. */
  readonly answerMs: number;
  /** There is a session; it counts as up when this resolves. */
  readonly onUp: (session: BrokerSession) => Promise<void>;
  readonly onDown: () => void;
  /** The broker takes no messages, or does again. */
  readonly onBlocked: (isBlocked: boolean) => void;
  readonly onFault: (fault: Error) => void;
}

const HEARTBEAT_S = 10;
const CONNECT_MS = 10_000;
const CLOSE_MS = 3_000;
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
  /** Why the broker ended the connections that there are, or were last. */
  #code: number | null = null;

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
    this.#code = null;
    try {
      made = [await this.#connect("publish")];
      made.push(await this.#connect("consume"));
      if (this.#isClosed) return await this.#closeAll(made);
      this.#connections = made;
      const session = await this.#session(made);
      await onUp(session);
      this.#isUp = this.#connections === made;
      if (!this.#isUp) return;
      this.#failures = 0;
      this.#fault = null;
    } catch (thrown) {
      await this.#closeAll(made);
      this.#down(made, toFault(thrown));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopWaiting?.();
    const connections = this.#connections;
    this.#connections = [];
    this.#isUp = false;
    await this.#closeAll(connections);
  }

  async #connect(what: string): Promise<ChannelModel> {
    const { url, name } = this.#options;
    const connection = await connect(withHeartbeat(url), {
      timeout: CONNECT_MS,
      noDelay: true,
      clientProperties: { connection_name: `${name} (${what})` },
    }).catch((thrown: unknown) => {
      throw new BrokerFault(whyNoConnection(url, thrown), { cause: thrown });
    });
    // What went wrong is told by the close that follows.
    let error: Error | null = null;
    connection.on("error", (said) => {
      error = said;
      this.#code ??= toFault(said).code;
    });
    connection.on("blocked", (reason) => this.#blocked(`it takes no messages: ${reason}`));
    connection.on("unblocked", () => this.#blocked(null));
    connection.on("close", () => {
      if (!this.#connections.includes(connection)) return;
      const fault = toFault(error ?? new BrokerFault("the connection is gone"));
      const all = this.#connections;
      this.#down(all, fault);
      void this.#closeAll(all);
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
        void this.#closeAll(all);
      });
      return channel;
    };
    const publish = shared(await out.createConfirmChannel());
    const consume = shared(await into.createChannel());
    await consume.prefetch(this.#options.prefetch);
    const within = <T>(work: Promise<T>, what: string): Promise<T> => this.#within(work, what);
    const looker = new Looker(into, within);
    const codeNow = (): number | null => this.#code;
    return {
      publish,
      consume,
      with: (work) => within(withChannel(into, work), "work on queues"),
      take: async (queue, onMessage) => {
        try {
          return (await within(consume.consume(queue, onMessage), `consuming ${queue}`)).consumerTag;
        } catch (thrown) {
          // Whatever comes over this channel waits behind it.
          const fault = toFault(thrown);
          if (fault.isSilent) {
            this.#down(all, fault);
            void this.#closeAll(all);
          }
          throw fault;
        }
      },
      look: (queue) => looker.look(queue),
      get code() {
        return codeNow();
      },
    };
  }

  /** A broker that takes nothing does not hear that we go: it is left without a word then. */
  async #closeAll(connections: readonly ChannelModel[]): Promise<void> {
    await Promise.all(
      connections.map(
        (connection) =>
          new Promise<void>((resolve) => {
            const stop = this.#options.clock.after(CLOSE_MS, () => {
              hangUp(connection);
              resolve();
            });
            const end = (): void => {
              stop();
              resolve();
            };
            // It may be closing already, from the other side.
            connection.close().then(end, end);
          }),
      ),
    );
  }

  #within<T>(work: Promise<T>, what: string): Promise<T> {
    const { clock, answerMs } = this.#options;
    return new Promise((resolve, fail) => {
      const stop = clock.after(answerMs, () =>
        fail(new BrokerFault(`no answer within ${answerMs} ms: ${what}`, { isSilent: true })),
      );
      work.then(resolve, fail).finally(stop);
    });
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
  readonly #within: <T>(work: Promise<T>, what: string) => Promise<T>;

  constructor(connection: ChannelModel, within: <T>(work: Promise<T>, what: string) => Promise<T>) {
    this.#connection = connection;
    this.#within = within;
  }

  look(queue: string): Promise<QueueCounts | null> {
    const looked = this.#turn.then(() => this.#look(queue));
    this.#turn = looked.catch(() => null);
    return looked;
  }

  async #look(queue: string): Promise<QueueCounts | null> {
    try {
      this.#channel ??= openChannel(this.#connection);
      const channel = await this.#within(this.#channel, "opening a channel");
      const { messageCount, consumerCount } = await this.#within(
        channel.checkQueue(queue),
        `the queue ${queue}`,
      );
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

/** A peer that is gone without a word is found by its silence. */
function withHeartbeat(url: string): string {
  const at = new URL(url);
  if (!at.searchParams.has("heartbeat")) at.searchParams.set("heartbeat", String(HEARTBEAT_S));
  return at.href;
}
