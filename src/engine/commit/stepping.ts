/** Steps the queued messages of a clean execution and builds its part of a commit. Further messages wait for the verdict. */
import { endOfChild } from "../../kernel/advance.ts";
import { successorId } from "../../kernel/definition/successor-id.ts";
import { EVENT_VERSION, type Recorded, type Succession, type TasksSettled } from "../../kernel/event.ts";
import type { Execution } from "../../kernel/execution.ts";
import { charsIn, encodeEntries, versionNeeded } from "../../kernel/journal/journal-entry.ts";
import { snapshotKey, writeSnapshot } from "../../kernel/journal/snapshot.ts";
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
import { seal } from "../../std/seal.ts";
import {
  currentHash,
  type DeadLetter,
  type ExecutionWrite,
  type Head,
  headTags,
  type LogRow,
  type Snapshot,
  type Want,
} from "../../store/store.ts";
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
import { toMailboxMessage } from "../mailbox/mailbox.ts";
import { EVENTS_DUE, EVENTS_TIMER, keptEvents, outboxMark, outboxRow } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { type SettledColumns, settledIn } from "../views/figures.ts";
import { type EndedPhase, endedPhases } from "../views/phase-span.ts";
import { countEvent, noTotals, type Totals } from "../views/totals.ts";
import { extendChain } from "./journal-chain.ts";

/** The name of the timer row by which an execution is loaded for its earliest retry. */
export const RETRY_TIMER = "~retry";

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
  const letters: string[] = [];
  const marks: Record<string, number> = {};
  if (slot.execution !== null)
    for (const message of unrecordedAccepts(node, slot))
      collect(into, step(slot.execution, message, node.now).events);
  const carried = carry(node, slot, into);
  const queue = slot.queue;
  const count = Math.min(queue.length, messagesMax);
  slot.queue = count === queue.length ? [] : queue.slice(count);
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
      letters.push(queued.mail);
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
    mail: letters,
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

interface Effects {
  readonly sent: Sent[];
  readonly logs: LogRow[];
}

interface Collected {
  events: Recorded[];
  readonly effects: Effects;
}

const NO_EVENTS: Recorded[] = [];

