/** Follows a stream of server-sent events, and reconnects if the connection is lost. Throws if no server answers for `reconnectMs`. */
import { backOffMs } from "../std/back-off.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import { RondoError } from "../std/rejection.ts";
import { sleep } from "../std/within.ts";
import { readServerEvents, type ServerEvent } from "./event-stream.ts";
import { unreachable } from "./problem.ts";
import type { Requester } from "./requester.ts";

export interface FollowOptions {
  readonly requester: Requester;
  readonly path: () => string;
  readonly query: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly clock: Clock;
  readonly random: Random;
  /** A signal that ends the stream without an error. */
  readonly signal: AbortSignal;
  /** How long to try to reconnect before the stream throws, in milliseconds. */
  readonly reconnectMs: number;
  /** Called with true when a connection is made, and with false when it is lost. */
  readonly onConnection?: ((isConnected: boolean) => void) | undefined;
}

export const RETRY = { minMs: 50, maxMs: 5_000 } as const;
/** A connection that sends no bytes for this time counts as broken. Servers send a comment much more often. */
const SILENCE_MAX_MS = 60_000;
/** Codes of temporary refusals. The request is repeated after them. */
export const PASSING: ReadonlySet<string> = new Set([
  "not_ready",
  "store_unavailable",
  "not_owner",
  "rate_limited",
]);

/**
 * Yields the events of a stream, and `ended` each time the server ends the stream. If the caller reads on after `ended`, the stream is
 * opened again.
 */
export async function* followStream(options: FollowOptions): AsyncGenerator<ServerEvent | "ended"> {
  const { requester, path, query, clock, signal } = options;
  let lastId = "";
  let failures = 0;
  let failingSince: number | null = null;
  let isConnected = false;
  const connected = (is: boolean): void => {
    if (is !== isConnected) options.onConnection?.(is);
    isConnected = is;
  };
  while (!signal.aborted) {
    const watch = new Watch(clock, signal);
    try {
      const response = await requester.send(path(), {
        query,
        headers: { accept: "text/event-stream", ...(lastId === "" ? {} : { "last-event-id": lastId }) },
        signal: watch.signal,
      });
      connected(true);
      for await (const event of readServerEvents(response, () => watch.restart())) {
        failures = 0;
        failingSince = null;
        lastId = event.id;
        watch.rest();
        yield event;
        watch.restart();
      }
      if (signal.aborted) return;
      watch.rest();
      connected(false);
      yield "ended";
    } catch (thrown) {
      if (signal.aborted) return;
      connected(false);
      if (thrown instanceof RondoError && !PASSING.has(thrown.code)) throw thrown;
      failingSince ??= clock.now();
      if (clock.now() - failingSince >= options.reconnectMs)
        throw thrown instanceof RondoError ? thrown : unreachable(requester.urls, thrown);
      requester.passOver();
    } finally {
      watch.stop();
    }
    await sleep(clock, backOffMs(failures++, { ...RETRY, random: options.random }), signal);
  }
}

/** Closes a connection that is silent for too long. The time in which the reader handles an event does not count. */
class Watch {
  readonly #clock: Clock;
  readonly #silent = new AbortController();
  readonly signal: AbortSignal;
  #cancel: () => void = () => {};

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.signal = AbortSignal.any([signal, this.#silent.signal]);
    this.restart();
  }

  restart(): void {
    this.rest();
    this.#cancel = this.#clock.after(SILENCE_MAX_MS, () =>
      this.#silent.abort(new Error("the server has been silent for too long")),
    );
  }

  rest(): void {
    this.#cancel();
    this.#cancel = () => {};
  }

  stop(): void {
    this.rest();
    this.#silent.abort(new Error("no longer wanted"));
  }
}
