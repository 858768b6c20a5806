/** What a node asks of the store, as reads: each output becomes one call, whose answer is the input that it waits for. */

import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import { readDefinition } from "../kernel/definition/read-definition.ts";
import { FOLD_VERSION } from "../kernel/journal/snapshot.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { Input, Output } from "./io.ts";

/** No snapshot is of this version. */
const NO_FOLD = -1;

type ReadKind =
  | "load"
  | "get-definition"
  | "find-workflow"
  | "read-page"
  | "scan-work"
  | "scan-timers"
  | "scan-mailbox";

/** An output that is answered by reading. */
export type ReadOutput = Extract<Output, { kind: ReadKind }>;

/** The answer to a read. */
export async function readFor(store: Store, output: ReadOutput): Promise<Input> {
  switch (output.kind) {
    case "load": {
      const foldVersion = output.whole === true ? NO_FOLD : FOLD_VERSION;
      const loaded = await store.load(output.ids, { foldVersion });
      return {
        kind: "loaded",
        load: output.load,
        loads: output.ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })),
      };
    }
    case "get-definition": {
      const { hash } = output;
      return { kind: "definition", hash, ...definitionOf(await store.getDefinition({ hash }), hash) };
    }
    case "find-workflow": {
      const { workflow } = output;
      const found = await store.getDefinition({ newestOf: workflow });
      const { plan } = definitionOf(found, found?.hash ?? "");
      return { kind: "workflow-found", workflow, plan };
    }
    case "read-page": {
      const { execution, seq } = output;
      const [entry] = await store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
      return { kind: "page-read", execution, seq, entry: entry ?? null };
    }
    case "scan-work": {
      const { after, each } = output;
      return {
        kind: "work-scanned",
        heads: await store.scanWork({ after, each, partitions: output.partitions }),
        each,
      };
    }
    case "scan-timers": {
      const { until, max } = output;
      return {
        kind: "timers-scanned",
        timers: await store.scanTimers({ until, max, partitions: output.partitions }),
        until,
        max,
      };
    }
    case "scan-mailbox": {
      const { after, max } = output;
      return {
        kind: "mailbox-scanned",
        messages: await store.scanMail({ after, max, partitions: output.partitions }),
        max,
      };
    }
  }
}

/** The plan of a stored definition; null: there is none, it is damaged, or this version cannot read it. */
function definitionOf(
  found: { readonly body: string } | null,
  hash: string,
): { readonly plan: Plan | null; readonly damage?: string } {
  if (found === null) return { plan: null, damage: "it is not in the store" };
  const stored = readDefinition(found.body, hash);
  if (stored === null) return { plan: null, damage: "it does not have the hash that it is stored under" };
  return { plan: isRejection(stored) ? null : compilePlan(stored) };
}
