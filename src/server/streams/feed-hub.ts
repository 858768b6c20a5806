/** All open streams: finds or creates the feed of a client, sends its pieces, and keeps the connection alive. */
import type { ServerResponse } from "node:http";
import { DamagedData } from "../../kernel/journal/damage.ts";
import { damagedRow } from "../../sdk/errors.ts";
import type { Clock } from "../../std/clock.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { DAMAGED } from "../../store/store.ts";
import type { Caller } from "../auth/caller.ts";
import type { Metrics } from "../metrics.ts";
import type { ApiLimits } from "../parts.ts";
import { Feed, type FeedSource } from "./feed.ts";
import { StreamClient } from "./stream-client.ts";

export interface FollowOptions {
  readonly outgoing: ServerResponse;
  readonly caller: Caller;
  /** The identity of the feed: clients with the same key share it. */
  readonly key: string;
  readonly source: () => FeedSource;
  readonly from: string;
  /** Whether the stream continues after the end of the execution. */
  readonly follow: boolean;
}

const KEEP_ALIVE_MS = 15_000;
/** A single caller may use at most one in this many of all streams. */
const SHARE = 4;
/** How long clients may take to read the rest of their streams when the server closes. */
const CLOSE_MS = 1_000;

interface FeedHubParts {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits: ApiLimits;
  readonly onFault: (fault: Error) => void;
  /** Tells whether the token with this id is still valid. */
  readonly isKnown: (token: string) => boolean;
}

export class FeedHub {
  readonly #parts: FeedHubParts;
  readonly #feeds = new Map<string, Feed>();
  readonly #clients = new Map<StreamClient, Promise<void>>();
  /** Streams by the rate-limit key of their callers. */
  readonly #byCaller = new Map<
    string,
    { readonly token: string | null; readonly clients: Set<StreamClient> }
  >();
  #cancelTick: (() => void) | null = null;
  #isClosed = false;

  constructor(parts: FeedHubParts) {
    this.#parts = parts;
  }

  /** Begins a stream, or returns why the client gets none. The stream continues after this call returns null. */
  open(options: FollowOptions): Rejection | null {
    if (this.#isClosed) return reject("not_ready", "the server is closing");
    if (this.#clients.size >= this.#parts.limits.streams)
      return reject("rate_limited", `there are ${this.#clients.size} streams open, which is the limit`, {
        hint: "close some streams, or read pages without Accept: text/event-stream",
      });
    const { countedBy, token } = options.caller;
    const own = this.#byCaller.get(countedBy ?? "")?.clients.size ?? 0;
    if (countedBy !== null && own >= Math.ceil(this.#parts.limits.streams / SHARE))
      return reject("rate_limited", `${options.caller.name} has ${own} streams open, which is its limit`, {
        hint: "close some streams, or read pages without Accept: text/event-stream",
      });
    const { streamBytes: sliceBytes, streamStallMs: stallMs } = this.#parts.limits;
    const client = new StreamClient(options.outgoing, { clock: this.#parts.clock, sliceBytes, stallMs });
    this.#dropAtExpiry(client, options.caller);
    this.#parts.metrics.streamOpened();
    const lead = this.#lead(client, options)
      .catch((thrown: unknown) => {
        // The connection is closed. The client reconnects and continues at its own position.
        this.#parts.onFault(toError(thrown));
        options.outgoing.destroy();
      })
      .finally(() => {
        this.#clients.delete(client);
        this.#forget(client, countedBy);
        this.#parts.metrics.streamEnded(client.isCutOff);
      });
    this.#clients.set(client, lead);
    if (countedBy !== null) {
      const entry = this.#byCaller.get(countedBy) ?? { token, clients: new Set() };
      entry.clients.add(client);
      this.#byCaller.set(countedBy, entry);
    }
    this.#tick();
    return null;
  }

  /** Closes the streams of a revoked token, and of the tokens that were made with it. */
  cut(token: string): void {
    for (const entry of this.#byCaller.values())
      if (entry.token === token) for (const client of entry.clients) client.drop();
  }

  get size(): number {
    return this.#clients.size;
  }

  /** Ends all streams. Resolves when they have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTick?.();
    for (const feed of this.#feeds.values()) feed.stop();
    const cancel = this.#parts.clock.after(CLOSE_MS, () => {
      for (const client of this.#clients.keys()) client.cutOff();
    });
    await Promise.all(this.#clients.values());
    cancel();
  }

  /** A token for one execution may expire before its stream ends. */
  #dropAtExpiry(client: StreamClient, { grant }: Caller): void {
    if (grant === undefined) return;
    const { clock } = this.#parts;
    const cancel = clock.after(Math.max(0, grant.expiresAt - clock.now()), () => client.drop());
    client.onClose(cancel);
  }

  #forget(client: StreamClient, countedBy: string | null): void {
    const entry = this.#byCaller.get(countedBy ?? "");
    entry?.clients.delete(client);
    if (countedBy !== null && entry?.clients.size === 0) this.#byCaller.delete(countedBy);
  }

  async #lead(client: StreamClient, { key, source, from, follow }: FollowOptions): Promise<void> {
    const feed = this.#feeds.get(key) ?? new Feed(source(), this.#parts.clock);
    this.#feeds.set(key, feed);
    feed.followers++;
    try {
      let position = from;
      let hasAsked = false;
      let isOver = false;
      while (!client.isClosed && !feed.isStopped) {
        const piece = await (isOver ? feed.pieceNow(position) : feed.piece(position));
        const isEnd = piece.endsAt !== null && !follow;
        await client.write(isEnd ? piece.bytes.subarray(0, piece.endsAt ?? 0) : piece.bytes);
        if (isEnd || (isOver && piece.isLast)) break;
        position = piece.next;
        if (!feed.isNewest(piece)) continue;
        // `isOver` is called when the client first reaches the end, and again whenever the execution may have ended since. It
        // throws if the execution is damaged.
        isOver = (!hasAsked || feed.mayBeOver) && (await feed.isOver()) && !follow;
        hasAsked = true;
        if (!isOver) await this.#change(client, feed, piece.version);
      }
    } catch (thrown) {
      if (!(thrown instanceof DamagedData)) throw thrown;
      await client.write(damagedEvent(thrown));
    } finally {
      client.end();
      feed.followers--;
      if (feed.followers === 0) {
        feed.stop();
        if (this.#feeds.get(key) === feed) this.#feeds.delete(key);
      }
    }
  }

  /** Waits until the feed has more or the client disconnects. */
  #change(client: StreamClient, feed: Feed, version: number): Promise<void> {
    return new Promise((resolve, fail) => {
      const forget = client.onClose(resolve);
      feed.changed(version).then(() => {
        forget();
        resolve();
      }, fail);
    });
  }

  #tick(): void {
    this.#cancelTick ??= this.#parts.clock.after(KEEP_ALIVE_MS, () => {
      this.#cancelTick = null;
      for (const { token } of this.#byCaller.values())
        if (token !== null && !this.#parts.isKnown(token)) this.cut(token);
      for (const client of this.#clients.keys()) client.keepAlive();
      if (this.#clients.size > 0 && !this.#isClosed) this.#tick();
    });
  }
}

/** The last event of a stream about a damaged execution. It has no id, so that a client that connects again gets it again. */
function damagedEvent(thrown: DamagedData): Buffer {
  const { code, message, hint } = damagedRow(thrown);
  const { table, row, why } = thrown.damage;
  const data = { code, message, hint, damage: { table, row, why } };
  return Buffer.from(`event: ${DAMAGED}\ndata: ${JSON.stringify(data)}\n\n`);
}
