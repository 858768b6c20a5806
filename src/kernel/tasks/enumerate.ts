/**
 * The enumeration of a handler's tasks, which has attempts of its own. Its pages are journaled as they arrive. When its receipt
 * arrives, the number of tasks is final (the handler is sealed).
 */
import { advance, emitTasks } from "../advance.ts";
import { LIMITS } from "../definition/definition.ts";
import { type Items, nameItems, uniqueItems, whyUneven } from "../definition/task-name.ts";
import type { RetryReason } from "../event.ts";
import type { HandlerState } from "../execution.ts";
import type { Answer, EnumerationLostMessage, EnumerationMessage, Outcome, PageMessage } from "../message.ts";
import type { Step } from "../step.ts";
import { delayMs } from "./retry.ts";

/** Journals a page of tasks from the current enumeration attempt. A repeated page changes nothing. */
export function page(step: Step, message: PageMessage): Answer {
  const handler = openHandler(step, message);
  if (handler === null) return { kind: "ignored", why: "the enumeration is over", verdicts: ["stale"] };
  const known = handler.enumeration.count;
  const named = nameItems(handler.plan.definition, message);
  if ("why" in named) return failForGood(step, message, { name: "InvalidTask", message: named.why });
  const wrong = whyWrong(handler, { ...named, from: message.from }, known);
  if (wrong !== null) return { kind: "ignored", why: wrong, verdicts: ["stale"] };
  const fresh = freshItems(handler, { ...named, from: message.from }, known);
  if (handler.total + fresh.tasks.length > LIMITS.tasksPerVisit)
    return failForGood(step, message, {
      name: "TooManyTasks",
      code: "too_large",
      message: `a handler may have at most ${LIMITS.tasksPerVisit} tasks in one visit`,
    });
  if (fresh.tasks.length === 0)
    return { kind: "ignored", why: "all of these tasks are journaled already", verdicts: ["duplicate"] };
  emitTasks(step, handler, fresh);
  const { seq } = step.execution;
  // A new task may wait for a task that has failed already, so it must fail too.
  if (handler.dependencies !== null) advance(step);
  return { kind: "applied", seq };
}

/** Fails the enumeration without a retry, because another attempt would fail in the same way. */
function failForGood(step: Step, message: PageMessage, error: object): Answer {
  step.emit({
    kind: "handler.retrying",
    ...step.execution.currentVisit().place(message.handler),
    attempt: message.attempt,
    reason: "failed",
    until: null,
    error: JSON.stringify(error),
    fatal: true,
  });
  advance(step);
  return { kind: "applied", seq: step.execution.seq, verdicts: ["stale"] };
}

/** Applies the receipt of an enumeration attempt. */
export function enumerationEnded(step: Step, message: EnumerationMessage): Answer {
  const handler = openHandler(step, message);
  if (handler === null) return { kind: "ignored", why: "the enumeration is over", verdicts: ["stale"] };
  const { outcome } = message;
  const known = handler.enumeration.count;
  if (outcome.status === "done" && (outcome.total === known || handler.identities !== null)) {
    step.emit({
      kind: "handler.enumerated",
      ...step.execution.currentVisit().place(message.handler),
      total: handler.paged ? handler.total : 0,
    });
  } else if (outcome.status === "done") {
    const message_ = `the enumeration reports ${outcome.total} tasks, but ${known} are journaled`;
    endAttempt(step, handler, message, {
      status: "failed",
      fatal: true,
      payload: JSON.stringify({
        name: "EnumerationDiverged",
        code: "enumeration_diverged",
        message: message_,
      }),
    });
  } else endAttempt(step, handler, message, outcome);
  advance(step);
  return { kind: "applied", seq: step.execution.seq, verdicts: ["accepted"] };
}

