/** What a version of Rondo reads: events up to a version, and snapshots of one fold. */

import { versionOfId } from "../definition/names.ts";
import { EVENT_VERSION, type Recorded, versionOf } from "../event.ts";
import { FOLD_VERSION } from "./snapshot.ts";

export interface Vocabulary {
  readonly events: number;
  readonly fold: number;
}

/** That of this version. */
export const VOCABULARY: Vocabulary = { events: EVENT_VERSION, fold: FOLD_VERSION };

/** The version that whoever reads these events of an execution must know. */
export function versionNeeded(events: readonly Recorded[], execution: string): number {
  let version = versionOfId(execution);
  for (const { event } of events) version = Math.max(version, versionOf(event.kind));
  return version;
}
