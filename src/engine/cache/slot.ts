/**
 * One execution in memory. Clean: its state is what is committed, so it may grant and be read. Dirty: a commit with
 * its events is under way, so its messages wait. That alone keeps every gate on committed state.
 */

import { holdsTasks } from "../../kernel/command/owed-op.ts";
import type { Plan } from "../../kernel/definition/plan.ts";
import type { Execution, HandlerState, Visit } from "../../kernel/execution.ts";
import type { Message, Verdict } from "../../kernel/message.ts";
import type { Beat, Grant, Report, ReportedAttempt } from "../../protocol/work.ts";
import type { Want } from "../../store/store.ts";
import { HandlerQueue } from "../dispatch/handler-queue.ts";
import { isSent } from "../leases/lease.ts";
import type { Tenure } from "../partitions/tenures.ts";

export interface HeldGrant {
  readonly worker: string;
  readonly grant: Grant;
}

/** A message as it waits for its turn, with whom to answer. */
export type Queued =
  | {
      readonly kind: "message";
      readonly message: Message;
      readonly request: number | null;
      readonly plan?: Plan | undefined;
      /** Whoever asked wants to know how the execution is after it. */
      readonly views?: boolean | undefined;
      /** A grant that is given out once this message (its start) is committed. */
      readonly held?: HeldGrant;
      /** The letter that brought it: gone with the commit that applies it. */
      readonly mail?: string;
    }
  /** Writes marks: pages opened, or the start of an enumeration after an unclean stop. */
  | {
      readonly kind: "mark";
      readonly mark: { readonly name: string; readonly value: number } | null;
      readonly held?: HeldGrant;
    }
  | {
      readonly kind: "report";
      readonly report: Report;
      readonly worker: string;
      readonly answer: ReportAnswer;
      readonly index: number;
    };

/** Collects the verdicts of one batch of reports, which may concern several executions. */
export interface ReportAnswer {
  readonly worker: string;
  readonly report: number;
  readonly verdicts: (readonly Verdict[])[];
  open: number;
}

/** Somebody waits for how the execution is, and perhaps one of its attempts. */
export interface SlotInspection {
  readonly request: number;
  readonly attempt: ReportedAttempt | null;
}

export class Slot {
  readonly id: string;
  readonly tenure: Tenure;
  execution: Execution | null = null;
  status: "loading" | "clean" | "dirty" = "loading";
  queue: Queued[] = [];
  inspections: SlotInspection[] = [];
  /** Beats that came while it was loading. */
  readonly beats: { beat: Beat; worker: string }[] = [];
  /** Claims that were given back while it was loading. */
  readonly releases: { beat: Beat; worker: string }[] = [];
  queues: HandlerQueue[] = [];
  /** Desks of visits that are over once the commit under way is. */
  closedQueues: HandlerQueue[] = [];
  chain = "";
  /** What the store's head row says, to write it only when it changes. */
  headKey = "";
  want: Want = "work";
  /** The want in the store's head row. */
  storedWant: Want = "work";
  /** The due time of the retry row in the store; 0: none. */
  retryRow = 0;
  /** Its time has come: if it changes nothing, it has to go, or it would come again with every scan. */
  retryFired = false;
  rowsSinceSnapshot = 0;
  opened: Record<string, number> = {};
  /** Marks that go along with the next write, whatever that is. */
  carefulMarks: Record<string, number> = {};
  /** Loaded after an unclean stop: leases of a former owner may be open. */
  suspect = false;
  /** In the node's list of slots with messages to step. */
  isRunnable = false;
  /** The retry wake-up in the node's heap; 0: none. */
  wakeAt = 0;
  /** A scan for work saw it while it was in memory, and has gone past it. */
  wasPassed = false;
  /** It came from the store. */
  wasLoaded = false;
  /** The (project, workflow) pair it is counted under among the slots with work; null: it is not. */
  countedAs: string | null = null;

  /** The version of the events that it goes on with: above what may be written, its messages wait. */
  needs = 0;
  /** How far its events are published, and given out to be; and whether the store says that some are not. */
  published = 0;
  publishing = 0;
  hasEventsRow = false;

  /** Something of it could not be read: its next load is of the whole journal, and decides whether it is damaged. */
  isDoubted = false;

  /** The load that it waits for, by its number. */
  load = 0;

  constructor(id: string, tenure: Tenure) {
    this.id = id;
    this.tenure = tenure;
  }

  /** Forgets everything that came from steps whose commit failed; leases stay with their desks. */
  reset(): void {
    this.execution = null;
    this.status = "loading";
    this.chain = "";
    this.headKey = "";
    this.want = "work";
    this.storedWant = "work";
    this.retryRow = 0;
    this.rowsSinceSnapshot = 0;
    this.opened = {};
  }

  /** How old the execution is, as a number that grows with its time of creation: the same wherever it was between. */
  get age(): number {
    return this.execution?.createdAt ?? 0;
  }

  /** Handlers whose attempts of a former owner may still run, or are lost and the journal does not say so yet. */
  get suspects(): readonly string[] {
    if (!this.suspect) return [];
    return this.queues
      .filter(({ suspectUntil, lostAt, isLosing }) => suspectUntil > 0 || lostAt > 0 || isLosing)
      .map(({ key }) => key);
  }

