import type { Beat, ReportedAttempt } from "../protocol/work.ts";
import { deskKey } from "./names.ts";

/** Attempts as the engine is told of them, by what they have in common. */
export function beatsOf(attempts: readonly ReportedAttempt[]): Beat[] {
  const byPlace = new Map<string, Beat & { attempts: { task: number; attempt: number; claim: number }[] }>();
  for (const { task, attempt, claim, ...place } of attempts) {
    const key = `${deskKey(place)}/${place.epoch}`;
    const known = byPlace.get(key);
    if (known === undefined) byPlace.set(key, { ...place, attempts: [{ task, attempt, claim }] });
    else known.attempts.push({ task, attempt, claim });
  }
  return [...byPlace.values()];
}
