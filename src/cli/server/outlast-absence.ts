/**
 * A `fetch` that retries requests, for verbs that follow an execution. The server may not answer for a while, for example during a
 * restart.
 * 1. It prints one line when the server stops answering, and one when it answers again.
 * 2. Reads are retried for up to a minute. Requests for streams are not retried, because the reader of a stream reconnects by itself.
 */
import type { Fetch } from "../../client/transport.ts";
import { type Clock, systemClock } from "../../std/clock.ts";

export interface AbsenceOptions {
  /** The server's name in messages. */
  readonly name: string;
  readonly say: (line: string) => void;
  readonly clock?: Clock;
}

/** After this many failures in a row the server counts as unreachable. A single failure may be a kept-alive connection that was closed. */
const FAILURES_TOLD = 2;
const AWAY_MAX_MS = 60_000;
const PAUSE_MS = 200;
/** The HTTP status with which a server answers while it is closing or not ready yet. */
const UNAVAILABLE = 503;

/** Returns a `fetch` that retries failed requests of the given `fetch`. */
export function outlastAbsence(fetch: Fetch, options: AbsenceOptions): Fetch {
  const { name, say, clock = systemClock({ hold: true }) } = options;
  let hasAnswered = false;
  let failures = 0;
  let awaySince = 0;
  return async (url, request) => {
    const { method, headers, signal } = request;
    const mayRepeat = method === "GET" && headers["accept"] !== "text/event-stream";
    for (;;) {
      const answer = await fetch(url, request).catch((thrown: unknown) => new NoAnswer(thrown));
      // A request that the caller aborted does not show whether the server answers.
      if (answer instanceof NoAnswer && signal?.aborted === true) throw answer.thrown;
      const isAway = answer instanceof NoAnswer || answer.status === UNAVAILABLE;
      if (!isAway) {
        if (hasAnswered && failures >= FAILURES_TOLD) say(`${name} answers again`);
        hasAnswered = true;
        failures = 0;
        return answer;
      }
      if (++failures === 1) awaySince = clock.now();
      if (failures === FAILURES_TOLD && hasAnswered) say(`${name} does not answer; trying again`);
      if (!hasAnswered || !mayRepeat || clock.now() - awaySince >= AWAY_MAX_MS) {
        if (answer instanceof NoAnswer) throw answer.thrown;
        return answer;
      }
      if (!(answer instanceof NoAnswer)) await answer.text();
      await pause(clock, signal);
      signal?.throwIfAborted();
    }
  };
}

class NoAnswer {
  readonly thrown: unknown;
  constructor(thrown: unknown) {
    this.thrown = thrown;
  }
}

function pause(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(PAUSE_MS, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}
