/**
 * One execution in memory. If the slot is clean, its state is committed: tasks can be leased from it, and it can be read. If it is
 * dirty, its commit is in progress, and further messages wait.
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

export type Queued =
  | {
      readonly kind: "message";
      readonly message: Message;
      readonly request: number | null;
      readonly plan?: Plan | undefined;
      /** Whether the reply must contain a view of the execution. */
      readonly views?: boolean | undefined;
      /** A grant that waits until this message, which records the start of its attempt, is committed. */
      readonly held?: HeldGrant;
      /** The id of the mailbox message from which this message was made. The commit deletes that mailbox message. */
      readonly mail?: string;
    }
  /** A request for a commit, perhaps with a mark: that pages were opened, or that an enumeration starts after an unclean stop. */
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
      /** For a request to start a child: the newest plan of the child's workflow; null if there is no such workflow. */
      readonly plan?: Plan | null;
    };

/** Collects the verdicts of one batch of reports, which may concern several executions. */
export interface ReportAnswer {
  readonly worker: string;
  readonly report: number;
  readonly verdicts: (readonly Verdict[])[];
  open: number;
}

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
  /**
   * The number of messages at the front of the queue that must be stepped before anything is granted: those that were there when the
   * execution was loaded. Reports among them may belong to attempts that have ended in the store while their leases are still in memory.
   */
  stepFirst = 0;
  inspections: SlotInspection[] = [];
  /** Heartbeats that arrived while the execution was being loaded. */
  readonly beats: { beat: Beat; worker: string }[] = [];
  /** Releases of claims that arrived while the execution was being loaded. */
  readonly releases: { beat: Beat; worker: string }[] = [];
  queues: HandlerQueue[] = [];
  /** Queues of visits that have ended; the commit of that end is in progress. */
  closedQueues: HandlerQueue[] = [];
  chain = "";
  /** A summary of the stored head. The head is written again only when its summary changes. */
  headKey = "";
  want: Want = "work";
  /** The `want` of the execution as the store's head row has it. */
  storedWant: Want = "work";
  /** The due time of the retry row in the store; 0 if there is none. */
  retryRow = 0;
  /** Whether the execution's retry row has become due. Then the next commit updates the row; otherwise each scan would find it again. */
  retryFired = false;
  rowsSinceSnapshot = 0;
  /**
   * The number of characters in the journal rows since the newest snapshot. The next field is the number of characters in that
   * snapshot.
   */
  charsSinceSnapshot = 0;
  snapshotChars = 0;
  opened: Record<string, number> = {};
  carefulMarks: Record<string, number> = {};
  /** Whether the slot was loaded after an unclean stop of the former owner, so that some of its leases may still be open. */
  suspect = false;
  /** When the leases of the execution were dropped because it could not be read; null if they were not. */
  droppedAt: number | null = null;
  /** Whether the slot is in the node's list of slots whose messages are to be stepped. */
  isRunnable = false;
  /** The time of the execution's retry wake-up in the node's heap of wake-ups; 0 if there is none. */
  wakeAt = 0;
  /** Whether a scan for work skipped the execution because it was in memory. */
  wasPassed = false;
  wasLoaded = false;
  /** The (project, workflow) pair that the slot is counted under; null if it has no work. */
  countedAs: string | null = null;

  /**
   * The version of events that a node must be able to read to read the execution's next events. The execution's messages wait until
   * all nodes of the cluster read that version.
   */
  needs = 0;
  /** Whether a worker has reported that it accepted an attempt, and that is not in the journal yet. */
  hasAccepted = false;
  /**
   * Three fields about publishing: the number of the last published event, the number of the last event that was sent to the
   * publisher, and whether the store has a row for unpublished events.
   */
  published = 0;
  publishing = 0;
  hasEventsRow = false;

  /**
   * Whether a part of the execution could not be read. Then its next load reads the whole journal, and decides whether the execution
   * is damaged.
   */
  isDoubted = false;

  /** Whether the execution was moved to another definition, so that it is loaded again after the commit. */
  isMoved = false;

  /** The number of the load that the slot waits for. */
  load = 0;

  constructor(id: string, tenure: Tenure) {
    this.id = id;
    this.tenure = tenure;
  }

  /** Drops the state of the execution after a failed commit. Its leases stay in their queues. */
  reset(): void {
    this.execution = null;
    this.isMoved = false;
    this.status = "loading";
    this.chain = "";
    this.headKey = "";
    this.want = "work";
    this.storedWant = "work";
    this.retryRow = 0;
    this.rowsSinceSnapshot = 0;
    this.charsSinceSnapshot = 0;
    this.snapshotChars = 0;
    this.opened = {};
  }

  /**
   * Drops the state of a slot that leaves memory. The maps of the JavaScript engine keep a removed entry alive until the next full
   * garbage collection, because a map that has grown links its old table to the new one. Without this function, every evicted
   * execution would stay in memory until then.
   */
  release(): void {
    this.reset();
    this.queues = [];
    this.closedQueues = [];
  }

  get age(): number {
    return this.execution?.createdAt ?? 0;
  }

  /** The names of handlers with attempts of a former owner that may still run, or that are lost but whose loss is not journaled yet. */
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

  /** The number of open leases of commands at a broker. */
  get sentLeases(): number {
    let n = 0;
    for (let i = 0; i < this.queues.length; i++) n += (this.queues[i] as HandlerQueue).sentLeases;
    return n;
  }

  /** The number of open leases of commands at a broker that have marks in the store. */
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

  /** All queues, including those of visits whose end is not committed yet. The leases in these queues stay open until that commit. */
  get allQueues(): readonly HandlerQueue[] {
    return this.closedQueues.length === 0 ? this.queues : [...this.queues, ...this.closedQueues];
  }

  /** Makes the list of queues match the current visit and round. Queues that match already are kept with their leases. */
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

  /** Finds the queue of a handler, or makes a new one that inherits the leases of a queue whose state was dropped. */
  #queueFor(visit: Visit, state: HandlerState, kept: Set<HandlerQueue>): HandlerQueue {
    const isSame = (queue: HandlerQueue) => queue.serves(visit, state.plan.name);
    const same = this.queues.find(isSame) ?? this.closedQueues.find(isSame);
    if (same !== undefined) kept.add(same);
    if (same !== undefined && same.state === state) return same;
    const handlerQueue = new HandlerQueue(visit, state, this.tenure.lapses);
    handlerQueue.waitsSince = this.execution?.now ?? 0;
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

  /** Computes what the execution needs from its owner at `now`: work, a wake-up at a later time, or nothing. */
  computeWant(now: number): Want {
    const { execution } = this;
    if (execution === null) return "nothing";
    // An ended execution that still owes post-operations is loaded again by its retry row in the store.
    if (execution.ended) {
      // The first execution of an id is kept while the newest one is open, because the id names it.
      // @plant first execution deleted while the newest is open
      const isKept = execution.newest?.isOpen === true;
      return execution.postops.size > 0 || isKept ? "time" : "nothing";
    }
    // Keeps the execution in memory: a queued message may be the only record that a lease has ended.
    if (this.queue.length > 0) return "work";
    if (execution.draining) return this.#isLeftToOthers(execution) ? "time" : "work";
    if (execution.status === "paused") return this.openLeases > this.sentLeases ? "work" : "time";
    if (execution.due >= 0) return "time";
    return this.queues.every((queue) => queue.waitsForTimeOnly(now)) ? "time" : "work";
  }

  /** The earliest time at which a task or timer becomes ready without a message. */
  nextDue(now: number, checkMs: number): number {
    let due = Number.POSITIVE_INFINITY;
    const isRunning = this.execution?.status === "running";
    for (const queue of this.queues) {
      due = Math.min(due, queue.receiptDue(now, checkMs));
      if (isRunning) due = Math.min(due, queue.nextDue(now));
      else due = Math.min(due, queue.nextSuspectEnd(now));
    }
    for (const { until } of this.execution?.postops.values() ?? [])
      if (until > now) due = Math.min(due, until);
    return due;
  }

  /** Whether a draining execution waits only for children or post-operations. Their ends make it continue. */
  #isLeftToOthers(execution: Execution): boolean {
    if (this.openLeases > 0) return false;
    return (execution.current?.openChildren ?? 0) > 0 || holdsTasks(execution);
  }

  /**
   * The time at which owed post-operations, or the end of a draining visit, are due. It may be in the past, and is Infinity if
   * nothing is owed.
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
