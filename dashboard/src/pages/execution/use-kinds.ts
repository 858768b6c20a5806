import { get, type Problem } from "../../api/client.ts";
import type { JournalEvent, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";

const CALLS_MAX = 20;

/** Loads events of some kinds only, over the whole journal so far. */
export function useKinds(
  path: string,
  kinds: string,
  options: { readonly revision: number; readonly at: number | null },
): { readonly events: readonly JournalEvent[] | null; readonly problem: Problem | null } {
  const until = options.at ?? options.revision;
  const { data, problem } = useLive(`${path} ${kinds} ${until}`, async (signal) => {
    const events: JournalEvent[] = [];
    let cursor: string | null = null;
    for (let calls = 0; calls < CALLS_MAX; calls++) {
      const page: Page<JournalEvent> = await get(`${path}/events`, {
        query: { kinds, limit: 1_000, detail: "full", cursor },
        signal,
      });
      events.push(...page.data.filter(({ seq }) => seq <= until));
      cursor = page.next;
      if (cursor === null) break;
    }
    return events;
  });
  return { events: data, problem };
}
