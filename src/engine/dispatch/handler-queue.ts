/** The queue of a handler in the current visit: fresh tasks (by a cursor), requeued tasks, parked tasks, and leases. */
import type { Place } from "../../kernel/event.ts";
import type { HandlerState, Visit } from "../../kernel/execution.ts";
import type { RecordedStart } from "../../kernel/tasks/task-table.ts";
import type { PhaseCounts, ReportPlace } from "../../protocol/work.ts";
import { backOffMs } from "../../std/back-off.ts";
import { Heap } from "../../std/heap.ts";
import { SparseSet } from "../../std/sparse.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { UncleanEnd } from "../../store/store.ts";
import type { Page } from "../cache/page-cache.ts";
import { ENUMERATION, isSent, type Lease } from "../leases/lease.ts";

/** The most tasks that are parked because the limit of their key is reached. Beyond that, no fresh tasks are dequeued. */
const PARKED_MAX = 100_000;
/** The back-off of a task that must run alone, while no worker without other tasks is found. */
const ASIDE = { minMs: 5_000, maxMs: 60_000 } as const;
/** The most due retries that the queue takes at a time; others follow as these are dequeued. */
const BACK_MAX = 4_096;
/** The most commands of one handler whose results wait to be persisted. */
const HELD_MAX = 64;
/** An execution may leave memory while at most this many commands of a handler are at the broker. */
const SENT_MAX = 16;
/** The longest time between two checks of a command at a broker, as a multiple of the time before the first check. */
const CHECKS_MAX = 8;
/** A task that has crashed the process of its worker this often runs alone on a worker. */
export const ALONE_AFTER_CRASHES = 2;

export class HandlerQueue {
  readonly visit: Visit;
  readonly state: HandlerState;
  readonly round: number;
  readonly leases = new TransientMap<number, Lease>();
  /** The end of the pages that are durably marked as opened. Tasks beyond it are not leased. */
  opened: number;
  /** Tasks below this number may have started before an unclean stop. Their next starts are journaled before the tasks are given out. */
  carefulBelow = 0;
  /** The time until which tasks without a recorded start may still run at workers of a former owner. */
  suspectUntil = 0;
  /** Whether a new enumeration can begin, because the worker that enumerated for a former owner has reported and was told to stop. */
  isEnumerationFree = false;
  /** The time until which attempts whose starts a former owner recorded may send heartbeats. After that, they are lost. */
  lostAt = 0;
  /** The times at which attempts with recorded starts can no longer be adopted, by the epoch of the owner that held them last. */
  adoptable: readonly UncleanEnd[] = [];
  suspectsJudged = false;
  /** Whether the loss of attempts of a former owner is being journaled. Until that is done, no task is leased. */
  isLosing = false;
  page: Page | null = null;
  /**
   * The key of the handler's only task, whose data is the input of the execution; null if it has none; undefined if it is not
   * computed yet.
   */
  inputKey: string | null | undefined;
  /** The index of the first page that is kept in memory; all pages before it are settled. */
  pagesDropped = 0;
  /** The task counts of earlier phases, which are sent with grants. */
  counts: PhaseCounts | null = null;
  /** Sequence numbers of the rows with results that were read for a compensation. */
  readonly resultSeqs = new Set<number>();
  /** The index of the page that is being read from the store; -1 if there is none. */
  fetching = -1;
  /** The number of the turn in which the handler last got a worker. */
  servedAt = 0;
  /** The time at which a worker was last offered work of the handler; at first the time of the execution's last step. */
  waitsSince = 0;
  /** The number of leases whose receipt has not arrived. */
  openLeases = 0;
  /** The names of code under which the queue is in the dispatcher's rings. */
  readonly queued: string[] = [];
  #cursor = 0;
  readonly #back = new Heap<number>(isBefore);
  readonly #isBack = new SparseSet<number>();
  #parked: Map<string, number[]> | null = null;
  /** The claim number with which each attempt begins. It is above all claim numbers that were used before this queue was created. */
  #firstClaim: number;
  /** For each task, the number of claims of its next attempt that lapsed before the attempt started. */
  #lapsed: Map<number, number> | null = null;
  #parkedCount = 0;
  /** The number of tasks that were taken from the queue and wait for a worker without other tasks, to run alone. */
  #heldAlone = 0;
  /** The tasks that are parked, set aside, or held to run alone. They return to the queue from there, and only from there. */
  readonly #isOut = new SparseSet<number>();
  /** Tasks that were set aside: `until` is when the task is queued again (0 if it is queued now), `tries` how often it was set aside. */
  #aside: Map<number, { until: number; tries: number }> | null = null;

