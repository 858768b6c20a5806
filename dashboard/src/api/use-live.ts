/**
 * The data of a page: loaded at first, reloaded at intervals while the page is visible, and kept while a newer answer is
 * loading. Data that does not change is loaded more and more rarely, until it changes or the user does something.
 */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Bell } from "../core/bell.ts";
import { Cell } from "../core/cell.ts";
import { lostSince } from "../core/connection.ts";
import { untilVisible } from "../core/visible.ts";
import { Problem } from "./client.ts";

const BACK_OFF_MS_MAX = 30_000;
/** The pause before a failed load is repeated, for data that is loaded only once. */
const ONCE_AGAIN_MS = 2_000;
/** The longest interval for data that does not change, and the factor by which the interval grows. */
const QUIET_MS_MAX = 10_000;
const QUIET_GROWTH = 1.5;

/** The state of live data. Old data stays while new data is loading or fails to load. */
export interface Live<T> {
  readonly data: T | null;
  readonly problem: Problem | null;
  /** Reloads the data at once. */
  readonly reload: () => void;
}

/** When data is loaded again. */
export interface Timing {
  /** The interval; null: only when `follows` changes. */
  readonly everyMs?: number | null;
  /** Data that this data follows: if it is another object, this data is loaded again. */
  readonly follows?: unknown;
  /** The shortest time between two loads that changes of `follows` cause. */
  readonly gapMs?: number;
}

/** Problems of data that is shown although it is not up to date; the frame shows the first. */
export const staleness = new Cell<readonly Problem[]>([]);

interface Loop {
  readonly bell: Bell;
  quiet: number;
}

const loops = new Set<Loop>();

/** Loads all data of the page again: after a change, or after the connection is back. */
export function reloadAll(): void {
  for (const loop of loops) {
    loop.quiet = 0;
    loop.bell.ring();
  }
}

/** Loads data again that is loaded rarely because it did not change: the user has done something. */
export function noteActivity(): void {
  for (const loop of loops)
    if (loop.quiet > 2) {
      loop.quiet = 0;
      loop.bell.ring();
    }
}

lostSince.watch(() => {
  if (lostSince.value === null) reloadAll();
});

/**
 * Loads data with `load` whenever `key` changes (null: loads nothing), and then as the timing says. A changed interval counts
 * from the next load on.
 */
export function useLive<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  timing: number | null | Timing = null,
): Live<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; problem: Problem | null }>({
    key,
    data: null,
    problem: null,
  });
  const {
    everyMs = null,
    follows,
    gapMs = 0,
  } = typeof timing === "object" && timing !== null ? timing : { everyMs: timing };
  const latest = useRef({ load, everyMs, gapMs });
  latest.current = { load, everyMs, gapMs };
  const loop = useRef<Loop>({ bell: new Bell(), quiet: 0 });
  const isRepeated = everyMs !== null || follows !== undefined;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    const own: Loop = { bell: new Bell(), quiet: 0 };
    loop.current = own;
    loops.add(own);
    void keepLoading(abort.signal, {
      loop: own,
      timing: () => (isRepeated ? latest.current : null),
      load: (signal) => latest.current.load(signal),
      take: (data) => setState({ key, data, problem: null }),
      confirm: () => setState((before) => (before.problem === null ? before : { ...before, problem: null })),
      refuse: (problem) =>
        setState((before) => ({ key, data: before.key === key ? before.data : null, problem })),
    });
    return () => {
      loops.delete(own);
      abort.abort();
    };
  }, [key, isRepeated]);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) loop.current.bell.ring();
    isFirst.current = false;
  }, [follows]);
  const reload = useCallback(() => {
    loop.current.quiet = 0;
    loop.current.bell.ring();
  }, []);
  const isCurrent = state.key === key;
  const shown = isCurrent ? state : { data: null, problem: null };
  useStaleness(shown.data === null ? null : shown.problem);
  return { data: shown.data, problem: shown.problem, reload };
}

function useStaleness(problem: Problem | null): void {
  useEffect(() => {
    if (problem === null) return;
    staleness.set([...staleness.value, problem]);
    return () => staleness.set(staleness.value.filter((one) => one !== problem));
  }, [problem]);
}

/**
 * Loads data until the signal is aborted. After a temporary refusal it repeats the load, at growing intervals; while the node
 * does not answer at all, it waits until it does. Data that does not exist yet may appear later if it is polled anyway. A user
 * whose session has ended is asked for a token.
 */
async function keepLoading<T>(
  signal: AbortSignal,
  parts: {
    loop: Loop;
    /** The interval and the shortest gap; null: the data is loaded once. */
    timing: () => { everyMs: number | null; gapMs: number } | null;
    load: (signal: AbortSignal) => Promise<T>;
    take: (data: T) => void;
    /** Called if the data has not changed. */
    confirm: () => void;
    refuse: (problem: Problem) => void;
  },
): Promise<void> {
  const { loop } = parts;
  let failures = 0;
  let last: string | null = null;
  while (!signal.aborted) {
    let waitMs = 0;
    const startedAt = Date.now();
    try {
      const data = await parts.load(signal);
      if (signal.aborted) return;
      const text = JSON.stringify(data);
      loop.quiet = text === last && !isBinary(data) ? loop.quiet + 1 : 0;
      if (loop.quiet > 0) parts.confirm();
      else parts.take(data);
      last = text;
      failures = 0;
    } catch (thrown) {
      if (signal.aborted) return;
      const problem = asProblem(thrown);
      parts.refuse(problem);
      const { everyMs } = parts.timing() ?? { everyMs: null };
      if (!problem.mayPass && (problem.status !== 404 || everyMs === null)) return;
      failures++;
      waitMs = problem.waitMs;
    }
    const timing = parts.timing();
    const everyMs = timing?.everyMs ?? null;
    const rest =
      failures === 0
        ? everyMs === null
          ? Number.POSITIVE_INFINITY
          : Math.min(everyMs * QUIET_GROWTH ** loop.quiet, Math.max(QUIET_MS_MAX, everyMs))
        : Math.min((everyMs ?? ONCE_AGAIN_MS) * 2 ** failures, BACK_OFF_MS_MAX);
    await loop.bell.wait(Math.max(waitMs, rest), signal);
    await untilAnswered(signal);
    const tooSoonMs = (timing?.gapMs ?? 0) - (Date.now() - startedAt);
    if (tooSoonMs > 0) await new Bell().wait(tooSoonMs, signal);
    await untilVisible(signal);
  }
}

/** Resolves once the node answers again, or when the signal is aborted. */
async function untilAnswered(signal: AbortSignal): Promise<void> {
  while (lostSince.value !== null && !signal.aborted) {
    const bell = new Bell();
    const unwatch = lostSince.watch(() => bell.ring());
    await bell.wait(Number.POSITIVE_INFINITY, signal);
    unwatch();
  }
}

/** Whether the data cannot be compared as JSON text. */
function isBinary(data: unknown): boolean {
  return (
    typeof data === "object" &&
    data !== null &&
    Object.values(data).some((value) => value instanceof Uint8Array)
  );
}

/** Converts any thrown value into a `Problem` that can be shown. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new Problem({
    status: 0,
    code: "page_failed",
    detail,
    hint: "Reload the page. If the error stays, report it as a bug of the dashboard.",
  });
}
