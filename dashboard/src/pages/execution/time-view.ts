/** Computes the visible span of time: zoomed around a position, moved, and kept within the whole. */

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The smallest span in milliseconds: the journal has no finer times. */
const SMALLEST_MS = 10;

/** Makes a span `by` times as long; the time at `place` (0 to 1) keeps its position. */
export function zoom({ from, to }: Span, by: number, place = 0.5): Span {
  const length = Math.max(SMALLEST_MS, (to - from) * by);
  const middle = from + (to - from) * place;
  return { from: middle - length * place, to: middle + length * (1 - place) };
}

/** Moves a span by a share of its own length. */
export function pan({ from, to }: Span, share: number): Span {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

/** The part of a span between two positions (0 to 1). */
export function pieceOf({ from, to }: Span, a: number, b: number): Span {
  const at = (place: number): number => from + (to - from) * Math.min(1, Math.max(0, place));
  return { from: at(Math.min(a, b)), to: Math.max(at(Math.min(a, b)) + SMALLEST_MS, at(Math.max(a, b))) };
}

/** Limits a span to the whole and to whole milliseconds; null if it is the whole. */
export function within(span: Span, whole: Span): Span | null {
  const length = Math.min(span.to - span.from, whole.to - whole.from);
  const from = Math.round(Math.min(Math.max(span.from, whole.from), whole.to - length));
  const to = Math.round(from + length);
  return from <= whole.from && to >= whole.to ? null : { from, to };
}
