/** A connection to the broker that comes back: made again, later each time, until it is closed from this side. */
import { type Channel, type ChannelModel, connect } from "amqplib";
import { whyNoConnection } from "../../protocol/broker-address.ts";
import { NOT_FOUND } from "../../protocol/queue-doubts.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "../http/back-off.ts";

export interface BrokerLinkOptions {
  /** `amqp://` or `amqps://`. */
  readonly url: string;
  /** How the connection is called at the broker. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How long the broker may take to answer. */
  readonly answerMs: number;
  /** There is a new connection; it counts as made when this resolves. */
  readonly onUp: (connection: ChannelModel) => Promise<void>;
  readonly onDown: () => void;
  /** The broker is away or takes nothing (null: it is there again). */
  readonly onTrouble: (what: string | null) => void;
}

const HEARTBEAT_S = 20;
const CONNECT_MS = 10_000;

/** The broker has said nothing for long, though it takes messages. */
export class NoAnswer extends Error {
  override name = "NoAnswer";

  constructor() {
    super("the broker does not answer");
  }
}

export class BrokerLink {
  readonly #options: BrokerLinkOptions;
  readonly #backOff: BackOff;
  #connection: ChannelModel | null = null;
  #isClosed = false;
  #isInTrouble = false;
  #isBlocked = false;
  #code: number | null = null;
  #stopWaiting: (() => void) | null = null;

  constructor(options: BrokerLinkOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options.random);
  }

  /** It takes nothing just now, so it answers nothing either. */
  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Why the broker ended the last connection, such as 541; null: it did not, or said nothing. */
  get code(): number | null {
    return this.#code;
  }

  get isInTrouble(): boolean {
    return this.#isInTrouble;
  }

  /** Connects, now or as soon as the broker is there. */
  async open(): Promise<void> {
    const { url, name, onUp } = this.#options;
    let connection: ChannelModel | null = null;
    try {
      const made = await connect(withHeartbeat(url), {
        timeout: CONNECT_MS,
        noDelay: true,
        clientProperties: { connection_name: name },
      }).catch((thrown: unknown) => {
        throw new Error(whyNoConnection(url, thrown), { cause: thrown });
      });
      connection = made;
      this.#watch(made);
      if (this.#isClosed) return await made.close();
      await onUp(made);
      this.#backOff.reset();
      this.#trouble(null);
    } catch (thrown) {
      this.#trouble(thrown instanceof Error ? thrown.message : String(thrown));
      if (connection === null) this.#again();
      // What is closed tells by its own event.
      else await connection.close().catch(() => {});
    }
  }

  /** Whether there is such a queue, however it was declared. */
  async hasQueue(queue: string): Promise<boolean> {
    return (await this.#ask((channel) => channel.checkQueue(queue))) !== null;
  }

  /** Deletes a queue that is of no use; what has messages or consumers stays. */
  async removeUseless(queue: string): Promise<void> {
    const found = await this.answered(this.#ask((channel) => channel.checkQueue(queue))).catch(
      (thrown: unknown) => {
        if (!(thrown instanceof NoAnswer)) throw thrown;
        return null;
      },
    );
    if (found !== null && found.messageCount + found.consumerCount > 0) return;
    await this.answered(this.#ask((channel) => channel.deleteQueue(queue)));
  }

  /** Throws a `NoAnswer` when the broker has had long enough; while it takes nothing it has for ever. */
  answered<T>(work: Promise<T>): Promise<T> {
    const { clock, answerMs } = this.#options;
    return new Promise((resolve, fail) => {
      const wait = (): (() => void) =>
        clock.after(answerMs, () => {
          if (this.#isBlocked) stop = wait();
          else fail(new NoAnswer());
        });
      let stop = wait();
      work.then(resolve, fail).finally(() => stop());
    });
  }

  /** Asks over a channel of its own; null: there is no such thing. */
  async #ask<T>(question: (channel: Channel) => Promise<T>): Promise<T | null> {
    const channel = await this.#connection?.createChannel();
    if (channel === undefined) return null;
    // What there is not breaks the channel; it is thrown below as well.
    channel.on("error", () => {});
    try {
      const answer = await question(channel);
      await channel.close();
      return answer;
    } catch (thrown) {
      if (thrown instanceof Error && "code" in thrown && thrown.code === NOT_FOUND) return null;
      throw thrown;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopWaiting?.();
    // It may be closing already, from the other side.
    await this.#connection?.close().catch(() => {});
  }

  #watch(connection: ChannelModel): void {
    this.#connection = connection;
    this.#code = null;
    connection.on("error", (error: Error & { readonly code?: unknown }) => {
      this.#code = typeof error.code === "number" ? error.code : null;
      this.#trouble(error.message);
    });
    connection.on("blocked", (reason) => {
      this.#isBlocked = true;
      this.#trouble(`it takes no messages: ${reason}`);
    });
    connection.on("unblocked", () => {
      this.#isBlocked = false;
      this.#trouble(null);
    });
    connection.on("close", () => {
      this.#connection = null;
      this.#isBlocked = false;
      this.#options.onDown();
      if (this.#isClosed) return;
      this.#trouble("the connection is gone");
      this.#again();
    });
  }

  #again(): void {
    if (this.#isClosed) return;
    this.#stopWaiting = this.#options.clock.after(this.#backOff.next(), () => {
      this.#stopWaiting = null;
      // It catches whatever the world does.
      void this.open();
    });
  }

  #trouble(what: string | null): void {
    if (this.#isClosed || this.#isInTrouble === (what !== null)) return;
    this.#isInTrouble = what !== null;
    this.#options.onTrouble(what);
  }
}

/** A peer that is gone without a word is found by its silence. */
function withHeartbeat(url: string): string {
  const at = new URL(url);
  if (!at.searchParams.has("heartbeat")) at.searchParams.set("heartbeat", String(HEARTBEAT_S));
  return at.href;
}
