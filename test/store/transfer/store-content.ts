import { readLeases } from "../../../src/engine/leases/lease-handover.ts";
import { DOCUMENT_KINDS } from "../../../src/store/document-kinds.ts";
import type { Store, StoreInfo } from "../../../src/store/store.ts";
import { openWhole } from "../open-whole.ts";

/** Everything that has to be the same after a move, read by other means than the export reads it. */
export async function contentOf(store: Store): Promise<Record<string, unknown>> {
  const { owned } = await openWhole(store);
  try {
    const heads = [...(await store.listHeads({}, { before: null, max: 10_000 }))].reverse();
    const executions = [];
    for (const { order: _, partition: __, ...head } of heads) {
      const [loaded] = await store.load([head.id]);
      const logs = await store.readLogs({ execution: head.id, after: 0, rowsMax: 10_000 });
      executions.push({
        head,
        journal: await store.readJournal({ execution: head.id, from: 1 }),
        opened: loaded?.opened,
        snapshot: [loaded?.snapshot?.seq, loaded?.snapshot?.body],
        tail: loaded?.entries,
        logs: logs.map(({ order: ___, ...row }) => row),
      });
    }
    const timers = await store.scanTimers({ until: 1e15, max: 10_000, partitions: null });
    const dead = await store.listDeadLetters({}, { before: null, max: 10_000 });
    const letters = await store.scanMail({ after: 0, max: 10_000, partitions: null });
    const documents = await Promise.all(
      DOCUMENT_KINDS.map((kind) => store.listDocuments(kind, { max: 10_000 })),
    );
    const names = await store.listDefinitions({ after: "", max: 10_000 });
    const hashes = [...new Set([...names.map(({ hash }) => hash), ...heads.map(({ hash }) => hash)])];
    return {
      executions,
      timers: timers
        .map(({ execution, timer, due }) => `${execution} ${timer} ${due}`)
        .sort((a, b) => a.localeCompare(b)),
      dead: dead.map(({ order: _, ...row }) => row),
      letters: letters.map(({ order: _, ...letter }) => letter),
      documents: documents.flat().filter(({ id }) => id !== "remote"),
      names,
      definitions: await Promise.all(hashes.map((hash) => store.getDefinition({ hash }))),
    };
  } finally {
    await leave(store, owned);
  }
}

/** Looking is not to change what the next owner finds. */
async function leave(store: Store, owned: StoreInfo["owned"]): Promise<void> {
  const { leases } = await readLeases(store, owned);
  if (leases.length > 0) throw new Error("looking at this store would lose its lease tables");
  await store.close({ clean: true });
}
