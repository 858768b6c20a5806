/** What a node asks of the store, as reads: each output becomes one call, whose answer is the input that it waits for. */
import { parseStored } from "../kernel/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/plan.ts";
import { FOLD_VERSION } from "../kernel/snapshot.ts";
import { assert } from "../std/assert.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { Input, Output } from "./io.ts";

type ReadKind =
  | "load"
  | "get-definition"
  | "find-workflow"
  | "read-page"
  | "scan-work"
  | "scan-timers"
  | "scan-letters";

/** An output that is answered by reading. */
export type ReadOutput = Extract<Output, { kind: ReadKind }>;

/** The answer to a read. */
export async function readFor(store: Store, output: ReadOutput): Promise<Input> {
  switch (output.kind) {
    case "load": {
      const loaded = await store.load(output.ids, { foldVersion: FOLD_VERSION });
      return {
        kind: "loaded",
        load: output.load,
        loads: output.ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })),
      };
    }
    case "get-definition": {
      const { hash } = output;
      const plan = toPlan(await store.getDefinition({ hash }));
      assert(plan === null || plan.hash === hash, "a stored definition has the hash it is stored under");
      return { kind: "definition", hash, plan };
    }
    case "find-workflow": {
      const { workflow } = output;
      return {
        kind: "workflow-found",
        workflow,
        plan: toPlan(await store.getDefinition({ newestOf: workflow })),
      };
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
    case "scan-letters": {
      const { after, max } = output;
      return {
        kind: "letters-scanned",
        letters: await store.scanLetters({ after, max, partitions: output.partitions }),
        max,
      };
    }
  }
}

/** The plan of a stored definition; null: there is none, or this version cannot read it. */
function toPlan(found: { readonly body: string } | null): Plan | null {
  if (found === null) return null;
  const definition = parseStored(JSON.parse(found.body));
  return isRejection(definition) ? null : compilePlan(definition);
}
