/**
 * Applies events about commands to the state: results of tasks that are not done yet, the parts of results that later commands refer
 * to, and the state of each command.
 */
import { assert } from "../../std/assert.ts";
import type { Json } from "../../std/json.ts";
import type { Rejection } from "../../std/rejection.ts";
import type { CommandReceipted, SettledStatus } from "../event.ts";
import type { CommandState, Execution, HandlerState, Visit } from "../execution.ts";
import { NEVER } from "../tasks/task-table.ts";
import type { CommandPlan } from "./command-plan.ts";
import { oweAfter, receiptOf } from "./owed-op.ts";
import { follow } from "./reference.ts";

/** Applies the start of a command's phase. */
export function commandStarted(execution: Execution, handler: HandlerState, command: CommandPlan): void {
  // A command handler without an enumeration has exactly one task, so no more tasks follow.
  if (handler.impliesTask) handler.sealed = true;
  execution.commands.set(command.step, {
    startedAt: execution.now,
    receiptedAt: null,
    receipt: 0,
    status: null,
    error: null,
  });
}

/** Applies a receipt: keeps the result until its task is done, and adds the post-operations of the result to those that are owed. */
export function commandReceipted(execution: Execution, event: CommandReceipted): void {
  const handler = execution.handlerAt(event);
  assert(handler !== undefined, "a receipt must be about a handler of the current visit");
  const { seq } = execution;
  const { task, attempt, worker, ms, step, result, error, procStatus } = event;
  change(execution, step, { receiptedAt: execution.now, receipt: seq, status: procStatus, error });
  if (result === null) return;
  const parts = execution.plan.referred.byStep.get(step) ?? [];
  const value = parts.length === 0 ? null : (JSON.parse(result) as Json);
  for (const reference of parts) {
    const found = follow(value, reference.path);
    if (found === null) execution.referred.delete(reference.text);
    // @plant command refers to an earlier visit's result
    else execution.referred.set(reference.text, JSON.stringify(found.value));
  }
  if (handler.plan.command?.holds === true) {
    handler.receipted.set(task, { seq, attempt, worker, ms, result });
    handler.notices.delete(task);
    handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
  }
  oweAfter(execution, receiptOf(event, seq), "receipt");
}

/** Applies the end of a command's task. */
export function settleCommand(
  execution: Execution,
  handler: HandlerState,
  end: { readonly task: number; readonly status: SettledStatus; readonly payload: string },
): void {
  const { command } = handler.plan;
  if (command === null) return;
  if (end.status === "done") handler.receipted.delete(end.task);
  else if (end.status === "failed") change(execution, command.step, { status: "ERROR", error: end.payload });
}

/** Begins a new round. Commands that have a result continue with their post-operations; the others are sent again. */
export function reopenCommands(
  execution: Execution,
  visit: Visit,
  handler: HandlerState,
  only?: ReadonlySet<number>,
): void {
  const { command } = handler.plan;
  if (command === null) return;
  const isDone = handler.tasks.done === handler.total && handler.total > 0;
  if (!isDone) change(execution, command.step, { status: null, error: null });
  // @plant retry repeats a command that has its result
  for (const [task, { seq, attempt }] of handler.receipted) {
    if (only?.has(task) === false) continue;
    handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
    change(execution, command.step, { status: "COMPLETE", error: null });
    const at = visit.place(handler.plan.name);
    oweAfter(execution, { ...at, task, step: command.step, receipt: seq }, "receipt");
  }
}

/** Returns the public error of a command: the `proc_err` that the worker sent, or else the name, message and code of the error. */
export function procErr(error: string | null): Json {
  if (error === null) return null;
  const parsed = JSON.parse(error) as Json;
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return parsed;
  const fields = parsed as Readonly<Record<string, Json>>;
  if (Object.hasOwn(fields, "proc_err")) return fields["proc_err"] as Json;
  const { stack: _, ...shown } = fields;
  return shown;
}

/** Returns the error, as JSON text, of a command whose topic may not be used. */
export function topicError({ message, hint }: Rejection): string {
  return JSON.stringify({
    name: "TopicRefused",
    code: "topic_refused",
    message: hint === undefined ? message : `${message}; ${hint}`,
  });
}

function change(execution: Execution, step: number, changes: Partial<CommandState>): void {
  const known = execution.commands.get(step);
  if (known !== undefined) execution.commands.set(step, { ...known, ...changes });
}
