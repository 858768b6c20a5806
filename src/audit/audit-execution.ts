/** Audits one execution of a store: the whole journal up to what the node shows, in bounded pieces. */
import { decodeEntry } from "../kernel/journal-entry.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { Store } from "../store/store.ts";
import { type Audit, Auditor } from "./auditor.ts";

const PIECE = { rowsMax: 64, charsMax: 1_048_576 };

/** Reads and counts; nothing is changed. */
export async function auditExecution(store: Pick<Store, "readJournal">, view: ExecutionView): Promise<Audit> {
  const auditor = new Auditor(view.id);
  let next = 1;
  while (next <= view.revision) {
    const entries = await store.readJournal({ execution: view.id, from: next, to: view.revision, ...PIECE });
    if (entries.length === 0) break;
    for (const entry of entries) {
      for (const recorded of decodeEntry(entry)) if (recorded.seq <= view.revision) auditor.take(recorded);
      next = entry.seq + entry.count;
    }
  }
  return auditor.end(view);
}
