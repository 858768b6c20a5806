import { useRef } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { Page, Progress, Summary } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";

const EVERY_MS = 4_000;
const ENDED: readonly string[] = ["done", "failed", "cancelled"];
const KEPT_MAX = 2_000;

/** Loads the progress of the visible executions. The progress of an ended execution is loaded once. */
export function useProgress(
  seen: readonly Summary[],
  everyMs: number = EVERY_MS,
): ReadonlyMap<string, Progress> {
  const known = useRef(new Map<string, Progress>());
  const isSettled = ({ id, status }: Summary): boolean => {
    const progress = known.current.get(id);
    return progress !== undefined && progress.status === status && ENDED.includes(status);
  };
  const wanted = seen.filter((row) => !isSettled(row)).map(({ id }) => id);
  const key = wanted.length === 0 ? null : wanted.join(",");
  useLive(
    key,
    async (signal) => {
      const all: Progress[] = [];
      for (let from = 0; from < wanted.length; from += 50) {
        const ids = wanted
          .slice(from, from + 50)
          .map((id) => encodeURIComponent(id))
          .join(",");
        const { data } = await get<Page<Progress>>("/v1/progress", { query: { ids }, signal });
        all.push(...data);
        for (const progress of data) {
          known.current.delete(progress.id);
          known.current.set(progress.id, progress);
        }
      }
      for (const id of known.current.keys()) {
        if (known.current.size <= KEPT_MAX) break;
        known.current.delete(id);
      }
      return all;
    },
    everyMs,
  );
  return known.current;
}