  constructor(visit: Visit, state: HandlerState, firstClaim: number) {
    this.visit = visit;
    this.round = visit.round;
    this.state = state;
    this.#firstClaim = firstClaim;
    this.opened = firstPageEnd(state);
  }

  /** Identifies the handler, visit and round of this queue. */
  get key(): string {
    return `${this.visit.plan.name}.${this.visit.visit}.${this.state.plan.name}.${this.round}`;
  }

  /** Whether this is the queue of the given handler in the given visit and its current round. */
  serves(visit: Visit, handler: string): boolean {
    return (
      this.visit.plan.name === visit.plan.name &&
      this.visit.visit === visit.visit &&
      this.round === visit.round &&
      this.state.plan.name === handler
    );
  }

  get place(): Place {
    return this.visit.place(this.state.plan.name);
  }

  /** Returns the handler's execution, phase, visit and round, in the form of heartbeats and reports. */
  placeIn(execution: string): Omit<ReportPlace, "epoch"> {
    return { ...this.place, execution, round: this.visit.round };
  }

  get markName(): string {
    return `${this.visit.plan.name}.${this.visit.visit}.${this.state.plan.name}`;
  }

  /** The first task that may be fresh: all tasks before it are settled, leased or requeued. */
  get cursor(): number {
    this.#advanceCursor();
    return this.#cursor;
  }

  get parked(): number {
    return this.#parkedCount;
  }

  /** The end of the tasks that may be leased now. Tasks of pages that are not marked as opened come after it. */
  get offeredEnd(): number {
    return this.state.paged
      ? Math.min(this.state.total, Math.max(this.opened, firstPageEnd(this.state)))
      : this.state.offered;
  }

  /** The number of open leases of commands at a broker; 0 if they are many. Such leases need not be kept in memory, if they are few. */
  get sentLeases(): number {
    if (this.state.plan.command === null || this.leases.size > SENT_MAX) return 0;
    let n = 0;
    for (const lease of this.leases.values()) if (isSent(lease)) n++;
    return n;
  }

  /**
   * When a command at a broker must be checked, because its receipt is overdue or the command may be lost. The time may be in the
   * past.
   */
  receiptDue(now: number, checkMs: number): number {
    const { command, timeoutMs } = this.state.plan;
    let due = Number.POSITIVE_INFINITY;
    if (command === null) return due;
    if (timeoutMs !== null)
      for (const { dueAt, reported } of this.leases.values()) if (!reported && dueAt < due) due = dueAt;
    if (this.sentLeases > 0)
      for (const { sentAt } of this.leases.values()) due = Math.min(due, nextCheck(sentAt, now, checkMs));
    return due;
  }

  /** Whether the handler needs an enumeration attempt at `now`. */
  wantsEnumeration(now: number): boolean {
    const { state } = this;
    if (state.sealed || state.plan.waits || state.plan.definition.tasks !== undefined) return false;
    if ((state.impliesTask && !state.paged) || this.fetching >= 0) return false;
    const { failed, until } = state.enumeration;
    return !failed && until <= now && !this.leases.has(ENUMERATION) && this.#mayEnumerate(now);
  }

