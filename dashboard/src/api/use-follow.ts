import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, type Choices } from "../core/address.ts";
import type { Problem } from "./client.ts";
import { follow } from "./stream.ts";
import { asProblem } from "./use-live.ts";

/** What is followed: a path with its query. */
interface Followed {
  readonly path: string;
  readonly query?: Choices;
  /**
   * When the execution ended; null if it has not. The stream of an ended execution ends; before, it goes on after any end. An
   * execution that was retried ends at another time, so it is followed again even if the page has not seen it run.
   */
  readonly endedAt: number | null;
}

/**
 * Follows a stream of JSON items of an execution while the component is shown. `null` pauses; the same path and query go on
 * after their last item.
 */
export function useFollow<T>(
  followed: Followed | null,
  take: (items: readonly T[]) => void,
): { readonly isOpen: boolean; readonly problem: Problem | null } {
  const [isOpen, setIsOpen] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const key = followed === null ? null : addressOf(followed.path, followed.query);
  const last = useRef({ key: "", id: "" });
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    if (followed === null || key === null) return;
    const { path, query, endedAt } = followed;
    const abort = new AbortController();
    if (last.current.key !== key) last.current = { key, id: "" };
    setProblem(null);
    follow(
      {
        path,
        query: { ...query, follow: endedAt === null ? true : null },
        after: last.current.id,
        isEndless: endedAt === null,
        take: (events) => {
          if (abort.signal.aborted) return;
          last.current = { key, id: events.at(-1)?.id ?? "" };
          latest.current(events.map(({ data }) => JSON.parse(data) as T));
        },
        isOpen: (now) => {
          if (!abort.signal.aborted) setIsOpen(now);
        },
      },
      abort.signal,
    ).catch((thrown: unknown) => {
      if (!abort.signal.aborted) setProblem(asProblem(thrown));
    });
    return () => {
      abort.abort();
      setIsOpen(false);
    };
  }, [key, followed?.endedAt]);
  return { isOpen, problem };
}
