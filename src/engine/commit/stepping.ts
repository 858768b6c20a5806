/** Steps the queued messages of a clean execution. Further messages wait for the verdict on its commit (execution-write.ts builds it). */
import { endOfChild } from "../../kernel/advance.ts";
import { successorId } from "../../kernel/definition/successor-id.ts";
import { EVENT_VERSION, type Recorded, type Succession } from "../../kernel/event.ts";
import type { Execution } from "../../kernel/execution.ts";
import { encodeEntries, versionNeeded } from "../../kernel/journal/journal-entry.ts";
import type {
  Answer,
  Message,
  MoveMessage,
  Sent,
  SignalMessage,
  StartMessage,
} from "../../kernel/message.ts";
import { gateMessage, isCarryDue } from "../../kernel/relay/gate.ts";
import { whyUnknown } from "../../kernel/signals.ts";
import { create, step } from "../../kernel/step.ts";
import { assert } from "../../std/assert.ts";
import { canonicalJson } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import type { ExecutionWrite } from "../../store/store.ts";
import type { Queued, Slot } from "../cache/slot.ts";
import { knownRuns } from "../leases/attempt-facts.ts";
import {
  toLogRow,
  toMessage,
  unrecordedAccepts,
  verdictOnRest,
  verdictsOnStarts,
  writesPublished,
  writesRunNotices,
} from "../leases/report-intake.ts";
import { keptEvents } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { type SettledColumns, settledIn } from "../views/figures.ts";
import { type EndedPhase, endedPhases } from "../views/phase-span.ts";
import { countEvent, noTotals, type Totals } from "../views/totals.ts";
import { buildWrite, type Effects, takeSnapshot } from "./execution-write.ts";

export interface Stepped {
  readonly slot: Slot;
  readonly write: ExecutionWrite | null;
  readonly taken: readonly { readonly queued: Queued; readonly answer: Answer; readonly existed: boolean }[];
  /**
   * The number of events of the step. Events may be large, so only their number, pages and totals are kept until the commit is
   * answered.
   */
  readonly eventCount: number;
  /** The events of the step, if they are small and are to be published; otherwise null. */
  readonly kept: readonly Recorded[] | null;
  /**
   * The version of events that every node must be able to read before these events are written; 0 if every node can read them
   * already.
   */
  readonly needs: number;
  readonly pages: readonly Recorded[];
  readonly totals: Totals;
  /** The outcomes of the tasks that the step settled, for the figures of the workflow. */
  readonly settled: readonly SettledColumns[];
  /** The visits that ended in the step, for tracing spans. */
  readonly phases: readonly EndedPhase[];
  readonly messages: number;
  readonly chars: number;
  /** Ids of the mailbox messages that the step has applied. */
  readonly mail: readonly string[];
  /**
   * The sequence number of the `gate.carried` event, which carries the whole state of a gate: older rows of the journal can be
   * deleted. Null if there is no such event.
   */
  readonly carried: number | null;
}

export function stepSlot(node: NodeState, slot: Slot, messagesMax: number): Stepped {
  const snapshot = takeSnapshot(node, slot);
  const before = slot.execution?.seq ?? 0;
  const taken: { queued: Queued; answer: Answer; existed: boolean }[] = [];
  const stale: string[] = [];
  const into: Collected = { events: NO_EVENTS, effects: { sent: [], logs: [] } };
  const { effects } = into;
  const mail: string[] = [];
  const marks: Record<string, number> = {};
  if (slot.execution !== null)
    for (const message of unrecordedAccepts(node, slot))
      collect(into, step(slot.execution, message, node.now).events);
  const carried = carry(node, slot, into);
  const queue = slot.queue;
  const count = Math.min(queue.length, messagesMax);
  slot.queue = count === queue.length ? [] : queue.slice(count);
  slot.stepFirst = Math.max(0, slot.stepFirst - count);
  for (let i = 0; i < count; i++) {
    const queued = queue[i] as Queued;
    if (queued.kind === "mark") {
      if (queued.mark !== null) marks[queued.mark.name] = queued.mark.value;
      taken.push({ queued, answer: { kind: "applied", seq: before }, existed: false });
      continue;
    }
    const { answer, existed } = stepOne(node, slot, queued, into);
    taken.push({ queued, answer, existed });
    if (queued.kind === "message" && queued.mail !== undefined) {
      mail.push(queued.mail);
      const { mail: id, message } = queued;
      if (message.kind === "signal" && isRejection(answer)) returnSignal(slot, message, id, into);
      if (slot.execution === null) node.emit({ kind: "undelivered", id, to: slot.id, at: node.now, message });
    }
    if (queued.kind === "message" && queued.message.kind === "timer" && answer.kind === "ignored")
      stale.push(queued.message.timer);
  }
  if (slot.execution !== null && node.starts.has(slot)) {
    const isWritten = into.events.length > 0 || effects.logs.length > 0 || Object.keys(marks).length > 0;
    for (const message of node.starts.take(slot, isWritten))
      collect(into, step(slot.execution, message, node.now).events);
  }
  const { events } = into;
  const entries = encodeEntries(events, slot.id);
  let chars = 0;
  for (const entry of entries) chars += entry.body.length;
  return {
    slot,
    write: buildWrite(node, slot, { before, events, entries, snapshot, stale, marks, effects }),
    taken,
    eventCount: events.length,
    kept: keptEvents(node, events, chars),
    needs: node.writes < EVENT_VERSION ? needs(slot, events) : 0,
    pages: pagesIn(events),
    totals: totalsOf(events, slot.execution?.plan.definition.name ?? ""),
    settled: settledIn(events),
    phases: endedPhases(events, slot.execution),
    messages: count,
    chars,
    mail,
    carried,
  };
}

