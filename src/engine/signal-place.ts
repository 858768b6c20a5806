/**
 * Where a signal with a start goes, if an execution that has ended is followed by a new one. The executions of an id are numbered
 * from 1 (kernel/definition/successor-id.ts). The first one is asked first. If it has ended, the number of the execution that gets
 * the signal is stored before the signal is sent, by compare-and-set. All repeats of the signal find this number, so a signal goes
 * to another execution only after the noted one has ended without it (decision 088).
 */
import { KEPT, number, object } from "../std/decode.ts";
import { sha256 } from "../std/hash.ts";
import { jsonForm } from "../store/document-form.ts";

/** A question of `placeSignal`, about executions by their numbers. */
export type PlaceQuestion =
  /** Sends the signal to an execution, or starts it. False: it has ended without the signal. */
  | { readonly kind: "offer"; readonly n: number }
  /** Whether an execution has ended. False is a valid answer if that is not known. */
  | { readonly kind: "ended"; readonly n: number }
  /** Reads the stored number; null if there is none. */
  | { readonly kind: "read" }
  /** Stores a number, if `was` is still the stored one. Whether it is stored. */
  | { readonly kind: "note"; readonly was: number | null; readonly n: number };

type PlaceAnswer = boolean | number | null;
type Asking<T> = Generator<PlaceQuestion, T, PlaceAnswer>;

/**
 * Finds the execution that gets a signal. Yields questions; returns the number of the execution that answered. `known` is the highest
 * number of an execution that is known to have ended; 1 if none is.
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
 * The highest number of an execution that has ended. Each begins after the end of the one before, so a binary search finds it. If
 * an end is not known, the result is lower. Then the next execution answers that it has ended, and the search goes on.
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

/** The form of the documents of noted numbers. They expire after a day, as idempotency keys do (retention.ts). */
export const PLACE_FORM = jsonForm<NotedPlace>("signal-place", object({ n: number, until: number }, KEPT));
const KEPT_MS = 86_400_000;

/** The id of the document of a signal, from the user's id of the executions and the id of the signal. */
export function placeId(execution: string, signal: string): string {
  return sha256(JSON.stringify([execution, signal])).slice(0, 40);
}

/** The body of the document. */
export function placeBody(n: number, now: number): string {
  return JSON.stringify({ n, until: now + KEPT_MS });
}
