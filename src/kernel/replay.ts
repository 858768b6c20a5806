/** An execution from its stored parts: the snapshot where it is valid, and the rows after it. */
import { assert } from "../std/assert.ts";
import { apply } from "./apply.ts";
import { EVENT_VERSION } from "./event.ts";
import { Execution } from "./execution.ts";
import { decodeUpTo, type Entry } from "./journal-entry.ts";
import type { Plan } from "./plan.ts";
import { readSnapshot } from "./snapshot.ts";

/** Folds rows into an execution, up to and including `to`. */
export function replay(
  execution: Execution,
  entries: readonly Entry[],
  {
    to = Number.POSITIVE_INFINITY,
    reads = EVENT_VERSION,
  }: { readonly to?: number; readonly reads?: number } = {},
): Execution {
  for (const entry of entries) {
    for (const recorded of decodeUpTo(reads, entry)) {
      if (recorded.seq > to) return execution;
      if (recorded.seq > execution.seq) apply(execution, recorded);
    }
  }
  return execution;
}

/** An execution from a snapshot's text (or null) and the rows after it. */
export function restore(
  id: string,
  plan: Plan,
  parts: { snapshot: string | null; entries: readonly Entry[]; reads?: number },
): Execution {
  const execution =
    parts.snapshot === null ? new Execution(id, plan) : readSnapshot(id, plan, parts.snapshot);
  replay(execution, parts.entries, parts);
  assert(execution.seq > 0, "a stored execution has at least one event");
  return execution;
}