  get openLeases(): number {
    let n = 0;
    for (const queue of this.queues) n += queue.openLeases;
    return n;
  }

  /** Open leases of commands that the broker has. */
  get sentLeases(): number {
    let n = 0;
    for (let i = 0; i < this.queues.length; i++) n += (this.queues[i] as HandlerQueue).sentLeases;
    return n;
  }

  /** Those of them that the store knows. */
  get markedLeases(): number {
    let n = 0;
    for (const queue of this.queues)
      if (queue.sentLeases > 0)
        for (const lease of queue.leases.values()) if (isSent(lease) && lease.isMarked) n++;
    return n;
  }

  get leaseCount(): number {
    let n = 0;
    for (let i = 0; i < this.queues.length; i++) n += (this.queues[i] as HandlerQueue).leases.size;
    return n;
  }

  /** With those of visits that end, as it seems, by what is not committed: until it is, their leases are open. */
  get allQueues(): readonly HandlerQueue[] {
    return this.closedQueues.length === 0 ? this.queues : [...this.queues, ...this.closedQueues];
  }

  /** Makes the desks fit the current visit and round, keeping those that still do (with their leases). */
  refreshQueues(): void {
    const visit = this.execution?.current ?? null;
    if (visit === null || visit.status !== "running") {
      this.closedQueues.push(...this.queues);
      this.queues = [];
      return;
    }
    if (this.#fits(visit)) return;
    const old = this.queues;
    const kept = new Set<HandlerQueue>();
    this.queues = visit.handlers.map((state) => this.#queueFor(visit, state, kept));
    for (const queue of old) if (!kept.has(queue)) this.closedQueues.push(queue);
  }

  #fits(visit: Visit): boolean {
    const { queues } = this;
    if (queues.length !== visit.handlers.length) return false;
    for (let i = 0; i < queues.length; i++) {
      const queue = queues[i] as HandlerQueue;
      if (queue.state !== visit.handlers[i] || queue.round !== visit.round) return false;
    }
    return true;
  }

  /** The desk of a handler: the one it has, or a new one, which takes over the leases of one whose state was dropped. */
  #queueFor(visit: Visit, state: HandlerState, kept: Set<HandlerQueue>): HandlerQueue {
    const isSame = (queue: HandlerQueue) => queue.serves(visit, state.plan.name);
    const same = this.queues.find(isSame) ?? this.closedQueues.find(isSame);
    if (same !== undefined) kept.add(same);
    if (same !== undefined && same.state === state) return same;
    const handlerQueue = new HandlerQueue(visit, state, this.tenure.lapses);
    handlerQueue.opened = Math.max(handlerQueue.opened, this.opened[handlerQueue.markName] ?? 0);
    if (same !== undefined) {
      handlerQueue.inherit(same);
      this.closedQueues = this.closedQueues.filter((closed) => closed !== same);
    }
    return handlerQueue;
  }

  handlerQueue(place: { phase: string; visit: number; handler: string }): HandlerQueue | undefined {
    return this.queues.find(
      (queue) =>
        queue.state.plan.name === place.handler &&
        queue.visit.plan.name === place.phase &&
        queue.visit.visit === place.visit,
    );
  }

  /** What the execution needs from its owner at `now`. */
  computeWant(now: number): Want {
    const { execution } = this;
    if (execution === null) return "nothing";
    // Its retry row brings back what owes post-operations.
    if (execution.ended) return execution.postops.size > 0 ? "time" : "nothing";
    // What waits to be stepped may be the end of a lease that nothing else tells of.
    if (this.queue.length > 0) return "work";
    if (execution.draining) return this.#isLeftToOthers(execution) ? "time" : "work";
    if (execution.status === "paused") return this.openLeases > this.sentLeases ? "work" : "time";
    if (execution.due >= 0) return "time";
    return this.queues.every((queue) => queue.waitsForTimeOnly(now)) ? "time" : "work";
  }

  /** The earliest time at which something here becomes ready by itself. */
  nextDue(now: number, checkMs: number): number {
    let due = Number.POSITIVE_INFINITY;
    const isRunning = this.execution?.status === "running";
    for (const queue of this.queues) {
      due = Math.min(due, queue.receiptDue(now, checkMs));
      if (isRunning) due = Math.min(due, queue.nextDue(now));
      else for (const at of [queue.suspectUntil, queue.lostAt]) if (at > now) due = Math.min(due, at);
    }
    for (const { until } of this.execution?.postops.values() ?? [])
      if (until > now) due = Math.min(due, until);
    return due;
  }

  /** What drains waits for its attempts; once only children or post-operations are open, their ends bring it back. */
  #isLeftToOthers(execution: Execution): boolean {
    if (this.openLeases > 0) return false;
    return (execution.current?.openChildren ?? 0) > 0 || holdsTasks(execution);
  }

  /**
   * When what is owed is due, be it in the past; Infinity: nothing is. That is post-operations, and the end of what drains:
   * no worker is needed for it, so whoever has the execution next must not wait for one before it looks.
   */
  get owedDue(): number {
    const { execution } = this;
    if (execution === null) return Number.POSITIVE_INFINITY;
    let due = Number.POSITIVE_INFINITY;
    if (execution.draining && !this.#isLeftToOthers(execution)) due = execution.now;
    for (const { until } of execution.postops.values()) due = Math.min(due, until);
    return due;
  }
}
