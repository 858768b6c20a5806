/**
 * Shows an execution's commands as a document: each command's definition, progress, and journaled result. Any execution with commands can
 * be read as a document, however it was defined. This file does no I/O.
 */
import type { CommandView, OwedView } from "../kernel/command/command-view.ts";
import type { OwnCommand } from "../kernel/command/own-command.ts";
import type { PlannedCommand } from "../kernel/definition/plan.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { OwedDocument, StepDocument, WorkflowDocument } from "../protocol/command-document.ts";
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";

export interface ReadCommand {
  readonly planned: PlannedCommand;
  /** The command in its submitted form. */
  readonly own: OwnCommand;
  readonly view: CommandView;
  /** The result in the receipt of the command, with Rondo's fields added; null if there is no receipt. */
  readonly result: { readonly value: Json } | null;
}

/** Makes the document. `commands` are all commands of the execution, in order. */
export function workflowDocument(
  execution: ExecutionView,
  commands: readonly ReadCommand[],
): WorkflowDocument {
  return {
    workflow_id: execution.id,
    workflow_hash: commands[0]?.own.workflowHash ?? "",
    steps: commands.map((command) => stepDocument(execution, command)),
  };
}

function stepDocument(execution: ExecutionView, { planned, own, view, result }: ReadCommand): StepDocument {
  const tasks = tallyOf(execution, view);
  const { retry, timeout } = planned.handler.definition;
  return {
    cmd: { ...own.cmd, cmd_result: result === null ? {} : result.value },
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

/** Returns the counts of a command that is sent for several tasks; null if the command is sent once. */
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
