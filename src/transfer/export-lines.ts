/** Writes a whole store as lines. The exporting process owns the store during the export, so all reads show the same state. */
import { readLeases, storeLeases } from "../engine/leases/lease-handover.ts";
import { type Entry, TRIMMED } from "../kernel/journal/journal-entry.ts";
import { GATE_PREFIX } from "../kernel/relay/relay.ts";
import { assert } from "../std/assert.ts";
import { DOCUMENT_KINDS } from "../store/document-kinds.ts";
import { REMOTE_MARK, remoteEpoch } from "../store/remote-epoch.ts";
import {
  currentHash,
  type LoadedExecution,
  type Ownership,
  type Store,
  type StoredHead,
  type StoredLogRow,
} from "../store/store.ts";
import { FORMAT, type Line } from "./line.ts";
import type { OwnedStore } from "./owned-store.ts";

/** The most rows in one line (lines of executions have one), and the most characters of a journal in one line. */
const ROWS = 500;
const CHARS = 1_048_576;
const LOG_ROWS = 100;
/** The most executions that are loaded at the same time. */
const LOADED_MAX = 16;
/**
 * The most hashes of exported definitions that are kept in memory. If a hash was dropped, its definition may be exported twice, which
 * does no harm.
 */
const HASHES_MAX = 10_000;

/** Yields all lines except the end. `at` is the present time, `rondo` the version that writes the export. */
export async function* exportLines(
  { store, info }: OwnedStore,
  stamp: { readonly at: number; readonly rondo: string },
  leaveOut: (what: string) => void = () => {},
): AsyncGenerator<Line> {
  const remote = await passOn(store, info.owned);
  yield { kind: "header", format: FORMAT, ...stamp, remote };
  yield* documents(store, leaveOut);
  yield* executions(store);
  // The newest definition of a name is written last, because the import takes the last one as the newest.
  yield* newestDefinitions(store);
  yield* deadLetters(store);
  for (const { partition } of info.owned) yield* timers(store, partition);
  yield* mail(store);
}

/**
 * Stores the lease tables of the last owner again, for the next owner of this store. Returns whether attempts of remote workers may still
 * run.
 */
async function passOn(store: Store, owned: readonly Ownership[]): Promise<boolean> {
  const uncleanEpoch = Math.max(0, ...owned.map((own) => own.uncleanEpoch));
  let remote = uncleanEpoch > 0 && (await remoteEpoch(store)) >= uncleanEpoch;
  for (const own of owned) {
    const left = await readLeases(store, [own]);
    const { leases, declared } = left;
    const home = left.quotas.get(own.partition);
    if (leases.length === 0 && home === undefined) continue;
    if (leases.length > 0) remote = true;
    const table = { epoch: own.epoch, leases, declared, ...(home === undefined ? {} : { home }) };
    await storeLeases(store, own.partition, table);
  }
  return remote;
}

async function* documents(store: Store, leaveOut: (what: string) => void): AsyncGenerator<Line> {
  for (const of of DOCUMENT_KINDS)
    for (let after = ""; ; ) {
      const page = await store.listDocuments(of, { after, max: ROWS });
      for (const { id, body, damage } of page)
        if (damage !== undefined) leaveOut(`${of} ${id}`);
        else if (of !== REMOTE_MARK.of || id !== REMOTE_MARK.id) yield { kind: "document", of, id, body };
      const last = page.at(-1);
      if (last === undefined) break;
      after = last.id;
    }
}

async function* executions(store: Store): AsyncGenerator<Line> {
  const hashes = new Set<string>();
  let atOnce = 1;
  for await (const heads of oldestFirst((before, max) => store.listHeads({}, { before, max })))
    for (let from = 0; from < heads.length; ) {
      const some = heads.slice(from, from + atOnce);
      from += some.length;
      const [loaded, logs] = await Promise.all([
        store.load(some.map(({ id }) => id)),
        Promise.all(some.map(({ id }) => readLogs(store, id, 0))),
      ]);
      for (const [i, head] of some.entries()) {
        for (const hash of new Set([head.hash, currentHash(head)])) {
          if (!hashes.has(hash)) yield* definition(store, { hash, workflow: head.workflow });
          if (hashes.size >= HASHES_MAX) hashes.clear();
          hashes.add(hash);
        }
        const one = loaded[i] ?? null;
        assert(one !== null, "an execution that is listed must be in the store");
        yield* execution(store, head, one);
        yield* logsFrom(store, head.id, logs[i] ?? []);
      }
      const isSmall = loaded.reduce((sum, one) => sum + sizeOf(one), 0) < CHARS;
      atOnce = isSmall ? Math.min(LOADED_MAX, atOnce * 2) : 1;
    }
}

async function* definition(
  store: Store,
  { hash, workflow }: Pick<StoredHead, "hash" | "workflow">,
): AsyncGenerator<Line> {
  const found = await store.getDefinition({ hash });
  if (found !== null) yield { kind: "definition", name: workflow, hash, body: found.body };
}

async function* newestDefinitions(store: Store): AsyncGenerator<Line> {
  for (let after = ""; ; ) {
    const page = await store.listDefinitions({ after, max: ROWS });
    for (const { name, hash } of page) {
      const found = await store.getDefinition({ hash });
      if (found !== null) yield { kind: "definition", name, hash, body: found.body };
    }
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.name;
  }
}

