import type { Beat, ReportedAttempt } from "../protocol/work.ts";
import { visitKey } from "./names.ts";

/** Attempts as beats: grouped by handler of a visit and epoch. */
export function beatsOf(attempts: readonly ReportedAttempt[]): Beat[] {
  const byPlace = new Map<string, Beat & { attempts: { task: number; attempt: number; claim: number }[] }>();
  for (const { task, attempt, claim, ...place } of attempts) {
    const key = `${visitKey(place)}/${place.epoch}`;
    const known = byPlace.get(key);
    if (known === undefined) byPlace.set(key, { ...place, attempts: [{ task, attempt, claim }] });
    else known.attempts.push({ task, attempt, claim });
  }
  return [...byPlace.values()];
}