function stepOne(
  node: NodeState,
  slot: Slot,
  queued: Exclude<Queued, { kind: "mark" }>,
  into: Collected,
): { answer: Answer; existed: boolean } {
  if (queued.kind === "report") {
    const { report, worker } = queued;
    if (report.kind === "logs") return { answer: keepLines(node, slot, queued, into), existed: false };
    if (report.kind === "accepted" || report.kind === "started") {
      const verdicts = verdictsOnStarts(node, slot, report, worker);
      return { answer: { kind: "ignored", why: "nothing to step", verdicts }, existed: false };
    }
    const isNotice = report.kind === "run.started" || report.kind === "run.crashed";
    if ((isNotice && !writesRunNotices(node)) || (report.kind === "published" && !writesPublished(node)))
      return {
        answer: {
          kind: "ignored",
          why: "a node of an older version in the cluster could not read this event",
          verdicts: ["accepted"],
        },
        existed: false,
      };
    const message = slot.execution === null ? null : toMessage(node, slot, report, queued);
    if (message === null)
      return {
        answer: { kind: "ignored", why: "nothing to step", verdicts: [verdictOnRest(slot, report)] },
        existed: false,
      };
    return { answer: run(node, slot, message, into), existed: false };
  }
  const { message } = queued;
  const passed = queued.mail === undefined ? null : passOn(slot, message, queued.mail, into);
  if (passed !== null) return { answer: passed, existed: true };
  if (message.kind !== "start") {
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
  if (slot.execution !== null) {
    if (message.signal !== undefined)
      return { answer: signalInstead(node, slot, message, into), existed: true };
    if (message.gate !== undefined)
      return { answer: run(node, slot, { kind: "gate", entry: message.gate }, into), existed: true };
    // For repeated events with the same id, only the first counts. Triggers may have changed since, so a repeat may have other
    // messages.
    if (message.relays !== undefined)
      return { answer: { kind: "applied", seq: slot.execution.seq }, existed: true };
    if (queued.mail !== undefined && isNumberTaken(slot.execution, message))
      return { answer: takeNextNumber(message, queued.mail, into), existed: true };
    const answer = repeatedStart(slot.execution, message);
    // The event was sent again after the gate had forgotten it, so its execution exists already. If that execution will not report
    // its end to this gate, the gate is notified now; otherwise the gate would wait for ever.
    if (message.notifies !== undefined && queued.mail !== undefined)
      if (slot.execution.ended || slot.execution.notifies !== message.notifies)
        into.effects.sent.push({
          id: `${queued.mail}/ended`,
          to: message.notifies,
          message: { kind: "gate.ended", execution: slot.id },
        });
    if (queued.mail !== undefined) rejoin(node, slot, { message, letter: queued.mail, answer }, into);
    return { answer, existed: true };
  }
  assert(queued.plan !== undefined, "a start must come with the plan of its workflow");
  const unknown = message.signal === undefined ? null : whyUnknown(queued.plan, message.signal);
  if (unknown !== null && queued.mail === undefined) return { answer: unknown, existed: false };
  const created = create(message, queued.plan, node.now);
  slot.execution = created.execution;
  slot.refreshQueues();
  collect(into, created.events);
  for (const sent of created.sent) into.effects.sent.push(sent);
  return { answer: created.answer, existed: false };
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
  { message, letter, answer }: { message: StartMessage; letter: string; answer: Answer },
  into: Collected,
): void {
  const { parent } = message;
  const execution = slot.execution as Execution;
  // The same parent sent this start before: the message is stepped again after a commit whose outcome was unknown.
  if (parent === undefined || message.again === true || parent.since === execution.parent?.since) return;
  if (answer.kind === "rejection") {
    const payload = JSON.stringify({ code: answer.code, message: answer.message });
    into.effects.sent.push(
      endOfChild(slot.id, { id: `${letter}/refused`, parent, status: "cancelled", payload }),
    );
  } else if (execution.status === "done") {
    const payload = execution.output ?? "null";
    into.effects.sent.push(endOfChild(slot.id, { id: `${letter}/done`, parent, status: "done", payload }));
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

interface Parts {
  readonly before: number;
  readonly events: readonly Recorded[];
  readonly entries: ExecutionWrite["entries"];
  readonly snapshot: Snapshot | null;
  /** Names of timer rows of the store that are to be deleted. */
  readonly stale: readonly string[];
  readonly marks: Readonly<Record<string, number>>;
  readonly effects: Effects;
}

function buildWrite(node: NodeState, slot: Slot, parts: Parts): ExecutionWrite | null {
  const { execution } = slot;
  if (execution === null) return null;
  const timersSet: { timer: string; due: number }[] = [];
  const timersCleared: string[] = [...parts.stale];
  let deadLetters: DeadLetter[] = [];
  let clearedFrom = 0;
  /** The lowest sequence number of the failures of tasks that were chosen for a retry. */
  let chosenFrom = Number.POSITIVE_INFINITY;
  for (const { seq, event } of parts.events) {
    if (event.kind === "tasks.settled") {
      const tasks = failedIn(event);
      if (tasks.length > 0) deadLetters.push({ seq, tasks });
    } else if (event.kind === "postop.failed") {
      // A failed persistence is not added: it has failed its task, so the task is a dead letter already.
      if (event.until === null && event.op === "broadcast") deadLetters.push({ seq, tasks: [event.task] });
    } else if (event.kind === "retried") {
      // A retry repeats the reopened visit and everything after it, except for broadcasts.
      clearedFrom = execution.redoneFrom;
      deadLetters = deadLetters.filter(({ seq: before }) => before < clearedFrom);
      // @plant retry forgets broadcasts that were given up
      for (const { seq: failed, task } of execution.undeliveredAtRetry)
        if (failed >= clearedFrom) deadLetters.push({ seq: failed, tasks: [task] });
      deadLetters.push(...failuresBefore(execution, clearedFrom));
    } else if (event.kind === "tasks.retried") {
      chosenFrom = Math.min(chosenFrom, ...event.failures.filter((failed) => failed > 0));
    } else if (event.kind === "timer.set")
      // @plant timer not stored
      timersSet.push({ timer: event.timer, due: event.due });
    else if (event.kind === "timer.fired" || event.kind === "timer.cleared") timersCleared.push(event.timer);
  }
  if (chosenFrom < Number.POSITIVE_INFINITY) {
    clearedFrom = clearedFrom === 0 ? chosenFrom : Math.min(clearedFrom, chosenFrom);
    deadLetters = deadLetters.filter(({ seq }) => seq < clearedFrom);
    // @plant chosen retry forgets other dead letters
    deadLetters.push(...deadLettersFrom(execution, clearedFrom));
  }
  const opened = markOpened(node, slot, parts.marks);
  const want = slot.computeWant(node.now);
  // Owed post-operations need a row in any case, so that a new owner finds them.
  // @plant owed post-operations not found again
  const retryDue = Math.min(
    slot.owedDue,
    want === "time" ? slot.nextDue(node.now, node.settings.checkMs) : Number.POSITIVE_INFINITY,
  );
  const retryRow = retryDue === Number.POSITIVE_INFINITY ? 0 : retryDue;
  slot.retryFired = false;
  if (retryRow !== slot.retryRow) {
    if (retryRow === 0) timersCleared.push(RETRY_TIMER);
    else timersSet.push({ timer: RETRY_TIMER, due: retryRow });
  }
  const outbox = node.settings.outbox ? outboxRow(slot) : null;
  if (outbox === "set") timersSet.push({ timer: EVENTS_TIMER, due: EVENTS_DUE });
  else if (outbox === "cleared") timersCleared.push(EVENTS_TIMER);
  const head = headOf(execution, slot.tenure.partition, want);
  const headKey = headKeyOf(head);
  const isNothing =
    parts.events.length === 0 &&
    opened === null &&
    parts.effects.logs.length === 0 &&
    parts.effects.sent.length === 0 &&
    headKey === slot.headKey &&
    timersSet.length === 0 &&
    timersCleared.length === 0;
  if (isNothing) return null;
  if (node.settings.outbox) Object.assign(slot.carefulMarks, outboxMark(slot, outbox));
  const marks = Object.keys(slot.carefulMarks).length === 0 ? opened : { ...slot.carefulMarks, ...opened };
  Object.assign(slot.opened, slot.carefulMarks);
  slot.carefulMarks = {};
  const headChanged = headKey !== slot.headKey;
  slot.want = want;
  slot.headKey = headKey;
  slot.storedWant = want;
  slot.retryRow = retryRow;
  slot.chain = extendChain(slot.chain, parts.entries);
  countRows(slot, parts);
  const write: Writable = {
    execution: slot.id,
    create: parts.before === 0,
    after: parts.before,
    entries: parts.entries,
    chain: slot.chain,
    head: headChanged ? head : null,
    // A timer that one step both sets and clears is not written.
    timersSet: timersSet.filter(
      ({ timer, due }) => isOwnRow(timer) || execution.timers.get(timer)?.due === due,
    ),
    timersCleared: timersCleared.filter((timer) => isOwnRow(timer) || !execution.timers.has(timer)),
    opened: marks,
    snapshot: parts.snapshot,
  };
  const { sent, logs } = parts.effects;
  if (sent.length > 0) write.mail = sent.map(toMailboxMessage);
  if (logs.length > 0) write.logs = logs;
  if (deadLetters.length > 0) write.deadLetters = deadLetters;
  // @plant retry leaves dead letters
  if (clearedFrom > 0) write.deadLettersCleared = clearedFrom;
  return write;
}

/**
 * Returns the dead letters with a sequence number of at least `from` that belong to visits which began earlier. Their tasks failed
 * again in a round of chosen tasks. A retry does not repeat these visits.
 */
function failuresBefore({ kept }: Execution, from: number): DeadLetter[] {
  const bySeq = new Map<number, number[]>();
  for (const { firstSeq, handlers } of kept)
    for (const { tasks, total } of firstSeq < from ? handlers : [])
      for (let task = 0; tasks.failed.size > 0 && task < total; task++) {
        const seq = tasks.failed.has(task) ? tasks.resultOf(task) : 0;
        if (seq >= from) bySeq.set(seq, [...(bySeq.get(seq) ?? []), task]);
      }
  return Array.from(bySeq, ([seq, tasks]) => ({ seq, tasks }));
}

/** Derives the dead letters with a sequence number of at least `from` from the state of the execution. */
function deadLettersFrom(execution: Execution, from: number): DeadLetter[] {
  const bySeq = new Map<number, number[]>();
  const add = (seq: number, task: number) => {
    if (seq >= from) bySeq.set(seq, [...(bySeq.get(seq) ?? []), task]);
  };
  const { current, kept } = execution;
  const isKept = current !== null && execution.keptVisit(current.plan.name, current.visit) !== undefined;
  for (const { handlers } of current === null || isKept ? kept : [current, ...kept])
    for (const { tasks, total } of handlers)
      for (let task = 0; tasks.failed.size > 0 && task < total; task++)
        if (tasks.failed.has(task)) add(tasks.resultOf(task), task);
  for (const { seq, task } of execution.undelivered.values()) add(seq, task);
  return Array.from(bySeq, ([seq, tasks]) => ({ seq, tasks })).sort((a, b) => a.seq - b.seq);
}

/** Whether the timer is the engine's own row in the store, and not part of the execution's state. */
function isOwnRow(timer: string): boolean {
  return timer === RETRY_TIMER || timer === EVENTS_TIMER;
}

type Writable = { -readonly [Field in keyof ExecutionWrite]: ExecutionWrite[Field] };

function failedIn({ tasks, statuses }: TasksSettled): number[] {
  const failed: number[] = [];
  for (let i = 0; i < tasks.length; i++) if (statuses[i] === "failed") failed.push(tasks[i] as number);
  return failed;
}

/** Marks pages as opened ahead of need, so that leases do not need a commit of their own. */
function markOpened(
  node: NodeState,
  slot: Slot,
  asked: Readonly<Record<string, number>>,
): Record<string, number> | null {
  const marks: Record<string, number> = { ...asked };
  Object.assign(slot.opened, asked);
  for (const queue of slot.queues) {
    const { state } = queue;
    if (!state.paged || state.finished || queue.offeredEnd >= state.total) continue;
    // Includes released tasks beyond the cursor, because they may be granted next.
    const ahead = Math.max(queue.cursor + node.settings.openTasksAhead, state.tasks.releasedEnd);
    const wanted = Math.min(state.total, ahead);
    if (wanted <= queue.offeredEnd) continue;
    const end = state.pageEnd(wanted - 1);
    queue.opened = end;
    slot.opened[queue.markName] = end;
    // @plant page opened without a mark
    marks[queue.markName] = end;
  }
  return Object.keys(marks).length === 0 ? null : marks;
}

/** Counts the journal rows and their characters since the newest snapshot. */
function countRows(slot: Slot, { snapshot, entries }: Pick<Parts, "snapshot" | "entries">): void {
  if (snapshot !== null) {
    slot.rowsSinceSnapshot = 0;
    slot.charsSinceSnapshot = 0;
    slot.snapshotChars = snapshot.body.length;
  }
  slot.rowsSinceSnapshot += entries.length;
  slot.charsSinceSnapshot += charsIn(entries);
}

/** A snapshot with more characters than this counts as large. */
const LARGE_CHARS = 262_144;
/**
 * After a large snapshot, the next one is written after this many times the usual number of rows at the latest. That bounds the rows
 * that a load replays.
 */
const LARGE_ROWS = 16;

/**
 * Whether enough rows were written since the last snapshot. After a large snapshot, the rows must also have as many characters as
 * that snapshot. Otherwise an execution that settles many tasks one by one would write its whole state again and again.
 */
function isSnapshotDue(
  { rowsSinceSnapshot, charsSinceSnapshot, snapshotChars }: Slot,
  snapshotRows: number,
): boolean {
  if (rowsSinceSnapshot < snapshotRows) return false;
  const isLarge = snapshotChars > LARGE_CHARS;
  return !isLarge || charsSinceSnapshot >= snapshotChars || rowsSinceSnapshot >= snapshotRows * LARGE_ROWS;
}

/** Takes a snapshot of the committed state, if one is due, before new messages are stepped. */
function takeSnapshot(node: NodeState, slot: Slot): Snapshot | null {
  const { execution } = slot;
  if (execution === null || !isSnapshotDue(slot, node.settings.snapshotRows)) return null;
  const { fold: foldVersion } = node.settings.vocabulary;
  return {
    seq: execution.seq,
    foldVersion,
    chain: slot.chain,
    body: seal(
      /* @plant snapshot of an older state */ writeSnapshot(execution),
      snapshotKey(slot.id, execution.seq),
    ),
  };
}

/** Joins the fields of a head that can change into a text. The head is written again if this text has changed. */
export function headKeyOf(head: Head): string {
  return `${head.status}/${head.phase}/${head.want}/${head.finishedAt ?? ""}/${currentHash(head)}`;
}

/** The head of an execution: the small row that lists show. */
export function headOf(execution: Execution, partition: number, want: Want): Head {
  return {
    id: execution.id,
    partition,
    workflow: execution.plan.definition.name,
    hash: execution.hash,
    project: execution.project,
    status: execution.shownStatus,
    phase: execution.ended ? null : (execution.current?.plan.name ?? null),
    want,
    // Priorities belong to handlers. The column of the stored rows is not in use.
    priority: 0,
    createdAt: execution.createdAt,
    // The first execution of an id is kept until the newest one has ended, so its retention begins with that end.
    finishedAt: execution.ended ? (execution.newestEndedAt ?? execution.finishedAt) : null,
    tags: headTags(execution.tags, execution.hash, execution.plan.hash),
    error:
      execution.ended && execution.error !== null
        ? `${execution.error.code}: ${execution.error.message}`.slice(0, 500)
        : null,
  };
}
