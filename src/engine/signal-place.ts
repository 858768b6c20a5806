/**
 * Decides which execution gets a signal that is sent with a start, if an ended execution may be followed by a new one. The executions
 * of an id are numbered from 1 (kernel/definition/successor-id.ts). The first one is tried first. If it has ended, the number of the
 * execution that gets the signal is stored by compare-and-set before the signal is sent. Every repeat of the signal finds this
 * number, so the signal goes to another execution only after the noted one has ended without it (decision 088).
 */
import { KEPT, number, object } from "../std/decode.ts";
import { sha256 } from "../std/hash.ts";
import { jsonForm } from "../store/document-form.ts";

/** A question that `placeSignal` asks its caller. Executions are named by their numbers. */
export type PlaceQuestion =
  /**
   * Asks the caller to send the signal to an execution, or to start it with the signal. The reply is false if the execution has ended
   * without the signal.
   */
  | { readonly kind: "offer"; readonly n: number }
  /** Asks whether an execution has ended. The reply may be false if that is not known. */
  | { readonly kind: "ended"; readonly n: number }
  /** Asks for the stored number; the reply is null if there is none. */
  | { readonly kind: "read" }
  /** Asks the caller to store a number if `was` is still the stored one. The reply says whether it was stored. */
  | { readonly kind: "note"; readonly was: number | null; readonly n: number };

type PlaceAnswer = boolean | number | null;
type Asking<T> = Generator<PlaceQuestion, T, PlaceAnswer>;

/**
 * Finds the execution that gets a signal. Yields questions to the caller, and returns the number of the execution that answered.
 * `known` returns the highest number of an execution that is known to have ended; 1 if none is.
 */
export function* placeSignal(known: () => number): Asking<number> {
  if (yield* offer(1)) return 1;
  for (let noted = yield* read(); ; ) {
    if (noted !== null && (yield* offer(noted))) return noted;
    const n: number = (yield* lastEnded(Math.max(noted ?? 1, known()))) + 1;
    // @plant repeated signal placed anew
    const isNoted = (yield { kind: "note", was: noted, n }) as boolean;
    noted = isNoted ? n : yield* read();
  }
}

function* offer(n: number): Asking<boolean> {
  return (yield { kind: "offer", n }) as boolean;
}

function* read(): Asking<number | null> {
  return (yield { kind: "read" }) as number | null;
}

/**
 * Returns the highest number of an execution that has ended. Each execution begins after the end of the one before, so a binary
 * search works. If an end is not known, the result is too low. Then the next execution answers that it has ended, and the search goes
 * on.
 */
function* lastEnded(known: number): Asking<number> {
  let ended = known;
  let step = 1;
  for (; yield { kind: "ended", n: ended + step }; step *= 2) ended += step;
  for (; step > 1; step = step / 2) if (yield { kind: "ended", n: ended + step / 2 }) ended += step / 2;
  return ended;
}

interface NotedPlace {
  readonly n: number;
  readonly until: number;
}

/**
 * The form of the documents with the numbers of executions that get signals. They expire after a day, as idempotency keys do
 * (retention.ts).
 */
export const PLACE_FORM = jsonForm<NotedPlace>("signal-place", object({ n: number, until: number }, KEPT));
const KEPT_MS = 86_400_000;

/** Returns the id of a signal's document, made from the id of the executions and the id of the signal. */
export function placeId(execution: string, signal: string): string {
  return sha256(JSON.stringify([execution, signal])).slice(0, 40);
}

/** Returns the JSON text of the document. */
export function placeBody(n: number, now: number): string {
  return JSON.stringify({ n, until: now + KEPT_MS });
}