/** Records that the worker of the enumeration attempt became silent. */
export function enumerationLost(step: Step, message: EnumerationLostMessage): Answer {
  const handler = openHandler(step, message);
  if (handler === null) return { kind: "ignored", why: "the enumeration is over" };
  const at = step.execution.currentVisit().place(message.handler);
  step.emit({ kind: "handler.lost", ...at, attempt: message.attempt, worker: message.worker });
  if (handler.enumeration.crashes >= handler.plan.crashes) {
    const error = {
      name: "Lost",
      code: "lost",
      message: `the enumeration was lost with its worker ${handler.enumeration.crashes} times`,
    };
    step.emit({
      kind: "handler.retrying",
      ...at,
      attempt: message.attempt,
      reason: "crashed",
      until: null,
      error: JSON.stringify(error),
    });
    advance(step);
  }
  return { kind: "applied", seq: step.execution.seq };
}

/** Returns the handler, if this attempt is its current enumeration attempt; null otherwise. */
function openHandler(
  step: Step,
  message: { phase: string; visit: number; handler: string; attempt: number; round: number },
): HandlerState | null {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  if (handler === undefined || handler.sealed || execution.draining || execution.ended) return null;
  if (handler.plan.work !== "process") return null;
  if (execution.currentVisit().status !== "running" || message.round !== execution.currentVisit().round)
    return null;
  return message.attempt === handler.enumeration.ended + 1 && !handler.enumeration.failed ? handler : null;
}

/**
 * Returns why a page is refused; null if it is accepted. A page whose answer was lost is sent again as a whole. A page that is only
 * partly new is refused, because its other tasks may differ from the journaled ones.
 */
function whyWrong(
  handler: HandlerState,
  { from, ...items }: Items & { readonly from: number },
  known: number,
): string | null {
  const { tasks, identities } = items;
  const uneven = whyUneven(items);
  if (uneven !== null) return uneven;
  if (handler.identities !== null && identities !== null) return null;
  if (!Number.isInteger(from) || from < 0) return `a page cannot begin at ${from}`;
  if (from > known) return `a page begins at task ${from}, but only ${known} tasks are journaled`;
  if (from < known && from + tasks.length > known)
    return `tasks ${from} to ${from + tasks.length - 1} come in one page, but ${known} tasks are journaled`;
  return null;
}

/** Returns the new tasks of a page: all or none of them. If tasks have identities, returns those whose identity is new. */
function freshItems(
  handler: HandlerState,
  { from, ...items }: Items & { readonly from: number },
  known: number,
): Items {
  const named = handler.identities;
  const { tasks, keys } = items;
  if (named === null || items.identities === null)
    return from < known ? { tasks: [], keys: null, identities: null } : { tasks, keys, identities: null };
  return uniqueItems(items, (identity) => named.has(identity));
}

function endAttempt(step: Step, handler: HandlerState, message: EnumerationMessage, outcome: Outcome): void {
  const { plan, enumeration } = handler;
  const visit = step.execution.currentVisit();
  const reason: RetryReason =
    outcome.status === "cancelled"
      ? "released"
      : outcome.status === "done" || outcome.status === "suspended"
        ? "failed"
        : outcome.status;
  const failures = enumeration.fails + (reason === "crashed" || reason === "released" ? 0 : 1);
  const crashes = enumeration.crashes + (reason === "crashed" ? 1 : 0);
  const isOver = outcome.fatal === true || failures >= plan.attempts || crashes >= plan.crashes;
  const id = `${step.execution.id}/${visit.plan.name}/${visit.visit}/${plan.name}/enumerate/${message.attempt}`;
  const delay =
    reason === "released"
      ? 0
      : delayMs(plan, Math.max(1, failures + crashes), { id, retryAfterMs: outcome.retryAfterMs });
  step.emit({
    kind: "handler.retrying",
    ...visit.place(plan.name),
    attempt: message.attempt,
    reason,
    until: isOver ? null : step.now + delay,
    error: outcome.payload,
    ...(outcome.fatal === true ? { fatal: true } : {}),
  });
}
