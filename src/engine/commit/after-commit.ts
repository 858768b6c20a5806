/**
 * Performs the effects of a commit that the store has answered: leases end, grants and answers are sent, timers are set. Then the
 * execution, which is clean again, continues.
 */
import { viewCommands } from "../../kernel/command/command-view.ts";
import { holdsTasks } from "../../kernel/command/owed-op.ts";
import type { FinalStatus } from "../../kernel/event.ts";
import type { Execution } from "../../kernel/execution.ts";
import type { Answer, AttemptRef, Message, Verdict } from "../../kernel/message.ts";
import { type ExecutionView, viewExecution } from "../../kernel/view.ts";
import { BROKER_WORKER, UNKNOWN_WORKER } from "../../protocol/work.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { type ExecutionWrite, workKey } from "../../store/store.ts";
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { Queued, Slot } from "../cache/slot.ts";
import { startChildren } from "../dispatch/child-starter.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import { notifyClosed, withdrawQueued } from "../dispatch/queue-notices.ts";
import { checkSent, endSent, expireCommands } from "../dispatch/sent-commands.ts";
import { workerReleases } from "../dispatch/worker-inputs.ts";
import type { Inspection, Output } from "../io.ts";
import { attemptFacts } from "../leases/attempt-facts.ts";
import { ENUMERATION } from "../leases/lease.ts";
import { enumerationMark, sendHeld } from "../leases/lease-granter.ts";
import { loseUnconfirmed } from "../leases/lease-sweeper.ts";
import { beat, endReported, requestStop } from "../leases/report-intake.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { catchUpEvents, EVENTS_TIMER, publishEvents } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { heldBack, notOwner } from "../partitions/partition-ownership.ts";
import type { PostOpQueue } from "../post-ops/post-op-queue.ts";
import { type TimerQueue, WAKE } from "../timers/timer-queue.ts";
import { queuedOf, runningOf } from "../views/overview.ts";
import { addTotals } from "../views/totals.ts";
import { whyWaiting } from "../views/why.ts";
import type { Stepped } from "./stepping.ts";

interface AfterCommitParts {
  readonly cache: ExecutionCache;
  readonly timers: TimerQueue;
  readonly mailbox: Mailbox;
  readonly postOps: PostOpQueue;
}

export class AfterCommit {
  readonly #node: NodeState;
  readonly #cache: ExecutionCache;
  readonly #timers: TimerQueue;
  readonly #mailbox: Mailbox;
  readonly #postOps: PostOpQueue;

  constructor(node: NodeState, parts: AfterCommitParts) {
    const { cache, timers, mailbox, postOps } = parts;
    this.#node = node;
    this.#postOps = postOps;
    this.#mailbox = mailbox;
    this.#cache = cache;
    this.#timers = timers;
  }

