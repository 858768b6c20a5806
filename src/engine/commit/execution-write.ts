/**
 * Builds the part of a commit for one execution: its events as rows, its head, timers, marks, dead letters, logs and mail, and a snapshot if
 * one is due.
 */
import type { Recorded, TasksSettled } from "../../kernel/event.ts";
import type { Execution } from "../../kernel/execution.ts";
import { charsIn } from "../../kernel/journal/journal-entry.ts";
import { snapshotKey, writeSnapshot } from "../../kernel/journal/snapshot.ts";
import type { Sent } from "../../kernel/message.ts";
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
import type { Slot } from "../cache/slot.ts";
import { toMailboxMessage } from "../mailbox/mailbox.ts";
import { EVENTS_DUE, EVENTS_TIMER, outboxMark, outboxRow } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { extendChain } from "./journal-chain.ts";

/** The name of the timer row by which an execution is loaded for its earliest retry. */
export const RETRY_TIMER = "~retry";

/** The mail and the log lines of a step. */
export interface Effects {
  readonly sent: Sent[];
  readonly logs: LogRow[];
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

interface EventRows {
  readonly timersSet: { timer: string; due: number }[];
  readonly timersCleared: readonly string[];
  readonly deadLetters: readonly DeadLetter[];
  /** Dead letters from this sequence number on are deleted; 0 if none are. */
  readonly clearedFrom: number;
}

/** Collects the timers and dead letters that the events of a step set and clear. */
function rowsOf(execution: Execution, events: readonly Recorded[]): EventRows {
  const timersSet: { timer: string; due: number }[] = [];
  const timersCleared: string[] = [];
  let deadLetters: DeadLetter[] = [];
  let clearedFrom = 0;
  /** The lowest sequence number of the failures of tasks that were chosen for a retry. */
  let chosenFrom = Number.POSITIVE_INFINITY;
  for (const { seq, event } of events) {
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
  return { timersSet, timersCleared, deadLetters, clearedFrom };
}

/** Builds the part of a commit for one execution; null if nothing of it is to be written. */
export function buildWrite(node: NodeState, slot: Slot, parts: Parts): ExecutionWrite | null {
  const { execution } = slot;
  if (execution === null) return null;
  const { timersSet, timersCleared: cleared, deadLetters, clearedFrom } = rowsOf(execution, parts.events);
  const timersCleared = [...parts.stale, ...cleared];
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

/** Derives the dead letters with a sequence number of at least `from` from the state of the execution at its last retry of tasks, and since. */
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
  // A broadcast may have been retried in the same step, after the tasks. Its dead letter stays until a later retry of tasks.
  for (const { seq, task } of new Set([...execution.undeliveredAtRetry, ...execution.undelivered.values()]))
    add(seq, task);
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
export function takeSnapshot(node: NodeState, slot: Slot): Snapshot | null {
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
