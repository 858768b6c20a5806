/** The rows of the list of executions: the newest page is polled, older pages are loaded by scrolling. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import type { Page, Summary } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { type ListFilter, queryOf } from "./filters.tsx";

const PAGE = 100;
const EVERY_MS = 4_000;

export interface ExecutionList {
  readonly rows: readonly Summary[];
  readonly isLoading: boolean;
  readonly problem: Problem | null;
  readonly hasMore: boolean;
  readonly more: () => void;
  readonly reload: () => void;
}

interface Older {
  readonly key: string;
  readonly rows: readonly Summary[];
  /** The cursor of the next page; undefined if no older page was requested yet. */
  readonly next: string | null | undefined;
}

/** Loads executions that match a filter. */
export function useExecutions(filter: ListFilter): ExecutionList {
  const key = JSON.stringify(filter);
  const read = (cursor: string | null, signal?: AbortSignal): Promise<Page<Summary>> =>
    get<Page<Summary>>("/v1/executions", {
      query: { ...queryOf(filter), limit: PAGE, cursor },
      ...(signal === undefined ? {} : { signal }),
    });
  const newest = useLive(key, (signal) => read(null, signal), EVERY_MS);
  const [older, setOlder] = useState<Older>({ key, rows: [], next: undefined });
  const [problem, setProblem] = useState<Problem | null>(null);
  const isReading = useRef(false);
  useEffect(() => setOlder({ key, rows: [], next: undefined }), [key]);
  const isCurrent = older.key === key;
  const next = isCurrent && older.next !== undefined ? older.next : (newest.data?.next ?? null);
  const more = useCallback(() => {
    if (isReading.current || next === null) return;
    isReading.current = true;
    read(next)
      .then(
        (page) =>
          setOlder((before) => ({
            key,
            // Rows that left the newest page meanwhile belong between the newest page and the older ones.
            rows: [...(before.key === key ? before.rows : []), ...(newest.data?.data ?? []), ...page.data],
            next: page.next,
          })),
        (thrown: unknown) => setProblem(asProblem(thrown)),
      )
      .finally(() => {
        isReading.current = false;
      });
  }, [key, next, newest.data]);
  // A page can be short, or even empty, and not be the last.
  const isShort = newest.data !== null && newest.data.data.length === 0 && older.rows.length === 0;
  useEffect(() => {
    if (isShort) more();
  }, [isShort, next]);
  const rows = useMemo(
    () => merge(newest.data?.data ?? [], isCurrent ? older.rows : []),
    [newest.data, older, isCurrent],
  );
  return {
    rows,
    isLoading: newest.data === null && newest.problem === null,
    problem: newest.problem ?? problem,
    hasMore: next !== null,
    more,
    reload: newest.reload,
  };
}

/** Merges rows; a newer row replaces an older one with the same id. */
function merge(newer: readonly Summary[], older: readonly Summary[]): readonly Summary[] {
  const seen = new Set<string>();
  return [...newer, ...older].filter(({ id }) => !seen.has(id) && seen.add(id));
}
