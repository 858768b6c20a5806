/** Runs the auditor on a journal. The auditor's rules share no code with the kernel or with the models of the simulator. */
import { Auditor } from "../../../src/audit/auditor.ts";
import { Execution } from "../../../src/kernel/execution.ts";
import { decodeEntry } from "../../../src/kernel/journal/journal-entry.ts";
import { replay } from "../../../src/kernel/journal/replay.ts";
import { viewExecution } from "../../../src/kernel/view.ts";
import type { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { must } from "../trace.ts";
import type { Model } from "./model.ts";

/** The auditor must find no fault in the journal, nor in the views of it. */
export function checkAudit(tables: MemoryTables, { id, created: plan }: Model): void {
  const rows = tables.readJournal({ execution: id, from: 1 });
  const auditor = new Auditor(id);
  auditor.addDefinition(JSON.stringify(plan.definition));
  for (const row of rows) for (const recorded of decodeEntry(row)) auditor.apply(recorded);
  const execution = replay(new Execution(id, plan), rows);
  const [finding] = auditor.end(viewExecution(execution, execution.now)).findings;
  must(
    finding === undefined,
    `${id}: the auditor finds ${finding?.code} at ${finding?.seq}: ${finding?.message}`,
  );
}
