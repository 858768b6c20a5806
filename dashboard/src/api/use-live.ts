/**
 * The data of a page: loaded at first, reloaded at intervals while the page is visible, and kept while a newer answer is
 * loading.
 */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { pause, untilVisible } from "../core/visible.ts";
import { Problem } from "./client.ts";

const BACK_OFF_MS_MAX = 30_000;
/** The pause before a failed load is repeated, for data that is loaded only once. */
const ONCE_AGAIN_MS = 2_000;

/** The state of live data. Old data stays while new data is loading or fails to load. */
export interface Live<T> {
  readonly data: T | null;
  readonly problem: Problem | null;
  /** Reloads the data at once. */
  readonly reload: () => void;
}

/**
 * Loads data with `load` whenever `key` changes (null: loads nothing), and then every `everyMs` (null: once). A changed
 * `everyMs` counts from the next load on.
 */
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
  const latest = useRef({ load, everyMs });
  latest.current = { load, everyMs };
  const [turn, setTurn] = useState(0);
  const isRepeated = everyMs !== null;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    void keepLoading(abort.signal, {
      everyMs: () => latest.current.everyMs,
      load: (signal) => latest.current.load(signal),
      take: (data) => setState({ key, data, problem: null }),
      refuse: (problem) =>
        setState((before) => ({ key, data: before.key === key ? before.data : null, problem })),
    });
    return () => abort.abort();
  }, [key, isRepeated, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const isCurrent = state.key === key;
  return { data: isCurrent ? state.data : null, problem: isCurrent ? state.problem : null, reload };
}

/**
 * Loads data until the signal is aborted. After a temporary refusal it repeats the load, at growing intervals. Data that does
 * not exist yet may appear later if it is polled anyway. A user whose session has ended is asked for a token.
 */
async function keepLoading<T>(
  signal: AbortSignal,
  parts: {
    everyMs: () => number | null;
    load: (signal: AbortSignal) => Promise<T>;
    take: (data: T) => void;
    refuse: (problem: Problem) => void;
  },
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    let waitMs = 0;
    try {
      const data = await parts.load(signal);
      if (signal.aborted) return;
      parts.take(data);
      failures = 0;
    } catch (thrown) {
      if (signal.aborted) return;
      const problem = asProblem(thrown);
      parts.refuse(problem);
      if (!problem.mayPass && (problem.status !== 404 || parts.everyMs() === null)) return;
      failures++;
      waitMs = problem.waitMs;
    }
    const everyMs = parts.everyMs();
    if (failures === 0 && everyMs === null) return;
    const backOffMs = (everyMs ?? ONCE_AGAIN_MS) * 2 ** failures;
    await pause(Math.max(waitMs, Math.min(backOffMs, Math.max(BACK_OFF_MS_MAX, everyMs ?? 0))), signal);
    await untilVisible(signal);
  }
}

/** Converts any thrown value into a `Problem` that can be shown. */
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
