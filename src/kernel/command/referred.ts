/**
 * Which parts of results are kept for the commands that refer to them: never one inside another, so that together they
 * are no larger than the result, however often and in whatever spelling it is referred to.
 */
import type { Reference } from "./reference.ts";

export interface Referred {
  /** The parts that are kept of a step's result. */
  readonly byStep: ReadonlyMap<number, readonly Reference[]>;
  /** The part in which a reference is found, by the reference's text. */
  readonly keptFor: ReadonlyMap<string, Reference>;
}

/** A place in a result; `kept`: all of it is. */
interface Place {
  kept: Reference | null;
  readonly members: Map<string, Place>;
}

/** Plans what is kept for these references. */
export function planReferred(references: readonly Reference[]): Referred {
  const byStep = new Map<number, Reference[]>();
  const keptFor = new Map<string, Reference>();
  const results = new Map<number, Place>();
  const outerFirst = references
    .filter(({ from }) => from === "steps")
    .sort((one, other) => one.path.length - other.path.length);
  for (const reference of outerFirst) {
    const { step, path, text } = reference;
    const result = results.get(step) ?? place();
    results.set(step, result);
    const kept = keep(result, path, reference);
    keptFor.set(text, kept);
    if (kept !== reference) continue;
    const parts = byStep.get(step) ?? [];
    parts.push(reference);
    byStep.set(step, parts);
  }
  return { byStep, keptFor };
}

/** The part that holds the path: the reference itself if none does yet. */
function keep(result: Place, path: readonly string[], reference: Reference): Reference {
  let at = result;
  for (const part of path) {
    if (at.kept !== null) return at.kept;
    const next = at.members.get(part) ?? place();
    at.members.set(part, next);
    at = next;
  }
  at.kept ??= reference;
  return at.kept;
}

function place(): Place {
  return { kept: null, members: new Map() };
}
