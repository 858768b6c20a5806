/**
 * Replaces damaged executions of a store by those of an export with the same ids. This process must own the store. Nothing else of the
 * store is changed. Each execution is kept in memory as a whole and written by one commit. Before the damaged execution is deleted, a
 * document with its id is stored, which is deleted after the commit. So an import that was interrupted can be repeated.
 */
import { extendChain } from "../engine/commit/journal-chain.ts";
import { readDefinition } from "../kernel/definition/read-definition.ts";
import type { Clock } from "../std/clock.ts";
import { partitionOf } from "../store/partition-of.ts";
import {
  DAMAGED,
  type ExecutionWrite,
  fenceOf,
  type Head,
  type MailboxMessage,
  type Store,
  StoreFault,
} from "../store/store.ts";
import type { Line, LineOf } from "./line.ts";
import { type OwnedStore, openOwned } from "./owned-store.ts";

/** The kind of documents that name the executions whose replacement has begun. */
const BEGUN = "restoring";
const PAGE = 500;

/** The result of `restoreDamaged`: ids of executions. */
export interface Restored {
  readonly restored: readonly string[];
  /** Damaged executions that are not in the export, or are damaged in it too. They are not changed. */
  readonly stillDamaged: readonly string[];
}

/** The parts of one execution in an export. */
interface Replacement {
  readonly line: LineOf<"execution">;
  readonly entries: LineOf<"journal">["entries"];
  readonly logs: LineOf<"logs">["rows"];
  readonly timers: { readonly timer: string; readonly due: number }[];
  readonly deadLetters: { readonly seq: number; readonly tasks: readonly number[] }[];
}

export interface RestoreDamagedOptions {
  /** The store. No other process may have it open. */
  readonly store: Store;
  readonly clock: Clock;
  readonly lines: AsyncIterable<Line>;
  readonly signal?: AbortSignal;
}

/** Replaces the executions that are damaged in the store and intact in the export. */
export async function restoreDamaged(options: RestoreDamagedOptions): Promise<Restored> {
  const owned = await openOwned(options.store, options.clock);
  const restored: string[] = [];
  try {
    const wanted = await damagedIn(owned.store);
    const found = await collect(owned.store, wanted, options);
    for (const [id, replacement] of found.executions) {
      options.signal?.throwIfAborted();
      if (replacement.line.head.status === DAMAGED) continue;
      await replace(
        owned,
        replacement,
        found.letters.filter(({ to }) => to === id),
      );
      restored.push(id);
    }
    await owned.confirm();
    return { restored, stillDamaged: [...wanted].filter((id) => !restored.includes(id)) };
  } finally {
    await owned.close({ clean: restored.length === 0 });
  }
}

async function damagedIn(store: Store): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (let before: number | null = null; ; ) {
    const heads = await store.listHeads({ status: DAMAGED }, { before, max: PAGE });
    for (const { id } of heads) ids.add(id);
    const last = heads.at(-1);
    if (last === undefined) break;
    before = last.order;
  }
  for (const { id } of await store.listDocuments(BEGUN, { after: "", max: PAGE })) ids.add(id);
  return ids;
}

/** Reads the wanted executions from the export. Definitions that are missing or damaged in the store are stored at once. */
async function collect(
  store: Store,
  wanted: ReadonlySet<string>,
  { lines, signal }: Pick<RestoreDamagedOptions, "lines" | "signal">,
): Promise<{
  readonly executions: ReadonlyMap<string, Replacement>;
  readonly letters: readonly MailboxMessage[];
}> {
  const executions = new Map<string, Replacement>();
  const letters: MailboxMessage[] = [];
  let current: Replacement | undefined;
  for await (const line of lines) {
    signal?.throwIfAborted();
    if (line.kind === "definition") await putIfDamaged(store, line);
    else if (line.kind === "execution") {
      current = wanted.has(line.head.id)
        ? { line, entries: [], logs: [], timers: [], deadLetters: [] }
        : undefined;
      if (current !== undefined) executions.set(line.head.id, current);
    } else if (line.kind === "journal") current?.entries.push(...line.entries);
    else if (line.kind === "logs") current?.logs.push(...line.rows);
    else if (line.kind === "timers")
      for (const { execution, ...timer } of line.rows) executions.get(execution)?.timers.push(timer);
    else if (line.kind === "dead-letters")
      for (const { execution, ...dead } of line.rows) executions.get(execution)?.deadLetters.push(dead);
    else if (line.kind === "letters") letters.push(...line.rows.filter(({ to }) => wanted.has(to)));
  }
  return { executions, letters };
}

/** Stores a definition if the store's copy is missing or damaged. The newest definition of a name remains the newest. */
async function putIfDamaged(store: Store, { name, hash, body }: LineOf<"definition">): Promise<void> {
  const found = await store.getDefinition({ hash });
  if (found !== null && readDefinition(found.body, hash) !== null) return;
  const newest = await store.getDefinition({ newestOf: name });
  await store.putDefinition(name, hash, body);
  if (newest !== null && newest.hash !== hash) await store.putDefinition(name, newest.hash, newest.body);
}

async function replace(
  { store, info }: OwnedStore,
  { line, entries, logs, timers, deadLetters }: Replacement,
  letters: readonly MailboxMessage[],
): Promise<void> {
  const { id } = line.head;
  const head: Head = { ...line.head, partition: partitionOf(id, info.partitions) };
  await store.putDocument(BEGUN, id, "{}");
  await store.dropDamaged(id, null);
  const write: ExecutionWrite = {
    ...{ execution: id, create: true, after: 0, entries, chain: extendChain("", entries), head },
    ...{
      timersSet: timers,
      timersCleared: [],
      opened: line.opened,
      snapshot: null,
      deadLetters,
      mail: letters,
    },
    logs: logs.map((row) => ({ ...row, mayRepeat: false })),
  };
  const verdict = await store.commit({ fence: fenceOf(info), writes: [write] });
  // The execution exists already if an earlier import was interrupted after its commit.
  if (verdict.kind !== "ok" || verdict.fenced.length > 0)
    throw new StoreFault("another process took the store during the import", {
      retryable: false,
      nothingWritten: false,
    });
  await store.putDocument(BEGUN, id, null);
}
