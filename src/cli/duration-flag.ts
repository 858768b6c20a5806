/** Durations on the command line: with a unit, or plain digits for milliseconds. */
import { parseDuration } from "../std/duration.ts";
import { isRejection, RondoError } from "../std/rejection.ts";

/** Parses a duration and returns milliseconds. Throws an error that names the flag if the text is not a duration. */
export function durationOf(text: string, flag: string): number {
  const ms = parseDuration(/^\d{1,15}$/.test(text) ? Number(text) : text, flag);
  if (isRejection(ms)) throw new RondoError({ ...ms, code: "invalid_input" });
  return ms;
}