  /** Whether it is certain that no enumeration of a former owner is still running. */
  #mayEnumerate(now: number): boolean {
    return this.suspectUntil <= now || this.isEnumerationFree;
  }

  /** Whether tasks can be dequeued at `now`. */
  hasTasks(now: number): boolean {
    if (this.state.plan.waits || this.suspectUntil > now || this.isLosing || this.fetching >= 0) return false;
    if (this.state.impliesTask && this.leases.has(ENUMERATION)) return false;
    // Receipted results that wait to be persisted are held in memory, so no more commands are sent while they are many.
    if (this.state.receipted.size > 0 && this.state.held >= HELD_MAX) return false;
    this.refill(now);
    this.#dropSettled();
    if (this.#back.size > 0) return true;
    if (this.#parkedCount >= PARKED_MAX) return false;
    return this.#advanceCursor() >= 0;
  }

  /** Requeues tasks whose retry time has come. */
  refill(now: number): void {
    const { tasks } = this.state;
    for (const [task, aside] of this.#aside ?? []) {
      if (aside.until === 0 || aside.until > now) continue;
      aside.until = 0;
      this.#isOut.delete(task);
      this.requeue(task);
    }
    if (tasks.nextDue() > now || this.#back.size >= BACK_MAX) return;
    for (const task of tasks.takeDue(now, BACK_MAX)) {
      // After an execution was loaded again, a leased task may still have its old retry time. The lease takes precedence.
      const lease = this.leases.get(task);
      const isOver = lease === undefined ? !this.#isInDoubt(task) : lease.attempt <= tasks.ended(task);
      if (isOver) this.requeue(task);
    }
  }

  /** Returns the oldest task that can be dequeued; -1 if there is none. */
  peek(now: number): number {
    if (!this.hasTasks(now)) return -1;
    const back = this.#back.peek();
    const fresh = this.#parkedCount >= PARKED_MAX ? -1 : this.#advanceCursor();
    if (back === undefined) return fresh;
    return fresh < 0 || back < fresh ? back : fresh;
  }

  /** Whether the task must go to a worker that gets its journaled steps. Over a broker, only the journaled runs of scripts are sent. */
  needsJournal(task: number): boolean {
    const { progress, plan } = this.state;
    return plan.mode !== "script" && (progress.tasks.get(task)?.size ?? 0) > 0;
  }

  /** Removes the task that `peek` returned. */
  dequeue(task: number): void {
    if (!this.#isBack.delete(task)) this.#cursor = task + 1;
    else if (this.#back.peek() === task) this.#back.pop();
    else this.#back.remove(task);
  }

  /** Sets a task aside that must run alone but found no worker without other tasks. The task is requeued after a back-off. */
  setAside(task: number, now: number): void {
    this.#aside ??= new Map();
    const tries = (this.#aside.get(task)?.tries ?? 0) + 1;
    this.#aside.set(task, { until: now + backOffMs(tries - 1, ASIDE), tries });
    this.#isOut.add(task);
  }

  /** Holds a task that was dequeued, until `endHold`, for a worker on which it can run alone. */
  holdAlone(task: number): void {
    this.#heldAlone++;
    this.#isOut.add(task);
  }

  endHold(task: number): void {
    this.#heldAlone--;
    this.#isOut.delete(task);
  }

  get hasAside(): boolean {
    for (const { until } of this.#aside?.values() ?? []) if (until > 0) return true;
    return false;
  }

  /**
   * Puts a task that was dequeued, and is pending again, back into the queue. A task can become due while it is out of the queue,
   * for example if two of its waits end; then it stays there, since a second place would grant its attempt twice.
   */
  requeue(task: number): void {
    // @plant parked task queued again
    if (this.#isOut.has(task)) return;
    if (this.#isBack.has(task) || this.state.isClosed(task)) return;
    this.#isBack.add(task);
    this.#back.push(task);
  }

  /** Parks a task until the limit of its key has a free permit. */
  park(key: string, task: number): void {
    this.#parked ??= new Map();
    const parked = this.#parked.get(key) ?? [];
    // Inserts the task by its age: a task that was parked, requeued and parked again is older than others of its key.
    let at = parked.length;
    while (at > 0 && (parked[at - 1] as number) > task) at--;
    parked.splice(at, 0, task);
    this.#parked.set(key, parked);
    this.#parkedCount++;
    this.#isOut.add(task);
  }

  /** Whether a task older than this one is parked because of the same key. */
  hasOlderParked(key: string, task: number): boolean {
    return (this.#parked?.get(key)?.[0] ?? Number.POSITIVE_INFINITY) < task;
  }

  /** Requeues the oldest task that is parked because of this key. */
  unpark(key: string): boolean {
    const parked = this.#parked?.get(key);
    if (parked === undefined) return false;
    for (;;) {
      const task = parked.shift();
      if (parked.length === 0) this.#parked?.delete(key);
      if (task === undefined) return false;
      this.#parkedCount--;
      this.#isOut.delete(task);
      // A late receipt may have settled the task while it was parked.
      if (this.state.isClosed(task)) continue;
      this.requeue(task);
      return true;
    }
  }

  /** The key because of which most tasks are parked; null if no task is parked. */
  get fullestKey(): string | null {
    let fullest: string | null = null;
    let most = 0;
    for (const [key, parked] of this.#parked ?? []) {
      if (parked.length <= most) continue;
      most = parked.length;
      fullest = key;
    }
    return fullest;
  }

  hasParked(key: string): boolean {
    return this.#parked?.has(key) ?? false;
  }

  /** Whether all open tasks wait for a time or for children. Then the execution can leave memory. */
  waitsForTimeOnly(now: number): boolean {
    const { state } = this;
    if (state.finished || state.plan.waits) return true;
    const sent = this.sentLeases;
    if (this.openLeases > sent || this.#heldAlone > 0 || this.isSuspect(now) || this.fetching >= 0)
      return false;
    if (!state.sealed && !(state.impliesTask && (state.tasks.ended(0) > 0 || sent > 0))) {
      if (state.impliesTask || state.enumeration.until <= now) return false;
    }
    // With as many open children as its concurrency allows, a handler makes progress only when a child ends.
    if (state.openChildren >= (state.plan.definition.concurrency ?? Number.POSITIVE_INFINITY)) return true;
    if (this.#back.size > 0 || this.#parkedCount > 0 || this.hasAside || state.tasks.nextDue() <= now)
      return false;
    return this.#advanceCursor() < 0 && this.opened >= state.total;
  }

  /** The next time after `now` at which a task becomes ready without a message; Infinity if there is none. */
  nextDue(now: number): number {
    const { state } = this;
    if (state.finished || state.plan.waits) return Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const { until } of this.#aside?.values() ?? []) if (until > now && until < next) next = until;
    const enumerationAt = state.sealed ? 0 : state.enumeration.until;
    for (const at of [state.tasks.nextDue(), enumerationAt]) if (at > now && at < next) next = at;
    return Math.min(next, this.nextSuspectEnd(now));
  }

  /** The next time after `now` at which attempts of a former owner can no longer be adopted; Infinity if there is none. */
  nextSuspectEnd(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const at of [this.suspectUntil, this.lostAt]) if (at > now && at < next) next = at;
    if (this.lostAt > now) for (const { at } of this.adoptable) if (at > now && at < next) next = at;
    return next;
  }

  /**
   * Returns the time until which an attempt with a recorded start can be adopted. That is one heartbeat after the end of the last
   * owner that held the attempt: the owner that recorded its start last, or the owner that granted it in `epoch`. Then the permits of
   * the attempt become free.
   */
  adoptableUntil(start: RecordedStart, epoch: number): number {
    if (start.epoch === undefined) return this.lostAt;
    const heldIn = Math.max(start.epoch, epoch);
    // @plant attempt adopted after its permit was given back
    return Math.min(this.lostAt, this.adoptable.find((one) => one.epoch >= heldIn)?.at ?? this.lostAt);
  }

  /** Takes over the leases of the previous queue for the same handler, visit and round, after the state of the execution was dropped. */
  inherit(before: HandlerQueue): void {
    // Copies all leases, even those that the dropped messages had ended: these messages are stepped again, and end the leases then.
    for (const [task, lease] of before.leases) this.leases.set(task, lease);
    this.openLeases = [...this.leases.values()].filter((lease) => !lease.reported).length;
    this.#firstClaim = before.#firstClaim;
    this.#lapsed = before.#lapsed;
    this.carefulBelow = before.carefulBelow;
    this.suspectUntil = before.suspectUntil;
    this.isEnumerationFree = before.isEnumerationFree;
    this.lostAt = before.lostAt;
    this.adoptable = before.adoptable;
    this.suspectsJudged = before.suspectsJudged;
    this.isLosing = before.isLosing;
  }

  /** Whether attempts of a former owner may still send heartbeats. */
  isSuspect(now: number): boolean {
    return this.suspectUntil > now || this.lostAt > now;
  }

  /** Whether a former owner recorded a start of the task, and the attempt has neither sent a heartbeat nor been declared lost. */
  #isInDoubt(task: number): boolean {
    // @plant recorded attempts given out again while they are in doubt
    return this.lostAt > 0 && !this.suspectsJudged && this.state.tasks.startOf(task) !== undefined;
  }

  /** Returns the claim number for the next lease of a task. */
  claimOf(task: number): number {
    return this.#firstClaim + this.lapsesOf(task);
  }

  /** Returns how many claims of the task's next attempt have lapsed before the attempt started, as far as this queue knows. */
  lapsesOf(task: number): number {
    return this.#lapsed?.get(task) ?? 0;
  }

  /** Counts a claim that lapsed before its attempt started. The attempt keeps its number and gets another claim number. */
  lapse(task: number): void {
    this.#lapsed ??= new Map();
    this.#lapsed.set(task, this.lapsesOf(task) + 1);
  }

  /** Drops the count of lapsed claims of an attempt that has ended. */
  forgetLapses(task: number): void {
    this.#lapsed?.delete(task);
  }

  /** Removes requeued tasks that a receipt has settled since, and unparks tasks that may have waited for them. */
  #dropSettled(): void {
    let isOne = false;
    for (
      let task = this.#back.peek();
      task !== undefined && this.state.isClosed(task);
      task = this.#back.peek()
    ) {
      this.#back.pop();
      this.#isBack.delete(task);
      isOne = true;
    }
    if (isOne) for (const key of [...(this.#parked?.keys() ?? [])]) this.unpark(key);
  }

  /** Moves the cursor to the next fresh task and returns it; -1 if there is none. */
  #advanceCursor(): number {
    const { tasks } = this.state;
    const end = this.offeredEnd;
    for (;;) {
      const n = tasks.settled.nextMissing(this.#cursor, end);
      if (n < 0) {
        this.#cursor = Math.max(this.#cursor, end);
        return -1;
      }
      this.#cursor = n;
      // A task is not fresh if it has a retry time, a lease or a place among the requeued tasks.
      if (tasks.until(n) === 0 && !this.leases.has(n) && !this.#isBack.has(n) && !this.#isInDoubt(n))
        return n;
      this.#cursor = n + 1;
    }
  }
}

/** Returns when a command at a broker is checked next. The interval between checks doubles up to a maximum. */
function nextCheck(sentAt: number, now: number, checkMs: number): number {
  let step = checkMs;
  let at = sentAt + step;
  while (at <= now && step < checkMs * CHECKS_MAX) {
    step *= 2;
    at = sentAt + step;
  }
  return at > now ? at : at + Math.ceil((now - at + 1) / step) * step;
}

function isBefore(a: number, b: number): boolean {
  return a < b;
}

function firstPageEnd(state: HandlerState): number {
  return state.pageFrom[1] ?? state.total;
}
