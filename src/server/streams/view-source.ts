/**
 * The views of an execution as server-sent events: the newest one, then one after each change. The id of an event is the revision of
 * its view. Views in between are left out if changes come fast. `input` never changes, so only the first view of a client has it.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import { hasEnded } from "../../kernel/view.ts";
import { isRejection, RondoError } from "../../std/rejection.ts";
import type { EndedViews } from "../services/ended-views.ts";
import type { FeedSource, SourcePiece } from "./feed.ts";
import { isOver } from "./is-over.ts";

/** The views of an execution as the source of a feed; positions are revisions. */
export function viewSource(
  { engine, views }: { readonly engine: EnginePort; readonly views: EndedViews },
  execution: string,
): FeedSource {
  return {
    isTransient: true,
    async read(from): Promise<SourcePiece> {
      const found = await views.inspect(execution);
      if (isRejection(found) && found.code !== "not_found") throw new RondoError(found);
      // A purged execution has no view, so the stream ends.
      if (isRejection(found)) return { bytes: Buffer.alloc(0), next: from, isLast: true, endsAt: 0 };
      const { input, ...rest } = found.view;
      const { revision } = rest;
      const isNew = revision > Number(from) || rest.status === "damaged";
      const shown = from === "0" ? { ...rest, input } : rest;
      const bytes = Buffer.from(isNew ? `id: ${revision}\ndata: ${JSON.stringify(shown)}\n\n` : "");
      const endsAt = hasEnded(rest) ? bytes.length : null;
      return { bytes, next: String(Math.max(revision, Number(from))), isLast: true, endsAt };
    },
    isOver: () => isOver(engine, execution),
    watch: (notify) =>
      engine.watch(execution, (_, end) =>
        notify(end === null ? "more" : end === "stopped" ? "stopped" : "end"),
      ),
  };
}
