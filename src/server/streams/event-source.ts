/** The journal of an execution as server-sent events. The id of an event is its sequence number. */
import type { EnginePort } from "../../engine/engine-port.ts";
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import { type Detail, publicEvent } from "../../kernel/journal/public-event.ts";
import type { ExecutionStore } from "../../store/store.ts";
import type { FeedSource, SourcePiece } from "./feed.ts";
import { isOver } from "./is-over.ts";

/** The number of characters at which a piece of the stream ends; a single event may exceed it. */
const PIECE_CHARS = 262_144;
const ROWS = 32;

/** The events of an execution as the source of a feed; positions are sequence numbers. */
export function eventSource(
  parts: { readonly engine: EnginePort; readonly store: ExecutionStore },
  execution: string,
  detail: Detail,
): FeedSource {
  const { engine, store } = parts;
  return {
    async read(from): Promise<SourcePiece> {
      let next = Number(from);
      let text = "";
      let endsAt: number | null = null;
      const entries = await store.readJournal({
        execution,
        from: next,
        rowsMax: ROWS,
        charsMax: PIECE_CHARS,
      });
      const isAll =
        entries.length < ROWS && entries.reduce((sum, { body }) => sum + body.length, 0) < PIECE_CHARS;
      for (const entry of entries) {
        if (entry.damage !== undefined && text !== "")
          return { bytes: Buffer.from(text), next: String(next), isLast: false, endsAt };
        for (const recorded of decodeEntry(entry)) {
          if (recorded.seq < next) continue;
          if (text.length > PIECE_CHARS)
            return { bytes: Buffer.from(text), next: String(next), isLast: false, endsAt };
          text += `id: ${recorded.seq}\ndata: ${JSON.stringify(publicEvent(execution, recorded, detail))}\n\n`;
          next = recorded.seq + 1;
          if (recorded.event.kind === "finished") endsAt ??= Buffer.byteLength(text);
        }
      }
      return { bytes: Buffer.from(text), next: String(next), isLast: isAll, endsAt };
    },
    isOver: () => isOver(engine, execution),
    watch: (notify) =>
      engine.watch(execution, (_, end) =>
        notify(end === null ? "more" : end === "stopped" ? "stopped" : "end"),
      ),
  };
}
