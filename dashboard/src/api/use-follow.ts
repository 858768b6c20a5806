import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, type Choices } from "../core/address.ts";
import type { Problem } from "./client.ts";
import { follow } from "./stream.ts";
import { asProblem } from "./use-live.ts";

/** What is followed: a path with its query. */
interface Followed {
  readonly path: string;
  readonly query?: Choices;
  /** Whether the execution has ended: the stream then ends. Before, it goes on after any end, because a retry may add items. */
  readonly isOver: boolean;
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
    const { path, query, isOver } = followed;
    const abort = new AbortController();
    if (last.current.key !== key) last.current = { key, id: "" };
    setProblem(null);
    follow(
      {
        path,
        query: { ...query, follow: isOver ? null : true },
        after: last.current.id,
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
  }, [key, followed?.isOver]);
  return { isOpen, problem };
}