/**
 * If the journal of a gate is long, compacts it by a first event of the commit that carries the whole state. Returns the sequence
 * number of that event.
 */
function carry(node: NodeState, { execution }: Slot, into: Collected): number | null {
  if (execution === null || !isCarryDue(execution, node.settings.gateEventsMax)) return null;
  // Does not compact while the cluster has nodes of an earlier version, which could not read the event.
  if (node.writes < EVENT_VERSION) return null;
  const { seq } = execution;
  collect(into, step(execution, { kind: "carry" }, node.now).events);
  return seq + 1;
}

/** Returns the version of events that all nodes must be able to read before these events are written. The definition counts too. */
function needs({ id, execution }: Slot, events: readonly Recorded[]): number {
  if (events.length === 0) return 0;
  return Math.max(versionNeeded(events, id), execution?.plan.version ?? 0);
}

const NO_PAGES: readonly Recorded[] = [];

function pagesIn(events: readonly Recorded[]): readonly Recorded[] {
  return events.some(({ event }) => event.kind === "tasks.enumerated")
    ? events.filter(({ event }) => event.kind === "tasks.enumerated")
    : NO_PAGES;
}

function totalsOf(events: readonly Recorded[], workflow: string): Totals {
  const totals = noTotals();
  for (const recorded of events) countEvent(totals, recorded, workflow);
  return totals;
}

interface Collected {
  events: Recorded[];
  readonly effects: Effects;
}

const NO_EVENTS: Recorded[] = [];

type QueuedStart = Extract<Queued, { kind: "message" }> & { readonly message: StartMessage };

interface SteppedOne {
  readonly answer: Answer;
  /** Whether the execution of a start existed already. */
  readonly existed: boolean;
}

function stepOne(
  node: NodeState,
  slot: Slot,
  queued: Exclude<Queued, { kind: "mark" }>,
  into: Collected,
): SteppedOne {
  if (queued.kind === "report") return { answer: stepReport(node, slot, queued, into), existed: false };
  const { message } = queued;
  const passed = queued.mail === undefined ? null : passOn(slot, message, queued.mail, into);
  if (passed !== null) return { answer: passed, existed: true };
  if (message.kind === "start") return stepStart(node, slot, queued as QueuedStart, into);
  if (slot.execution === null)
    return {
      answer: reject("not_found", `there is no execution ${slot.id}`, {
        hint: "check the id, or list executions",
      }),
      existed: false,
    };
  if (message.kind === "move") return { answer: runMove(node, slot, message, into), existed: false };
  return { answer: run(node, slot, message, into), existed: false };
}

function stepReport(
  node: NodeState,
  slot: Slot,
  queued: Extract<Queued, { kind: "report" }>,
  into: Collected,
): Answer {
  const { report, worker } = queued;
  if (report.kind === "logs") return keepLines(node, slot, queued, into);
  if (report.kind === "accepted" || report.kind === "started")
    return {
      kind: "ignored",
      why: "nothing to step",
      verdicts: verdictsOnStarts(node, slot, report, worker),
    };
  const isNotice = report.kind === "run.started" || report.kind === "run.crashed";
  if ((isNotice && !writesRunNotices(node)) || (report.kind === "published" && !writesPublished(node)))
    return {
      kind: "ignored",
      why: "a node of an older version in the cluster could not read this event",
      verdicts: ["accepted"],
    };
  const message = slot.execution === null ? null : toMessage(node, slot, report, queued);
  return message === null
    ? { kind: "ignored", why: "nothing to step", verdicts: [verdictOnRest(slot, report)] }
    : run(node, slot, message, into);
}

