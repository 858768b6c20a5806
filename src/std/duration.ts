/** Durations: parsed from texts such as "5m", decoded within bounds, and shown to people. */
import { type Decode, show, Undecodable } from "./decode.ts";
import { isRejection, type Rejection, reject } from "./rejection.ts";

/** A duration: a text such as `"500ms"`, `"30s"`, `"5m"`, `"2h"` or `"1d"`, or whole milliseconds. */
export type Duration = number | string;

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The longest duration: 100 years. */
export const DURATION_MAX_MS = 100 * 366 * 86_400_000;

/** Converts a duration to milliseconds, or returns a rejection that names `path`. */
export function parseDuration(value: unknown, path: string): number | Rejection {
  const bad = (why: string) =>
    reject("invalid_definition", `${path}: ${why}`, {
      path,
      hint: 'write it as "500ms", "30s", "5m", "2h", "1d" or in milliseconds',
    });
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || value < 0)
      return bad(`${value} is not a whole, non-negative number of milliseconds`);
    return value > DURATION_MAX_MS ? bad("longer than 100 years") : value;
  }
  if (typeof value !== "string")
    return bad(value === undefined ? "is missing" : `a value of type ${typeof value} is not a duration`);
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(value);
  if (!match) return bad(`"${value.slice(0, 40)}" is not a duration`);
  const ms = Math.round(Number(match[1]) * (UNIT_MS[match[2] as string] as number));
  return ms > DURATION_MAX_MS ? bad("longer than 100 years") : ms;
}

/** Makes a decoder of durations within bounds; the decoded value is in milliseconds. */
export function durationMs(minMs = 0, maxMs = DURATION_MAX_MS): Decode<number> {
  return (value) => {
    const ms = parseDuration(value, "");
    if (isRejection(ms)) throw new Undecodable(ms.message.slice(2), { hint: ms.hint });
    if (ms < minMs)
      throw new Undecodable(`${show(value)} is not a duration of at least ${showDuration(minMs)}`);
    if (ms > maxMs)
      throw new Undecodable(`${show(value)} is not a duration of at most ${showDuration(maxMs)}`);
    return ms;
  };
}

/** Shows a duration for people, in its two largest units. */
export function showDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${Math.round(ms / 100) / 10} s`;
  const parts: [string, number][] = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1_000],
  ];
  const shown: string[] = [];
  let rest = ms;
  for (const [unit, size] of parts) {
    if (rest < size && shown.length === 0) continue;
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) shown.push(`${n} ${unit}`);
    if (shown.length === 2) break;
  }
  return shown.join(" ");
}
