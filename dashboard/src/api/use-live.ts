/** Data of a page: loaded, loaded again every so often while the page is seen, and kept while a newer answer comes. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { pause, untilVisible } from "../core/visible.ts";
import { Problem } from "./client.ts";

const BACK_OFF_MS_MAX = 30_000;

/** How the data is. Old data stays while new data loads or fails to. */
export interface Live<T> {
  readonly data: T | null;
  readonly problem: Problem | null;
  /** Loads again at once. */
  readonly reload: () => void;
}

/** Loads by `load` whenever `key` changes (null: nothing), and then every `everyMs` (null: once). */
export function useLive<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs: number | null = null,
): Live<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; problem: Problem | null }>({
    key,
    data: null,
    problem: null,
  });
  const loader = useRef(load);
  loader.current = load;
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    void keepLoading(abort.signal, {
      everyMs,
      load: (signal) => loader.current(signal),
      take: (data) => setState({ key, data, problem: null }),
      refuse: (problem) =>
        setState((before) => ({ key, data: before.key === key ? before.data : null, problem })),
    });
    return () => abort.abort();
  }, [key, everyMs, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const isCurrent = state.key === key;
  return { data: isCurrent ? state.data : null, problem: isCurrent ? state.problem : null, reload };
}

async function keepLoading<T>(
  signal: AbortSignal,
  parts: {
    everyMs: number | null;
    load: (signal: AbortSignal) => Promise<T>;
    take: (data: T) => void;
    refuse: (problem: Problem) => void;
  },
): Promise<void> {
  const { everyMs } = parts;
  let waitMs = everyMs ?? 2_000;
  while (!signal.aborted) {
    try {
      const data = await parts.load(signal);
      if (signal.aborted) return;
      parts.take(data);
      if (everyMs === null) return;
      waitMs = everyMs;
    } catch (thrown) {
      if (signal.aborted) return;
      const problem = asProblem(thrown);
      parts.refuse(problem);
      // What is the request's own fault stays so.
      if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return;
      waitMs = Math.min(BACK_OFF_MS_MAX, waitMs * 2);
    }
    await pause(waitMs, signal);
    await untilVisible(signal);
  }
}

/** Whatever was thrown, as something that can be shown. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new Problem({
    status: 0,
    code: "page_failed",
    detail,
    hint: "Load the page again; if it stays, this is a bug.",
  });
}
