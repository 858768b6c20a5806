/** A range of the journal: from its first event on, or around the selected event. The range grows at both ends. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import type { JournalEvent, Page } from "../../api/shapes.ts";
import { asProblem } from "../../api/use-live.ts";

const PAGE = 100;

/** The loaded events, from `from` up to `next`. */
interface Stretch {
  readonly key: string;
  readonly from: number;
  readonly next: number;
  readonly events: readonly JournalEvent[];
}

/** Loads events; `since`: from a time on; `at`: the range must contain this event. */
export function useEvents(
  path: string,
  {
    revision,
    since,
    at,
  }: { readonly revision: number; readonly since: number | null; readonly at: number | null },
) {
  const key = `${path} ${since}`;
  const wanted = since === null ? at : null;
  const [state, setState] = useState<Stretch>(() => emptyAt(key, wanted));
  const [problem, setProblem] = useState<Problem | null>(null);
  const reading = useRef<string | null>(null);
  const shown =
    state.key === key && (wanted === null || reaches(state, wanted)) ? state : emptyAt(key, wanted);
  const stretch = `${key} ${shown.from}`;
  const hasMore = shown.next <= revision;
  const read = (from: number, limit: number, grow: (events: readonly JournalEvent[]) => Stretch): void => {
    if (reading.current === stretch) return;
    reading.current = stretch;
    get<Page<JournalEvent>>(`${path}/events`, { query: { from, since, limit } })
      .then(
        ({ data }) => reading.current === stretch && setState(grow(data)),
        (thrown: unknown) => setProblem(asProblem(thrown)),
      )
      .finally(() => {
        if (reading.current === stretch) reading.current = null;
      });
  };
  const more = (): void => {
    if (!hasMore) return;
    read(shown.next, PAGE, (data) => {
      const next = (data.at(-1)?.seq ?? revision) + 1;
      return { ...shown, events: [...shown.events, ...data], next };
    });
  };
  const earlier = (): void => {
    const from = Math.max(1, shown.from - PAGE);
    read(from, shown.from - from, (data) => ({ ...shown, from, events: [...data, ...shown.events] }));
  };
  useEffect(() => {
    // The first page, and newer events if the end was reached before.
    if (shown.events.length < PAGE || shown.next === revision) more();
  }, [stretch, revision]);
  return {
    all: shown.events,
    hasMore,
    more,
    earlier: shown.from > 1 && shown.events.length > 0 ? earlier : null,
    problem,
  };
}

/** An empty range that begins half a page before the wanted event. */
function emptyAt(key: string, wanted: number | null): Stretch {
  const from = wanted === null || wanted < PAGE ? 1 : wanted - PAGE / 2;
  return { key, from, next: from, events: [] };
}

/** Whether the range contains the event, or will after its first page. */
function reaches({ from, next }: Stretch, wanted: number): boolean {
  return wanted >= from && wanted < Math.max(next, from + PAGE);
}
