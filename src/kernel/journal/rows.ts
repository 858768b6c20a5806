/** Splits payloads into runs that fit a journal row: at most 1,000 items or 256 KiB, one item at least. */
import { LIMITS } from "../definition/definition.ts";

/** The ranges [from, to) of runs that fit one row each. */
export function* rowRanges(texts: readonly string[]): Generator<readonly [number, number]> {
  let from = 0;
  let chars = 0;
  for (let i = 0; i < texts.length; i++) {
    const length = (texts[i] as string).length;
    if (i > from && (i - from >= LIMITS.rowItems || chars + length > LIMITS.rowBytes)) {
      yield [from, i];
      from = i;
      chars = 0;
    }
    chars += length;
  }
  if (from < texts.length) yield [from, texts.length];
}