/** Creates an execution, unless it exists already. */
function stepStart(node: NodeState, slot: Slot, queued: QueuedStart, into: Collected): SteppedOne {
  if (slot.execution !== null)
    return { answer: startAgain(node, slot, slot.execution, { queued, into }), existed: true };
  const { message, plan, mail } = queued;
  assert(plan !== undefined, "a start must come with the plan of its workflow");
  const unknown = message.signal === undefined ? null : whyUnknown(plan, message.signal);
  if (unknown !== null && mail === undefined) return { answer: unknown, existed: false };
  const created = create(message, plan, node.now);
  slot.execution = created.execution;
  slot.refreshQueues();
  collect(into, created.events);
  for (const sent of created.sent) into.effects.sent.push(sent);
  return { answer: created.answer, existed: false };
}

/** Handles a start whose execution exists: it is a repeat, or brings a signal or an event, or needs another number. */
function startAgain(
  node: NodeState,
  slot: Slot,
  execution: Execution,
  { queued: { message, mail }, into }: { readonly queued: QueuedStart; readonly into: Collected },
): Answer {
  if (message.signal !== undefined) return signalInstead(node, slot, message, into);
  if (message.gate !== undefined) return run(node, slot, { kind: "gate", entry: message.gate }, into);
  // For repeated events with the same id, only the first counts. Triggers may have changed since, so a repeat may have other messages.
  if (message.relays !== undefined) return { kind: "applied", seq: execution.seq };
  if (mail !== undefined && isNumberTaken(execution, message)) return takeNextNumber(message, mail, into);
  const answer = repeatedStart(execution, message);
  if (mail === undefined) return answer;
  // The event was sent again after the gate had forgotten it, so its execution exists already. If that execution will not report
  // its end to this gate, the gate is notified now; otherwise the gate would wait for ever.
  const { notifies: gate } = message;
  if (gate !== undefined && (execution.ended || execution.notifies !== gate))
    into.effects.sent.push({
      id: `${mail}/ended`,
      to: gate,
      message: { kind: "gate.ended", execution: slot.id },
    });
  rejoin(node, slot, { message, mail, answer }, into);
  return answer;
}

/**
 * Passes mail for an execution that has ended on to the execution that continues it under the same id. Senders of mail know only the
 * id, and get no answer. The start of the successor was sent earlier by the same sender, so it arrives first.
 */
function passOn({ execution }: Slot, message: Message, mail: string, into: Collected): Answer | null {
  const successor = execution?.successor ?? null;
  if (execution === null || successor === null || !execution.ended) return null;
  const isControl = ["pause", "resume", "cancel", "retry"].includes(message.kind);
  const sent = message.kind === "start" ? message.signal : message;
  if (sent === undefined || (sent.kind !== "signal" && !isControl)) return null;
  if (sent.kind === "signal" && execution.applied.has(sent.id)) return null;
  // @plant mail to an execution that has continued is lost
  into.effects.sent.push({ id: `${mail}/on`, to: successor, message: sent as Sent["message"] });
  return { kind: "ignored", why: `the message is passed on to ${successor}, which continues this execution` };
}

/**
 * An execution that continues another one gets that one's id with the next number. Returns whether a user has already started an
 * execution with this number.
 */
function isNumberTaken({ succession }: Execution, message: StartMessage): boolean {
  const after = message.succession?.after;
  return after !== undefined && after !== succession?.after;
}

/** Sends the start of an execution that continues another one to the next number under the same id. */
function takeNextNumber(message: StartMessage, mail: string, into: Collected): Answer {
  const succession = message.succession as Succession;
  const number = succession.number + 1;
  const execution = successorId(succession.first, number);
  const next = { ...message, execution, succession: { ...succession, number } };
  into.effects.sent.push({ id: `${mail}/on`, to: execution, message: next });
  return { kind: "ignored", why: `this id is taken, so the execution continues as ${execution}` };
}

/** Sends a signal that the execution refused back to the gate that sent it. */
function returnSignal({ execution }: Slot, { from }: SignalMessage, mail: string, into: Collected): void {
  if (from === undefined || execution === null) return;
  // Names the first execution of the id as the sender, because the gate does not know the executions that continue it.
  const returnedBy = execution.first;
  const message = gateMessage(from.gate, { ...from.entry, returnedBy });
  // @plant signal refused by its execution is lost
  into.effects.sent.push({ id: `${mail}/returned`, to: from.gate, message });
}

