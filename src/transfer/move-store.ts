/** The two halves of a move: a store that nothing works on becomes sealed bytes, and lines become a store. */
import type { Clock } from "../std/clock.ts";
import { DOCUMENT_KINDS } from "../store/document-kinds.ts";
import type { Store } from "../store/store.ts";
import { exportLines } from "./export-lines.ts";
import { LineImporter } from "./import-lines.ts";
import type { Line } from "./line.ts";
import { type OwnedStore, openOwned } from "./owned-store.ts";
import { seal } from "./sealed-text.ts";
import { type Moved, Tally } from "./tally.ts";

export interface ExportOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** The version that writes. */
  readonly rondo: string;
  /** Takes the bytes; the next come when it has resolved. */
  readonly write: (chunk: Buffer) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** Writes all of a store. It is left as it was, and its next owner finds what the last one left for it. */
export async function exportStore(options: ExportOptions): Promise<Moved> {
  const { clock, rondo, write, signal } = options;
  const owned = await openOwned(options.store, clock);
  const tally = new Tally();
  try {
    const lines = exportLines(owned, { at: clock.now(), rondo }, (what) => tally.leaveOut(what));
    for await (const chunk of seal(counted(lines, tally, signal))) {
      // Before the end is written: until then nobody can take it for a whole export.
      await owned.confirm();
      await write(chunk);
    }
  } finally {
    await owned.close({ clean: true });
  }
  return tally.moved;
}

export interface ImportOptions {
  /** An empty store; it is closed in the end. */
  readonly owned: OwnedStore;
  readonly lines: AsyncIterable<Line>;
  readonly signal?: AbortSignal;
}

/**
 * Puts lines into a new store. It is closed as one that ended uncleanly: whatever was open when the export was made is
 * in doubt for its next owner.
 */
export async function importStore({ owned, lines, signal }: ImportOptions): Promise<Moved> {
  const tally = new Tally();
  try {
    const importer = new LineImporter(owned);
    for await (const line of counted(lines, tally, signal)) await importer.add(line);
    await importer.finish();
  } finally {
    await owned.close({ clean: false });
  }
  return tally.moved;
}

/** Whether there is nothing in a store. */
export async function isEmpty(store: Store): Promise<boolean> {
  if ((await store.listHeads({}, { before: null, max: 1 })).length > 0) return false;
  if ((await store.listDefinitions({ after: "", max: 1 })).length > 0) return false;
  if ((await store.scanMail({ after: 0, max: 1, partitions: null })).length > 0) return false;
  for (const kind of DOCUMENT_KINDS)
    if ((await store.listDocuments(kind, { max: 1 })).length > 0) return false;
  return true;
}

async function* counted(
  lines: AsyncIterable<Line>,
  tally: Tally,
  signal: AbortSignal | undefined,
): AsyncGenerator<Line> {
  for await (const line of lines) {
    signal?.throwIfAborted();
    tally.add(line);
    yield line;
  }
}