  /** Performs the effects of a step after its commit, or at once if the step had nothing to write. */
  finish(stepped: Stepped): void {
    const node = this.#node;
    const { slot, write } = stepped;
    this.#keepPages(stepped);
    for (const { queued, answer, existed } of stepped.taken) {
      const isApplied = answer.kind === "applied";
      if (queued.kind !== "report" && queued.held !== undefined)
        sendHeld(this.#node, slot, queued.held, isApplied);
      if (queued.kind === "report") {
        endReported(node, slot, queued.report);
        const verdicts = verdictsOf(answer);
        if (slot.execution !== null) node.dropped.note(queued, verdicts, node.now);
        this.#verdict(queued, verdicts);
      } else if (queued.kind === "message") {
        this.#endLost(slot, queued.message);
        if (!isApplied) requeueChildren(slot, queued.message);
        if (queued.request !== null) {
          const seen = queued.views === true && answer.kind !== "rejection" ? this.#views(slot) : {};
          node.emit({ kind: "reply", request: queued.request, answer, existed, ...seen });
        }
      }
    }
    if (write !== null) {
      if (!node.tenures.isWhole) this.#announceTimers(slot.id, write);
      for (const timer of write.timersCleared) this.#timers.clear(slot.id, timer);
      for (const { timer, due } of write.timersSet) this.#timers.set(slot.id, timer, due);
      for (const message of write.mail ?? []) this.#mailbox.sent(message);
      if (write.logs !== undefined) node.emit({ kind: "logged", execution: slot.id });
      if (stepped.carried !== null) node.emit(trimOf(node, slot, stepped.carried));
      addTotals(node.totals, stepped.totals);
      this.#measure(stepped);
      for (const phase of stepped.phases) node.emit({ kind: "phase-ended", ...phase });
      if (stepped.eventCount > 0 && slot.execution !== null) {
        const { execution } = slot;
        const { seq, ended, status, output } = execution;
        node.emit({
          kind: "progressed",
          execution: slot.id,
          seq,
          end: ended
            ? {
                status: status as FinalStatus,
                output,
                ...(execution.successor === null ? {} : { successor: execution.successor }),
                view: () => viewExecution(execution, node.now),
              }
            : null,
        });
      }
    }
    if (node.settings.outbox && write !== null)
      publishEvents(node, slot, { entries: write.entries, kept: stepped.kept });
    this.#cache.count(slot);
    this.#closeQueues(slot);
    for (const queue of slot.queues) this.#dropSettledPages(slot, queue);
    this.becameClean(slot);
    if (write === null) return;
    // Another message, such as a request to pause or to cancel, is stepped before the execution gets grants.
    const hasReports = slot.queue.length > 0 && slot.queue.every(({ kind }) => kind === "report");
    if (hasReports) node.grantsFirst = true;
    this.#admit(slot, write.create);
  }

  /** Adds a committed step to the figures of its workflow. */
  #measure({ slot: { execution }, totals, settled }: Stepped): void {
    if (execution === null) return;
    const { status, createdAt, finishedAt, plan, project } = execution;
    const { done, failed, cancelled } = totals.ended;
    const hasEnded = done + failed + cancelled > 0;
    const end =
      hasEnded && finishedAt !== null ? { status: status as FinalStatus, ms: finishedAt - createdAt } : null;
    this.#node.figures.note(
      { project, workflow: plan.definition.name, isStarted: totals.started > 0, settled, end },
      this.#node.now,
    );
  }

  /** Announces changed timers to the nodes that watch over the timers of this node. */
  #announceTimers(execution: string, { timersSet, timersCleared }: ExecutionWrite): void {
    const set = timersSet.filter(({ timer }) => timer !== EVENTS_TIMER);
    const ended = timersCleared.filter((timer) => timer !== EVENTS_TIMER);
    if (set.length === 0 && ended.length === 0) return;
    this.#node.emit({
      kind: "timers-changed",
      set: set.map(({ timer, due }) => ({ execution, timer, due })),
      ended: ended.map((timer) => ({
        execution,
        timer,
        due: this.#timers.dueOf(execution, timer) ?? this.#node.now,
      })),
    });
  }

  /** Evicts a committed execution if there is no room for it in memory. It then waits in the store until a scan loads it. */
  #admit(slot: Slot, isNew: boolean): void {
    const { execution } = slot;
    if (execution === null || slot.leaseCount > 0 || slot.queue.length > 0 || slot.status !== "clean") return;
    // A new execution that begins with a wait is evicted at once: it may wait for a long time, and there may be many such executions.
    const isWaiting = slot.want === "time" && slot.storedWant === "time" && !slot.hasEventsRow;
    if (isNew && isWaiting) return this.#cache.evict(slot);
    if (slot.want !== "work" || slot.storedWant !== "work" || slot.inspections.length > 0) return;
    const pair = workKey(execution.project, execution.plan.definition.name);
    if (slot.countedAs === null || this.#cache.hasRoomBeside(pair)) return;
    this.#cache.noteBacklog(pair, isNew && !slot.wasPassed);
    this.#cache.evict(slot);
  }

  /**
   * Called after a failed commit: the messages return to the front of the execution's queue, and grants that waited for the commit
   * are withdrawn.
   */
  retry(stepped: Stepped): void {
    const { slot } = stepped;
    const back = stepped.taken.filter(({ queued }) => {
      if (queued.kind === "report" || queued.held === undefined) return true;
      sendHeld(this.#node, slot, queued.held, false);
      return false;
    });
    for (const queue of slot.allQueues)
      for (const lease of queue.leases.values()) {
        lease.recorded = false;
        if (lease.startedAt > 0) this.#node.starts.note(slot);
        if (lease.accepted === undefined) continue;
        lease.accepted = "said";
        slot.hasAccepted = true;
      }
    slot.queue = [...back.map(({ queued }) => queued), ...slot.queue];
    this.#cache.drop(slot);
    this.#cache.count(slot);
  }

  /** Undoes a step whose events some node of the cluster cannot read yet. Reports and stored messages wait; requests get a rejection. */
  holdBack(stepped: Stepped): void {
    const { slot } = stepped;
    this.retry(stepped);
    this.#node.dispatcher.withdraw(slot);
    slot.queue = slot.queue.filter((queued) => {
      const isAsked = queued.kind === "message" && queued.request !== null;
      if (isAsked) this.#node.emit({ kind: "reply", request: queued.request, answer: heldBack(slot.id) });
      return !isAsked;
    });
  }

  /** Answers the messages of a step after this node has lost the partition of its execution. */
  answer({ slot, taken, totals }: Stepped, isWritten: boolean): void {
    if (isWritten) addTotals(this.#node.totals, totals);
    for (const { queued, answer, existed } of taken) {
      if (!isWritten) this.turnAway(slot.id, queued);
      else if (queued.kind === "message" && queued.request !== null)
        this.#node.emit({ kind: "reply", request: queued.request, answer, existed });
      else if (queued.kind === "report") this.#verdict(queued, verdictsOf(answer));
    }
  }

  /** Acknowledges a report that attempts have begun or were accepted. Such a report needs no commit now. */
  acknowledge(queued: Extract<Queued, { kind: "report" }>, attempts: number): void {
    this.#verdict(queued, new Array<Verdict>(attempts).fill("accepted"));
  }

  /** Replies to a message that was not applied that its sender must ask the owner of the execution. */
  turnAway(execution: string, queued: Queued): void {
    if (queued.kind === "report")
      // @plant report about a lost partition acknowledged
      this.#verdict(queued, ["elsewhere"]);
    else if (queued.kind === "message" && queued.request !== null)
      this.#node.emit({ kind: "reply", request: queued.request, answer: notOwner(execution) });
  }

  /** Refuses a message to a damaged execution. If the message came from the mailbox, its row stays in the store. */
  refuse(queued: Queued, why: Rejection): void {
    if (queued.kind === "report") this.#verdict(queued, ["stale"]);
    if (queued.kind !== "message") return;
    if (queued.mail !== undefined) this.#mailbox.putBack(queued.mail);
    if (queued.request !== null) this.#node.emit({ kind: "reply", request: queued.request, answer: why });
  }

  /**
   * Called when a damaged execution is readable again: its next commit corrects the head, and refused timers and messages are
   * scanned again.
   */
  mended(slot: Slot): void {
    this.#node.requestCommit(slot);
    // @plant timers of a mended execution do not fire
    this.#timers.forget((execution) => execution === slot.id);
    this.#timers.rescan();
    // @plant messages to a mended execution not scanned
    this.#mailbox.rescan();
  }

  /** Continues with an execution after its state was committed or loaded. */
  becameClean(slot: Slot): void {
    const node = this.#node;
    if (slot.isDoubted || slot.isMoved) return this.#cache.drop(slot);
    const { execution } = slot;
    if (slot.beats.length > 0)
      for (const { beat: late, worker } of slot.beats.splice(0)) beat(node, slot, late, worker);
    if (slot.releases.length > 0)
      for (const { beat: late, worker } of slot.releases.splice(0)) workerReleases(node, worker, [late]);
    // Starts post-operations before tasks are leased, so that broadcasts are sent before the next command.
    this.#postOps.startDue(slot);
    if (execution !== null && !execution.ended) {
      for (const queue of slot.queues) this.#expireSuspects(slot, queue);
      expireCommands(node, slot);
      if (slot.retryFired) checkSent(node, slot);
      if (execution.draining) this.#drain(slot);
      if (node.roster.queued !== null && !execution.open) withdrawQueued(node, slot);
      this.#openPages(slot);
      // @plant page that was read starts no children 2
      for (const queue of slot.queues)
        if (queue.state.plan.mode === "workflow") startChildren(node, slot, queue);
      node.offerAll(slot);
      this.#scheduleWake(slot);
      slot.want = slot.computeWant(node.now);
      this.#cache.count(slot);
    } else if (execution !== null && node.performs(slot.id)) this.#scheduleWake(slot);
    if (node.settings.outbox) catchUpEvents(node, slot);
    this.inspect(slot);
    if (slot.queue.length > 0) node.wake(slot);
    else this.#cache.settle(slot);
  }

  inspect(slot: Slot): void {
    const node = this.#node;
    if (slot.inspections.length === 0) return;
    for (const { request, attempt } of slot.inspections.splice(0)) {
      const { execution } = slot;
      if (execution === null) {
        const inspection = reject("not_found", `there is no execution ${slot.id}`, {
          hint: "check the id, or list executions",
        });
        node.emit({ kind: "inspected", request, inspection });
        continue;
      }
      const view = this.#view(slot) as ExecutionView;
      const commands = viewCommands(execution, node.now, runningOf(slot), queuedOf(slot));
      const inspection = {
        view,
        ...whyWaiting(node, slot, execution),
        ...(commands.length === 0 ? {} : { commands }),
        ...newestOf(execution),
        ...(attempt === null ? {} : { attempt: attemptFacts(node, slot, attempt) }),
      };
      node.emit({ kind: "inspected", request, inspection });
    }
    if (slot.status === "clean" && slot.queue.length === 0) this.#cache.settle(slot);
  }

  /** The view of an execution, and its commands if it has any. */
  #views(slot: Slot): Pick<Extract<Output, { kind: "reply" }>, "view" | "commands"> {
    const { execution } = slot;
    const view = this.#view(slot);
    if (execution === null || view === null) return {};
    if (execution.plan.commands.length === 0) return { view };
    return { view, commands: viewCommands(execution, this.#node.now, runningOf(slot), queuedOf(slot)) };
  }

  #view(slot: Slot): ExecutionView | null {
    const { execution } = slot;
    return execution === null ? null : viewExecution(execution, this.#node.now, runningOf(slot));
  }

  /** Records the verdict on a report. The worker gets its verdicts when its whole batch has them. */
  #verdict({ answer, index }: Extract<Queued, { kind: "report" }>, verdicts: readonly Verdict[]): void {
    answer.verdicts[index] = verdicts;
    answer.open--;
    if (answer.open > 0) return;
    const { worker, report } = answer;
    this.#node.emit({ kind: "verdicts", worker, report, verdicts: answer.verdicts });
  }

  /** Keeps pages that were just journaled in the cache while there is room, since they are needed soon. */
  #keepPages({ slot, pages }: Stepped): void {
    for (const { seq, event } of pages)
      if (event.kind === "tasks.enumerated") this.#node.pages.put(slot.id, seq, event);
  }

  /** Drops the pages before the first open task. */
  #dropSettledPages(slot: Slot, queue: HandlerQueue): void {
    const { pageFrom, pageSeq, tasks, total } = queue.state;
    while (queue.pagesDropped < pageSeq.length) {
      const end = pageFrom[queue.pagesDropped + 1] ?? total;
      if (tasks.settled.nextMissing(pageFrom[queue.pagesDropped] as number, end) >= 0) return;
      this.#node.pages.drop(slot.id, pageSeq[queue.pagesDropped] as number);
      queue.pagesDropped++;
    }
  }

  /** Ends the leases of attempts whose loss is journaled, and notifies their workers. */
  #endLost(slot: Slot, message: Message): void {
    if (message.kind !== "lost" && message.kind !== "enumeration.lost") return;
    const queue = slot.handlerQueue(message);
    if (queue !== undefined) queue.isLosing = false;
    const lost =
      message.kind === "lost" ? message.attempts : [{ task: ENUMERATION, attempt: message.attempt }];
    for (const { task, attempt } of lost) {
      const lease = queue?.leases.get(task);
      if (queue === undefined || lease === undefined || lease.attempt !== attempt) continue;
      requestStop(this.#node, slot, { queue, lease }, "lost");
      this.#node.endLease(queue, lease);
      queue.forgetLapses(task);
    }
  }

  /** Ends the leases of visits that have ended, and asks the workers to stop their attempts. */
  #closeQueues(slot: Slot): void {
    for (const queue of slot.closedQueues.splice(0)) {
      for (const lease of [...queue.leases.values()]) {
        if (!lease.reported) requestStop(this.#node, slot, { queue, lease }, "cancel");
        this.#node.endLease(queue, lease);
      }
      if (this.#node.roster.queued !== null) notifyClosed(this.#node, slot, queue);
      for (const seq of queue.state.pageSeq) this.#node.pages.drop(slot.id, seq);
      for (const seq of queue.resultSeqs) this.#node.pages.drop(slot.id, seq);
    }
  }

  /** Drains a failing or cancelled visit: asks workers to stop its attempts, and ends the visit when no attempt is open. */
  #drain(slot: Slot): void {
    const { execution } = slot;
    if (execution === null) return;
    for (const queue of slot.queues)
      for (const lease of queue.leases.values())
        if (!lease.reported) requestStop(this.#node, slot, { queue, lease }, "cancel");
    if (this.#node.roster.queued === null) endSent(this.#node, slot);
    // The visit does not end yet, because attempts of a former owner may still send heartbeats.
    if (slot.queues.some((queue) => !queue.state.finished && queue.isSuspect(this.#node.now))) return;
    const isAsked = slot.queue.some(
      (queued) => queued.kind === "message" && queued.message.kind === "drained",
    );
    const { current, round } = execution;
    if (
      /* @plant phase ends while attempts are open */ slot.leaseCount > 0 ||
      isAsked ||
      /* @plant clean-up begins while children are open 2 */ (current?.openChildren ?? 0) > 0 ||
      holdsTasks(execution)
    )
      return;
    this.#node.enqueueMessage(slot, {
      kind: "drained",
      phase: current?.plan.name ?? "",
      visit: current?.visit ?? 0,
      round,
    });
  }

  /** Declares attempts lost whose starts a former owner recorded, if they sent no heartbeat within the wait after a takeover. */
  #expireSuspects(slot: Slot, queue: HandlerQueue): void {
    const node = this.#node;
    loseUnconfirmed(node, slot, queue);
    if (!slot.suspect || queue.suspectsJudged || queue.isSuspect(node.now)) return;
    queue.suspectsJudged = true;
    queue.suspectUntil = 0;
    queue.lostAt = 0;
    const place = { ...queue.place, round: queue.visit.round };
    const attempts = queue.state.tasks
      .starts()
      .filter(([task]) => !queue.leases.has(task))
      .map(([task, { attempt, worker }]) => ({ task, attempt, worker }));
    const unbegun = attempts.filter((attempt) => this.#isUnbegun(queue, attempt));
    const lost = attempts.filter((attempt) => !unbegun.includes(attempt));
    if (attempts.length > 0) queue.isLosing = true;
    if (unbegun.length > 0)
      node.enqueueMessage(slot, { kind: "lost", ...place, attempts: unbegun, isUnbegun: true });
    if (lost.length > 0) node.enqueueMessage(slot, { kind: "lost", ...place, attempts: lost });
    const attempt = queue.state.enumeration.ended + 1;
    if (
      !queue.state.sealed &&
      slot.opened[enumerationMark(queue)] === attempt &&
      !queue.leases.has(ENUMERATION)
    ) {
      queue.isLosing = true;
      node.enqueueMessage(slot, { kind: "enumeration.lost", ...place, attempt, worker: UNKNOWN_WORKER });
    }
  }

  /**
   * Whether an attempt waited in a queue of the broker, as far as the node knows. A compensating task is recorded as started when it
   * is published, so its start does not prove that a worker has it.
   */
  #isUnbegun({ state }: HandlerQueue, { task, attempt, worker }: AttemptRef): boolean {
    if (!state.plan.isCompensated || state.notices.get(task)?.attempt === attempt) return false;
    return worker === BROKER_WORKER || this.#node.roster.workers.get(worker)?.queued === true;
  }

  /** Requests a commit that marks further pages as opened, if tasks wait only for that. */
  #openPages(slot: Slot): void {
    if (slot.queue.length > 0 || slot.execution?.open !== true) return;
    const isStuck = slot.queues.some(
      (queue) =>
        queue.state.paged &&
        !queue.state.finished &&
        queue.offeredEnd < queue.state.total &&
        queue.cursor >= queue.offeredEnd - this.#node.settings.openTasksAhead / 8,
    );
    if (isStuck) this.#node.requestCommit(slot);
  }

  #scheduleWake(slot: Slot): void {
    const due = slot.nextDue(this.#node.now, this.#node.settings.checkMs);
    if (due === Number.POSITIVE_INFINITY || due === slot.wakeAt) return;
    slot.wakeAt = due;
    this.#timers.set(slot.id, WAKE, due);
  }
}

/** Deletes the journal rows of a gate before the event that carries its whole state, unless those rows are still to be published. */
function trimOf({ settings }: NodeState, { id, published }: Slot, carried: number): Output {
  const before = settings.outbox ? Math.min(carried, published + 1) : carried;
  return { kind: "trim", execution: id, before };
}

function verdictsOf(answer: Answer): readonly Verdict[] {
  if (answer.kind === "rejection") return ["stale"];
  return answer.verdicts ?? [answer.kind === "applied" ? "accepted" : "duplicate"];
}

/** Requeues children that were not started because of a pause, so that they are started later. */
function requeueChildren(slot: Slot, message: Message): void {
  if (message.kind !== "children") return;
  const queue = slot.handlerQueue(message);
  if (queue?.round === message.round) for (const { task } of message.tasks) queue.requeue(task);
}

/** Returns the execution that continues this one under the same id, for an inspection. */
function newestOf({ successor, newest }: Execution): Partial<Pick<Inspection, "newest">> {
  return successor === null ? {} : { newest: { execution: successor, isOpen: newest?.isOpen ?? true } };
}
