/**
 * Signals: each signal is applied once by its id, and kept in order until a wait takes it. After the end of an execution, signals are
 * refused. While a signal is kept that the definition lists in `unread`, the execution cannot end as done.
 */
import { byteLength } from "../std/json.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { advance } from "./advance.ts";
import { LIMITS } from "./definition/definition.ts";
import type { Plan } from "./definition/plan.ts";
import type { Execution, HandlerState, Visit } from "./execution.ts";
import type { Answer, SignalMessage } from "./message.ts";
import { isRelayName } from "./relay/relay.ts";
import type { Step } from "./step.ts";
import type { Waiting } from "./tasks/checkpoint.ts";
import { giveSignal } from "./tasks/task-waits.ts";
import { takeKept } from "./timers.ts";
import { isUpdate, shownSignal } from "./updates.ts";

/** The most names of signals that a hint lists. */
const NAMES_SHOWN = 10;

/** Gives a signal to an open wait, or keeps it for a later wait. */
export function signal(step: Step, message: SignalMessage): Answer {
  const { execution } = step;
  if (
    isRelayName(execution.plan.definition.name) ||
    (message.project ?? execution.project) !== execution.project
  )
    return reject("not_found", `there is no execution ${execution.id} that takes signals`);
  // @plant repeated messages applied again 2
  const before = execution.applied.get(message.id);
  if (before !== undefined) return answerTo(execution, message, before);
  // @plant signal accepted after the end
  if (execution.ended || hasFollower(execution)) return gone(execution, message);
  // A signal from a gate is not checked: if it were refused, it would return to the gate and be sent again for ever. The definition
  // of its trigger was checked.
  const unknown = message.from === undefined ? whyUnknown(execution.plan, message) : null;
  if (unknown !== null) return unknown;
  const visit = execution.current;
  const isOpen =
    visit !== null &&
    visit.status === "running" &&
    visit.failing === null &&
    execution.status !== "cancelling";
  const waiting = isOpen
    ? visit.handlers.find(
        (handler) => handler.plan.definition.waitFor === message.signal && handler.tasks.settled.size === 0,
      )
    : undefined;
  const waiter = isOpen && waiting === undefined ? taskWaiter(visit, message, step.now) : undefined;
  // A signal that an open wait takes at once is not kept, so the limits for kept signals do not apply.
  const refusal = waiting === undefined && waiter === undefined ? whyNotKept(execution, message) : null;
  if (refusal !== null) return refusal;
  keepSignal(step, message);
  const { seq } = execution;
  if (waiting !== undefined) takeKept(step, waiting, message.signal);
  else if (waiter !== undefined) giveSignal(step, waiter.handler, waiter);
  if (isOpen) advance(step);
  return answerTo(execution, message, seq);
}

/** Adds a signal to the journal. */
export function keepSignal(step: Step, { signal: name, id, data }: Omit<SignalMessage, "kind">): void {
  step.emit({ kind: "signalled", signal: name, id, data });
}

/** Returns the answer to a signal that was accepted. It says whether a wait has taken the signal by now. */
export function answerTo(execution: Execution, { id, signal: name }: SignalMessage, seq: number): Answer {
  const isKept = execution.signals.get(name)?.some((kept) => kept.id === id) === true;
  return { kind: "applied", seq, signal: isKept ? "kept" : "delivered" };
}

/**
 * Whether another execution continues this one or was started after it under the same id. A retry can open this one again. Then
 * signals to the id still go to the newest execution, so that a repeated signal is never taken by both.
 */
function hasFollower({ newest }: Execution): boolean {
  return newest !== null && newest.number > 1;
}

/** Returns why the workflow can never take this signal; null if it can, or if the definition does not list its signals. */
export function whyUnknown(
  { signals, definition }: Plan,
  { signal }: Pick<SignalMessage, "signal">,
): Rejection | null {
  if (signals === null || isUpdate(signal) || signals.has(signal)) return null;
  const names = [...signals].map((known) => `"${known}"`).slice(0, NAMES_SHOWN);
  return reject("invalid_input", `the workflow "${definition.name}" never waits for the signal "${signal}"`, {
    path: "name",
    hint:
      names.length === 0 ? "the workflow waits for no signal" : `the workflow waits for ${names.join(", ")}`,
  });
}

function gone(execution: Execution, { signal }: SignalMessage): Rejection {
  const { name, what: kind } = shownSignal(signal);
  if (!execution.ended && hasFollower(execution))
    return reject(
      "gone",
      `execution ${execution.id} runs again, but ${execution.newest?.execution} has followed it and gets the ${kind} "${name}"`,
      { hint: `send the ${kind} to ${execution.newest?.execution}` },
    );
  const what = execution.ended ? `is ${execution.status}` : "is done with its work and cleans up";
  return reject("gone", `execution ${execution.id} ${what}, so nothing would read the ${kind} "${name}"`, {
    hint: `start another execution with the ${kind}`,
  });
}

/**
 * Returns why a signal that no wait takes now is refused; null if it is kept. The signals of one name may not use all the room for
 * kept signals.
 */
function whyNotKept(execution: Execution, message: SignalMessage): Rejection | null {
  const { signal: name, data } = message;
  // The work is over, so the phase that would read the signal cannot run. If another execution continues this one, that one gets the
  // signal.
  const isOver = execution.ending?.status === "done" && execution.continuing === null;
  if (isOver && execution.plan.unread.has(name)) return gone(execution, message);
  const bytes = byteLength(data);
  const same = execution.signals.get(name) ?? [];
  const isSmall = execution.signalBytes + bytes <= LIMITS.signalBytesKept;
  const sameBytes = isSmall ? 0 : same.reduce((sum, kept) => sum + byteLength(kept.data), 0);
  const { name: shown, what } = shownSignal(name);
  if (same.length >= LIMITS.signalsKept || sameBytes + bytes > LIMITS.signalBytesKept)
    return reject(
      "rate_limited",
      `execution ${execution.id} already keeps ${same.length} ${what}s "${shown}" that nothing has waited for`,
      {
        hint: `at most ${LIMITS.signalsKept} signals or ${LIMITS.signalBytesKept} bytes of one name are kept`,
      },
    );
  const { signalsKeptInAll, signalBytesKeptInAll } = LIMITS;
  if (execution.signalCount < signalsKeptInAll && execution.signalBytes + bytes <= signalBytesKeptInAll)
    return null;
  return reject(
    "rate_limited",
    `execution ${execution.id} already keeps ${execution.signalCount} signals (${execution.signalBytes} bytes) that nothing has waited for`,
    { hint: `at most ${signalsKeptInAll} signals or ${signalBytesKeptInAll} bytes are kept` },
  );
}

/** Returns the task whose wait for this signal began first, among the tasks that wait inside their code. */
function taskWaiter(
  visit: Visit,
  message: SignalMessage,
  now: number,
): { handler: HandlerState; task: number; wait: Waiting } | undefined {
  for (const handler of visit.handlers) {
    const waiter = handler.progress.firstWaitingFor(message, now);
    if (waiter !== undefined) return { handler, ...waiter };
  }
  return undefined;
}
