/**
 * Executions that continue one another under the id of the first one: `ID`, `ID~2`, `ID~3` (definition/successor-id.ts). An execution
 * continues as the next one if the code of its only task asks for that. Its last commit stores the start of the next one as mail,
 * with the signals that nothing has read. Each execution notifies the first one when it begins and when it ends. So the first one
 * always knows the newest, however many there are.
 */
import { byteLength } from "../std/json.ts";
import { LIMITS } from "./definition/definition.ts";
import { successorId } from "./definition/successor-id.ts";
import type { NewestEvent } from "./event.ts";
import type { Execution, HandlerState } from "./execution.ts";
import type { Answer, NewestMessage, Outcome, SignalMessage, StartMessage } from "./message.ts";
import type { Step } from "./step.ts";

/** The most ids of applied messages that an execution passes on to the next one. */
const SEEN_MAX = 1_000;

/**
 * Checks a done task that asks to continue as another execution. Returns its outcome, or a fatal failure if the execution cannot
 * continue.
 */
export function withContinuation(execution: Execution, handler: HandlerState, outcome: Outcome): Outcome {
  const why = whyNotContinue(execution, handler) ?? whyNoInput(outcome.continueAs ?? "");
  if (why === null) return outcome;
  const error = { name: "CannotContinue", code: "wrong_status", message: `continueAs: ${why}` };
  return { status: "failed", fatal: true, payload: JSON.stringify(error) };
}

/** Returns why the task of this handler cannot continue the execution as another one; null if it can. */
function whyNotContinue(execution: Execution, { plan, offered }: HandlerState): string | null {
  const { ending, parent } = execution;
  const { plan: phase } = execution.currentVisit();
  if (parent !== null)
    return `the execution is a child of ${parent.execution}, which waits for its end: start it on its own`;
  if (ending !== null) return "the execution cleans up";
  if (plan.work !== "process" || plan.adds || offered !== 1 || phase.handlers.length !== 1)
    return `the phase "${phase.name}" must have one handler with one task, as a flow has`;
  if (phase.next >= 0 || phase.decision !== null || phase.final === "failed")
    return `the phase "${phase.name}" must be the last one`;
  return null;
}

function whyNoInput(input: string): string | null {
  const bytes = byteLength(input);
  return bytes <= LIMITS.inputBytes
    ? null
    : `the input has ${bytes} bytes; at most ${LIMITS.inputBytes} are allowed`;
}

/**
 * Makes the start message of the execution that continues this one. It names the definition of this execution, which is used unless
 * there is a newer one.
 */
export function startOfSuccessor(execution: Execution, input: string): StartMessage {
  const { id, first, plan, project, tags, trace, deadline, notifies } = execution;
  const number = (execution.newest?.number ?? execution.succession?.number ?? 1) + 1;
  const kept = keptSignals(execution);
  return {
    kind: "start",
    execution: successorId(first, number),
    workflow: plan.definition.name,
    hash: plan.hash,
    project,
    input,
    tags,
    // @plant applied messages not handed on
    succession: { first, number, after: id, seen: seenIds(execution, kept) },
    // @plant unread signals not handed on
    ...(kept.length === 0 ? {} : { kept }),
    ...(execution.nextCancelled === null ? {} : { cancel: execution.nextCancelled }),
    ...(deadline === null ? {} : { deadline }),
    ...(trace === null ? {} : { trace }),
    ...(notifies === null ? {} : { notifies }),
  };
}

/** Returns the signals that nothing has read, in the order in which they came. */
function keptSignals({ signals, applied }: Execution): Omit<SignalMessage, "kind" | "from">[] {
  const kept: Omit<SignalMessage, "kind" | "from">[] = [];
  for (const [signal, list] of signals) for (const { id, data } of list) kept.push({ id, signal, data });
  // @plant unread signals handed on by name
  return kept.sort((a, b) => (applied.get(a.id) ?? 0) - (applied.get(b.id) ?? 0));
}

/** Returns the ids of the messages that were applied last, without those of the kept signals. */
function seenIds({ applied }: Execution, kept: readonly { readonly id: string }[]): readonly string[] {
  const left = new Set(kept.map(({ id }) => id));
  return [...applied.keys()].filter((id) => !left.has(id)).slice(-SEEN_MAX);
}

/** Notifies the first execution of the id that this one has begun, opened again or ended. */
export function notifyFirst(step: Step, isOpen: boolean): void {
  const { id, succession } = step.execution;
  if (succession === null) return;
  step.send(succession.first, { kind: "newest", execution: id, number: succession.number, isOpen });
}

/** Records in the first execution of an id which execution of the id is the newest. */
export function newestChanged(step: Step, { execution: id, number, isOpen }: NewestMessage): Answer {
  const { execution } = step;
  const known = execution.newest ?? { number: 1, isOpen: true };
  if (number < known.number || (number === known.number && isOpen === known.isOpen))
    return { kind: "ignored", why: "the first execution of the id knows this already" };
  step.emit({ kind: "newest", execution: id, number, isOpen });
  return { kind: "applied", seq: execution.seq };
}

export function applyNewest(execution: Execution, { execution: id, number, isOpen }: NewestEvent): void {
  execution.newest = { execution: id, number, isOpen };
  execution.newestEndedAt = isOpen ? null : execution.now;
}

/** Applies the end of an execution that continues as another one. Its signals go to that one. */
export function applyContinued(execution: Execution, continuedAs: string): void {
  execution.continuedAs = continuedAs;
  if (execution.succession === null) {
    const number = (execution.newest?.number ?? 1) + 1;
    execution.newest = { execution: continuedAs, number, isOpen: true };
    execution.newestEndedAt = null;
  }
  for (const signal of [...execution.signals.keys()]) execution.signals.delete(signal);
  execution.signalCount = 0;
  execution.signalBytes = 0;
}
