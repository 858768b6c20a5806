/**
 * The spans of enumerations that ran in this process, the most recent ones. The spans of tasks and of phases link to them. They are
 * lost with the process: the spans of later tasks have no link then.
 */
import type { Place } from "../kernel/event.ts";
import type { SpanContext } from "../std/open-telemetry.ts";

const SPANS_MAX = 1_000;
const spans = new Map<string, SpanContext>();

type Visited = Place & { readonly execution: string };

function keyOf({ execution, phase, visit, handler }: Visited): string {
  return `${execution}\n${phase}\n${visit}\n${handler}`;
}

/** Keeps the span of an enumeration. */
export function rememberEnumeration(place: Visited, context: SpanContext): void {
  const key = keyOf(place);
  spans.delete(key);
  spans.set(key, context);
  if (spans.size > SPANS_MAX) spans.delete(spans.keys().next().value as string);
}

/** Returns links to the spans of these enumerations, as far as they are known. */
export function enumerationLinks(places: readonly Visited[]): readonly { readonly context: SpanContext }[] {
  return places.flatMap((place) => {
    const context = spans.get(keyOf(place));
    return context === undefined ? [] : [{ context }];
  });
}