async function* execution(
  store: Store,
  { order: _order, partition: _partition, ...head }: StoredHead,
  { opened, snapshot, entries }: LoadedExecution,
): AsyncGenerator<Line> {
  yield { kind: "execution", head, opened };
  const journal = new Contiguous(head.id.startsWith(GATE_PREFIX) ? TRIMMED : MISSING);
  if (snapshot !== null) {
    for (let from = 1; from <= snapshot.seq; ) {
      const rows = await store.readJournal({
        execution: head.id,
        from,
        to: snapshot.seq,
        rowsMax: ROWS,
        charsMax: CHARS,
      });
      const last = rows.at(-1);
      const entries = journal.take(rows);
      if (entries.length > 0) yield { kind: "journal", entries };
      from = last === undefined ? snapshot.seq + 1 : Math.max(from + 1, last.seq + last.count);
    }
    const rest = journal.fill(snapshot.seq);
    if (rest.length > 0) yield { kind: "journal", entries: rest };
    yield { kind: "snapshot", foldVersion: snapshot.foldVersion, body: snapshot.body };
  }
  for (const page of pages(journal.take(entries))) yield { kind: "journal", entries: page };
  if (journal.end === 0) yield { kind: "journal", entries: journal.fill(1) };
}

/** The body that replaces missing rows. It cannot be parsed, so the imported execution is damaged too. */
const MISSING = "(missing)";

/** Yields the rows of a journal without gaps, as an import needs them. Rows that are damaged or missing are replaced. */
class Contiguous {
  /** The number of the last event in the rows so far. */
  end = 0;
  /** The body of the row that replaces rows missing at the beginning. */
  readonly #atBeginning: string;

  constructor(atBeginning: string) {
    this.#atBeginning = atBeginning;
  }

  take(rows: readonly Entry[]): Entry[] {
    return rows.flatMap(({ seq, count, at, body }) => {
      if (seq <= this.end || count < 1) return [];
      const missing = this.fill(seq - 1);
      this.end = seq + count - 1;
      return [...missing, { seq, count, at, body }];
    });
  }

  fill(to: number): Entry[] {
    if (to <= this.end) return [];
    const body = this.end === 0 ? this.#atBeginning : MISSING;
    const missing = { seq: this.end + 1, count: to - this.end, at: 0, body };
    this.end = to;
    return [missing];
  }
}

function* pages(entries: readonly Entry[]): Generator<Entry[]> {
  let page: Entry[] = [];
  let chars = 0;
  for (const entry of entries) {
    if (page.length >= ROWS || (page.length > 0 && chars + entry.body.length > CHARS)) {
      yield page;
      page = [];
      chars = 0;
    }
    page.push(entry);
    chars += entry.body.length;
  }
  if (page.length > 0) yield page;
}

function readLogs(store: Store, id: string, after: number): Promise<readonly StoredLogRow[]> {
  return store.readLogs({ execution: id, after, rowsMax: LOG_ROWS });
}

async function* logsFrom(store: Store, id: string, first: readonly StoredLogRow[]): AsyncGenerator<Line> {
  for (let page = first; page.length > 0; ) {
    yield {
      kind: "logs",
      rows: page.map(({ order: _, lines, ...row }) => ({ ...row, lines: [...lines] })),
    };
    if (page.length < LOG_ROWS) return;
    page = await readLogs(store, id, page.at(-1)?.order ?? 0);
  }
}

async function* deadLetters(store: Store): AsyncGenerator<Line> {
  for await (const page of oldestFirst((before, max) => store.listDeadLetters({}, { before, max })))
    yield {
      kind: "dead-letters",
      rows: page.map(({ execution: id, seq, tasks }) => ({ execution: id, seq, tasks: [...tasks] })),
    };
}

/** All timers of a partition are read at once, because the store's port has no cursor for timers. */
async function* timers(store: Store, partition: number): AsyncGenerator<Line> {
  const all = await store.scanTimers({
    until: Number.MAX_SAFE_INTEGER,
    max: Number.MAX_SAFE_INTEGER,
    partitions: [partition],
  });
  for (let from = 0; from < all.length; from += ROWS)
    yield { kind: "timers", rows: all.slice(from, from + ROWS) };
}

async function* mail(store: Store): AsyncGenerator<Line> {
  for (let after = 0; ; ) {
    const page = await store.scanMail({ after, max: ROWS, partitions: null });
    const last = page.at(-1);
    if (last === undefined) return;
    yield { kind: "letters", rows: page.map(({ id, to, body }) => ({ id, to, body })) };
    after = last.order;
  }
}

function sizeOf(loaded: LoadedExecution | null): number {
  if (loaded === null) return 0;
  return loaded.entries.reduce((sum, { body }) => sum + body.length, loaded.snapshot?.body.length ?? 0);
}

/** Reads a page of rows whose order is below `before`, newest first. */
type ListNewest<Row> = (before: number | null, max: number) => Promise<readonly Row[]>;

const PAGE = 1_000;

/**
 * Yields the rows of a newest-first list with the oldest first. It reads the list twice: the first time it keeps only the position of
 * each page.
 */
async function* oldestFirst<Row extends { readonly order: number }>(
  list: ListNewest<Row>,
): AsyncGenerator<readonly Row[]> {
  const places: (number | null)[] = [];
  for (let before: number | null = null; ; ) {
    const last: Row | undefined = (await list(before, PAGE)).at(-1);
    if (last === undefined) break;
    places.push(before);
    before = last.order;
  }
  for (const before of places.toReversed()) yield (await list(before, PAGE)).toReversed();
}
