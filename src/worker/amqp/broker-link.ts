/** A connection to the broker that comes back: made again, later each time, until it is closed from this side. */
import { type ChannelModel, connect } from "amqplib";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "../remote/back-off.ts";

export interface BrokerLinkOptions {
  /** `amqp://` or `amqps://`. */
  readonly url: string;
  /** How the connection is called at the broker. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  /** There is a new connection; it counts as made when this resolves. */
  readonly onUp: (connection: ChannelModel) => Promise<void>;
  readonly onDown: () => void;
  /** The broker is away or takes nothing (null: it is there again). */
  readonly onTrouble: (what: string | null) => void;
}

const HEARTBEAT_S = 20;
const CONNECT_MS = 10_000;

export class BrokerLink {
  readonly #options: BrokerLinkOptions;
  readonly #backOff: BackOff;
  #connection: ChannelModel | null = null;
  #isClosed = false;
  #isInTrouble = false;
  #stopWaiting: (() => void) | null = null;

  constructor(options: BrokerLinkOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options.random);
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
    const channel = await this.#connection?.createChannel();
    if (channel === undefined) return false;
    // What there is not breaks the channel; it is thrown below as well.
    channel.on("error", () => {});
    try {
      await channel.checkQueue(queue);
    } catch (thrown) {
      if (thrown instanceof Error && "code" in thrown && thrown.code === 404) return false;
      throw thrown;
    }
    await channel.close();
    return true;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopWaiting?.();
    // It may be closing already, from the other side.
    await this.#connection?.close().catch(() => {});
  }

  #watch(connection: ChannelModel): void {
    this.#connection = connection;
    connection.on("error", (error) => this.#trouble(error.message));
    connection.on("blocked", (reason) => this.#trouble(`it takes no messages: ${reason}`));
    connection.on("unblocked", () => this.#trouble(null));
    connection.on("close", () => {
      this.#connection = null;
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
