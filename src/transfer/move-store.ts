/** Exports a store that no process has open, as bytes with a checksum, and imports such bytes as a new store. */
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
  /** The version of Rondo that writes the export. */
  readonly rondo: string;
  /** Writes bytes. The next bytes are written after the promise has resolved. */
  readonly write: (chunk: Buffer) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** Exports a store. The store is not changed: its next owner finds the data that the last owner left. */
export async function exportStore(options: ExportOptions): Promise<Moved> {
  const { clock, rondo, write, signal } = options;
  const owned = await openOwned(options.store, clock);
  const tally = new Tally();
  try {
    const lines = exportLines(owned, { at: clock.now(), rondo }, (what) => tally.leaveOut(what));
    for await (const chunk of seal(counted(lines, tally, signal))) {
      // The ownership is checked before the end is written. If it was lost, the end is missing, and the export counts as incomplete.
      await owned.confirm();
      await write(chunk);
    }
  } finally {
    await owned.close({ clean: true });
  }
  return tally.moved;
}

export interface ImportOptions {
  /** The empty store to import into. It is closed at the end. */
  readonly owned: OwnedStore;
  readonly lines: AsyncIterable<Line>;
  readonly signal?: AbortSignal;
}

/** Imports lines into a new store. The store is closed as unclean, so that its next owner assumes that open attempts may still run. */
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
