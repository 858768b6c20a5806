/**
 * For verbs that follow something: a server that has answered may go away for a while, as when it is started again.
 * 1. It is said once that it does not answer, and once that it does again.
 * 2. What is read meanwhile is asked for again, up to a minute. Streams are not: whoever follows one connects anew.
 */
import type { Fetch } from "../../client/transport.ts";
import { type Clock, systemClock } from "../../std/clock.ts";

export interface AbsenceOptions {
  /** How the server is called. */
  readonly name: string;
  readonly say: (line: string) => void;
  readonly clock?: Clock;
}

/** A kept connection can be closed under a request, which is then sent again: only the second failure in a row counts. */
const FAILURES_TOLD = 2;
const AWAY_MAX_MS = 60_000;
const PAUSE_MS = 200;
/** It closes, or is not ready yet. */
const UNAVAILABLE = 503;

/** The same `fetch`, more patient. */
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
      // What was broken off here says nothing of the server.
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
