/** The list's rows: the newest page again and again, older ones as they are scrolled to. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import type { Page, Summary } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import type { ListFilter } from "./filters.tsx";

const PAGE = 100;
const EVERY_MS = 2_000;

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
  /** Where the next page begins; undefined: nothing older was asked for yet. */
  readonly next: string | null | undefined;
}

/** Executions that fit a filter. */
export function useExecutions(filter: ListFilter): ExecutionList {
  const key = JSON.stringify(filter);
  const read = (cursor: string | null, signal?: AbortSignal): Promise<Page<Summary>> =>
    get<Page<Summary>>("/v1/executions", {
      query: { ...filter, limit: PAGE, cursor },
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
            // What slid out of the newest page meanwhile is between the two.
            rows: [...(before.key === key ? before.rows : []), ...(newest.data?.data ?? []), ...page.data],
            next: page.next,
          })),
        (thrown: unknown) => setProblem(asProblem(thrown)),
      )
      .finally(() => {
        isReading.current = false;
      });
  }, [key, next, newest.data]);
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

/** Newer rows stand for older ones of the same id. */
function merge(newer: readonly Summary[], older: readonly Summary[]): readonly Summary[] {
  const seen = new Set<string>();
  return [...newer, ...older].filter(({ id }) => !seen.has(id) && seen.add(id));
}