/** Adds log lines of an attempt that is still running to this commit. */
function keepLines(
  node: NodeState,
  slot: Slot,
  { report, worker }: Extract<Queued, { kind: "report" }>,
  { effects }: Collected,
): Answer {
  const row = report.kind === "logs" && slot.execution !== null ? toLogRow(node, slot, report, worker) : null;
  if (row === null) return { kind: "ignored", why: "the attempt is over", verdicts: ["stale"] };
  const { lines, refusal } = knownRuns(slot, row);
  if (lines.length > 0) effects.logs.push({ ...row, lines });
  return { kind: "applied", seq: slot.execution?.seq ?? 0, verdicts: [refusal ?? "accepted"] };
}

function run(node: NodeState, slot: Slot, message: Exclude<Message, StartMessage>, into: Collected): Answer {
  const stepped = step(slot.execution as Execution, message, node.now);
  collect(into, stepped.events);
  for (const sent of stepped.sent) into.effects.sent.push(sent);
  slot.refreshQueues();
  return stepped.answer;
}

/**
 * Moves an execution to another definition. Its queues are withdrawn from the dispatcher, which keeps them by version. After the
 * commit, the execution is loaded again, so that memory has only data of the new definition.
 */
function runMove(node: NodeState, slot: Slot, message: MoveMessage, into: Collected): Answer {
  const before = slot.execution?.plan;
  node.dispatcher.withdraw(slot);
  const answer = run(node, slot, message, into);
  if (slot.execution?.plan !== before) slot.isMoved = true;
  return answer;
}

/** Handles a start with a signal whose execution exists already: only the signal is sent to the execution, even if its input differs. */
function signalInstead(node: NodeState, slot: Slot, message: StartMessage, into: Collected): Answer {
  const { id, plan, project } = slot.execution as Execution;
  if (plan.definition.name !== message.workflow || project !== message.project) {
    const what = `the workflow "${plan.definition.name}" in the project "${project}"`;
    return reject("conflict", `execution ${id} exists with ${what}`, { hint: "choose another id" });
  }
  return run(node, slot, message.signal as SignalMessage, into);
}

/** The answer to a start of an existing execution: a repeat counts as applied, another input is a conflict. */
function repeatedStart(execution: Execution, message: StartMessage): Answer {
  const sameWorkflow = execution.plan.definition.name === message.workflow;
  if (
    sameWorkflow &&
    (execution.input === message.input || canonical(execution.input) === canonical(message.input))
  ) {
    return { kind: "applied", seq: execution.seq };
  }
  const what = sameWorkflow ? "another input" : `the workflow "${execution.plan.definition.name}"`;
  return reject("conflict", `execution ${execution.id} exists with ${what}`, { hint: "choose another id" });
}

/**
 * Joins an existing child to its parent, which was purged and started again. A running child will report its end, a child that is
 * done reports its end again, a failed child is retried, and a child with another input is reported as cancelled.
 */
function rejoin(
  node: NodeState,
  slot: Slot,
  { message, mail, answer }: { message: StartMessage; mail: string; answer: Answer },
  into: Collected,
): void {
  const { parent } = message;
  const execution = slot.execution as Execution;
  // The same parent sent this start before: the message is stepped again after a commit whose outcome was unknown.
  if (parent === undefined || message.again === true || parent.since === execution.parent?.since) return;
  if (answer.kind === "rejection") {
    const payload = JSON.stringify({ code: answer.code, message: answer.message });
    into.effects.sent.push(
      endOfChild(slot.id, { id: `${mail}/refused`, parent, status: "cancelled", payload }),
    );
  } else if (execution.status === "done") {
    const payload = execution.output ?? "null";
    into.effects.sent.push(endOfChild(slot.id, { id: `${mail}/done`, parent, status: "done", payload }));
  } else if (execution.ended)
    run(
      node,
      slot,
      {
        kind: "retry",
        id: `rejoin~${parent.since}~parent`,
        by: `parent ${parent.execution}`,
        reason: null,
        fromParent: true,
      },
      into,
    );
}

function canonical(text: string): string {
  return canonicalJson(JSON.parse(text) as Json);
}

/** Appends the events of a step to the collected events. The array of the first step is reused for that. */
function collect(into: Collected, more: Recorded[]): void {
  if (into.events === NO_EVENTS) into.events = more;
  else for (const event of more) into.events.push(event);
}
