/**
 * The entry point of the kernel: a message goes in, events come out. It is pure and synchronous. It changes the given execution; that
 * is safe, because after a failed commit the execution is always loaded again. The caller commits the events, then sends the answer.
 */
import { assert, unreachable } from "../std/assert.ts";
import { sha256 } from "../std/hash.ts";
import { advance, drained } from "./advance.ts";
import { apply } from "./apply.ts";
import { postOp, retryPostOp } from "./command/post-op.ts";
import { cancelExecution, control } from "./control.ts";
import type { Plan } from "./definition/plan.ts";
import type { Created, Event, Recorded } from "./event.ts";
import { Execution } from "./execution.ts";
import type { Answer, Message, Sent, StartMessage } from "./message.ts";
import { move } from "./move.ts";
import { carryGate, enterGate, leaveGate } from "./relay/gate.ts";
import { isRelayName } from "./relay/relay.ts";
import { answerTo, keepSignal, signal } from "./signals.ts";
import { newestChanged, notifyFirst } from "./succession.ts";
import { cancelChildren, childEnded, startChildren } from "./tasks/children.ts";
import { enumerationEnded, enumerationLost, page } from "./tasks/enumerate.ts";
import { attemptsLost, attemptsStarted, receipts } from "./tasks/receipts.ts";
import { attemptsAccepted } from "./tasks/run-notices.ts";
import { checkpoint } from "./tasks/task-waits.ts";
import { timerDue } from "./timer-due.ts";

const NO_MESSAGES: readonly Sent[] = [];

/** One step in progress. It collects events, and applies each event to the execution at once. */
export class Step {
  readonly execution: Execution;
  readonly now: number;
  readonly events: Recorded[] = [];
  /** Messages to other executions. Messages without an id get one when the step ends. */
  readonly sent: (Omit<Sent, "id"> & { readonly id: string | null })[] = [];

  constructor(execution: Execution, now: number) {
    this.execution = execution;
    this.now = Math.max(now, execution.now);
  }

  emit(event: Event): void {
    const recorded = { seq: this.execution.seq + 1, at: this.now, event };
    apply(this.execution, recorded);
    this.events.push(recorded);
  }

  /** Adds a message to another execution. */
  send(to: string, message: Sent["message"]): void {
    this.sent.push({ id: null, to, message });
  }

  /**
   * Returns the messages of the step with their ids. No two messages have the same id. An id contains the sequence number of the
   * step's last event; the number of another event could be the last one of the step before. A step without events has no number of
   * its own, so the ids of its messages contain a hash of their content.
   */
  messages(): readonly Sent[] {
    if (this.sent.length === 0) return NO_MESSAGES;
    const { id, seq } = this.execution;
    return this.sent.map(({ id: own, to, message }, index) => {
      const place = this.events.length > 0 ? index : sha256(JSON.stringify([to, message])).slice(0, 16);
      return { id: own ?? `${id}/${seq}/${place}`, to, message };
    });
  }
}

export interface Stepped {
  readonly events: Recorded[];
  readonly answer: Answer;
  readonly sent: readonly Sent[];
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

/** Creates an execution from its start message. */
export function create(
  message: StartMessage,
  plan: Plan,
  now: number,
): Stepped & { readonly execution: Execution } {
  assert(plan.hash === message.hash, "an execution must be created with the plan that its start names");
  const execution = new Execution(message.execution, plan);
  const step = new Step(execution, now);
  const { workflow, hash, project, input, tags, parent, startAt, deadline, trace } = message;
  // Object spread is avoided, because it would take more time than the rest of a start.
  const created: Writable<Created> = { kind: "created", workflow, hash, project, input, tags };
  if (parent !== undefined) created.parent = parent;
  if (startAt !== undefined) created.startAt = startAt;
  if (deadline !== undefined) created.deadline = deadline;
  if (trace !== undefined) created.trace = trace;
  if (message.notifies !== undefined) created.notifies = message.notifies;
  if (message.succession !== undefined) created.succession = message.succession;
  step.emit(created);
  if (message.relays !== undefined) relay(step, message.relays);
  // If a user starts the workflow of a relay by its name, there is nothing to pass on.
  else if (isRelayName(workflow) && message.gate === undefined) relay(step, { messages: [], output: "null" });
  if (message.gate !== undefined) enterGate(step, message.gate);
  // @plant start loses its signal
  if (message.signal !== undefined) keepSignal(step, message.signal);
  for (const kept of message.kept ?? []) keepSignal(step, kept);
  // @plant first execution not told of a begin
  if (execution.succession !== null) notifyFirst(step, true);
  if (execution.startAt !== null)
    step.emit({ kind: "timer.set", timer: "start", purpose: "start", due: execution.startAt });
  if (deadline !== undefined)
    step.emit({ kind: "timer.set", timer: "deadline", purpose: "deadline", due: deadline });
  // @plant cancel not handed on
  if (message.cancel !== undefined) cancelExecution(step, message.cancel);
  advance(step);
  const { seq } = execution;
  const answer: Answer =
    message.signal === undefined
      ? { kind: "applied", seq }
      : answerTo(execution, message.signal, execution.applied.get(message.signal.id) ?? seq);
  return { execution, events: step.events, answer, sent: step.messages() };
}

/** Sends the messages of an event, and ends the execution that stands for it. */
function relay(step: Step, { messages, output }: NonNullable<StartMessage["relays"]>): void {
  // @plant messages of an event not sent
  for (const { to, message } of messages) step.send(to, message);
  step.emit({ kind: "finished", status: "done", output, error: null, round: 1 });
}

/** Applies a message to an execution. */
export function step(execution: Execution, message: Exclude<Message, StartMessage>, now: number): Stepped {
  const step = new Step(execution, now);
  const wasEnded = execution.ended;
  const answer = handle(step, message);
  if (wasEnded && !execution.ended && execution.succession !== null) notifyFirst(step, true);
  // @plant children not cancelled with their parent
  if (execution.draining) cancelChildren(step);
  return { events: step.events, answer, sent: step.messages() };
}

function handle(step: Step, message: Exclude<Message, StartMessage>): Answer {
  switch (message.kind) {
    case "page":
      return page(step, message);
    case "receipts":
      return receipts(step, message);
    case "enumeration":
      return enumerationEnded(step, message);
    case "accepted":
      return attemptsAccepted(step, message);
    case "started":
      return attemptsStarted(step, message);
    case "lost":
      return attemptsLost(step, message);
    case "enumeration.lost":
      return enumerationLost(step, message);
    case "pause":
    case "resume":
    case "cancel":
    case "retry":
      return control(step, message);
    case "move":
      return move(step, message);
    case "signal":
      return signal(step, message);
    case "checkpoint":
      return checkpoint(step, message);
    case "children":
      return startChildren(step, message);
    case "child":
      return childEnded(step, message);
    case "postop":
      return postOp(step, message);
    case "postop.retry":
      return retryPostOp(step, message);
    case "timer":
      return timerDue(step, message);
    case "drained":
      return drained(step, message);
    case "gate":
      return enterGate(step, message.entry);
    case "carry":
      return carryGate(step);
    case "gate.ended":
      return leaveGate(step, message);
    case "newest":
      return newestChanged(step, message);
    default:
      return unreachable(message);
  }
}
