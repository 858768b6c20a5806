/** What a simulated node reads from its disk, as the answers it gets. */
import type { Input } from "../../src/engine/io.ts";
import type { ReadOutput } from "../../src/engine/store-reads.ts";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";

interface Sources {
  readonly tables: MemoryTables;
  readonly plans: ReadonlyMap<string, Plan>;
  /** Of the snapshots that the node reads. */
  readonly foldVersion: number;
}

/** The answer, from what is in the tables now. */
export function readFor({ tables, plans, foldVersion }: Sources, output: ReadOutput): Input {
  switch (output.kind) {
    case "load": {
      const loaded = tables.load(output.ids, { foldVersion });
      return {
        kind: "loaded",
        load: output.load,
        loads: output.ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })),
      };
    }
    case "get-definition": {
      const { hash } = output;
      const isThere = tables.getDefinition({ hash }) !== null;
      return { kind: "definition", hash, plan: isThere ? (plans.get(hash) ?? null) : null };
    }
    case "find-workflow": {
      const { workflow } = output;
      const hash = tables.getDefinition({ newestOf: workflow })?.hash ?? "";
      return { kind: "workflow-found", workflow, plan: plans.get(hash) ?? null };
    }
    case "read-page": {
      const { execution, seq } = output;
      const [entry] = tables.readJournal({ execution, from: seq, rowsMax: 1 });
      return { kind: "page-read", execution, seq, entry: entry ?? null };
    }
    case "scan-work":
      return { kind: "work-scanned", heads: tables.scanWork(output), each: output.each };
    case "scan-timers": {
      const { until, max } = output;
      return { kind: "timers-scanned", timers: tables.scanTimers(output), until, max };
    }
    case "scan-mailbox":
      return { kind: "mailbox-scanned", messages: tables.scanMail(output), max: output.max };
  }
}
