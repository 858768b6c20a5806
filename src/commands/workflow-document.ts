/**
 * An execution's commands as a document: what its definition says of each, how far it is, and the result that its
 * journal has. Any execution with commands can be read so, however it was defined. Pure.
 */
import type { CommandView, OwedView } from "../kernel/command/command-view.ts";
import type { PlannedCommand } from "../kernel/definition/plan.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { OwedDocument, StepDocument, WorkflowDocument } from "../protocol/command-document.ts";
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";

/** One command of an execution. */
export interface ReadCommand {
  readonly planned: PlannedCommand;
  readonly view: CommandView;
  /** What its receipt said, enriched; null: there is no result. */
  readonly result: { readonly value: Json } | null;
}

/** The document; `commands` are all that the execution has, in their order. */
export function workflowDocument(
  execution: ExecutionView,
  commands: readonly ReadCommand[],
): WorkflowDocument {
  return {
    workflow_id: execution.id,
    workflow_hash: commands[0]?.planned.command.workflowHash ?? "",
    steps: commands.map((command) => stepDocument(execution, command)),
  };
}

function stepDocument(execution: ExecutionView, { planned, view, result }: ReadCommand): StepDocument {
  const tasks = tallyOf(execution, view);
  const { retry, timeout } = planned.handler.definition;
  return {
    cmd: { ...planned.command.cmd, cmd_result: result === null ? {} : result.value },
    proc: {
      target_topic_name: view.topic,
      receipt_topic_name: view.receiptTopic,
      ...defined({ retry, timeout }),
      proc_status: view.procStatus,
      proc_err: view.procErr,
      utc_created_timestamp: utc(view.createdAt),
      utc_started_timestamp: view.startedAt === null ? null : utc(view.startedAt),
      utc_receipted_timestamp: view.receiptedAt === null ? null : utc(view.receiptedAt),
      ...(view.owed.length === 0 ? {} : { post_ops: view.owed.map(owedDocument) }),
      ...(tasks === null ? {} : { tasks }),
    },
  };
}

function owedDocument({ op, index, target, attempts, until, error }: OwedView): OwedDocument {
  return { op, index, target, attempts, utc_next_timestamp: until === null ? null : utc(until), error };
}

/** Counts of a command that is sent for each of several tasks; null: it is sent once. */
function tallyOf({ phases }: ExecutionView, view: CommandView): Record<string, number> | null {
  const visit = phases.findLast(({ name }) => name === view.phase);
  const handler = visit?.handlers.find(({ name }) => name === view.handler);
  if (handler === undefined || handler.total === 1) return null;
  const { name: _, sealed: __, ...counts } = handler;
  return counts;
}

function utc(ms: number): string {
  return new Date(ms).toISOString();
}
