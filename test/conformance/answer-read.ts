/** What a node asks of the store, answered from tables in memory. */
import type { Input, Output } from "../../src/engine/io.ts";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";

/** The answer to a read, or to a purge; null: the output waits for none. Plans are known by their hash. */
export function answerRead(
  tables: MemoryTables,
  plans: ReadonlyMap<string, Plan>,
  output: Output,
): Input | null {
  switch (output.kind) {
    case "load": {
      const loaded = tables.load(output.ids);
      return {
        kind: "loaded",
        load: output.load,
        loads: output.ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })),
      };
    }
    case "get-definition":
      return { kind: "definition", hash: output.hash, plan: plans.get(output.hash) ?? null };
    case "find-workflow": {
      const { workflow } = output;
      const hash = tables.getDefinition({ newestOf: workflow })?.hash ?? "";
      return { kind: "workflow-found", workflow, plan: plans.get(hash) ?? null };
    }
    case "read-page": {
      const { execution, seq } = output;
      const [entry] = tables.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
      return { kind: "page-read", execution, seq, entry: entry ?? null };
    }
    case "scan-work":
      return { kind: "work-scanned", heads: tables.scanWork(output), each: output.each };
    case "scan-timers": {
      const { until, max } = output;
      return { kind: "timers-scanned", timers: tables.scanTimers(output), until, max };
    }
    case "purge":
      return { kind: "purged", ids: output.ids };
    case "scan-mailbox":
      return { kind: "mailbox-scanned", messages: tables.scanMail(output), max: output.max };
    default:
      return null;
  }
}
