/** The state that the parts of an engine node share. */

import { TopicRules } from "../kernel/command/topic-rules.ts";
import type { RateDefinition } from "../kernel/definition/definition.ts";
import type { HandlerPlan, PhasePlan, Plan } from "../kernel/definition/plan.ts";
import type { Execution } from "../kernel/execution.ts";
import type { Damage } from "../kernel/journal/damage.ts";
import type { Message } from "../kernel/message.ts";
import { TransientMap } from "../std/transient-map.ts";
import type { StoreInfo } from "../store/store.ts";
import { PageCache } from "./cache/page-cache.ts";
import { PlanCache } from "./cache/plan-cache.ts";
import type { Queued, Slot } from "./cache/slot.ts";
import { RecentDuplicates } from "./commit/recent-duplicates.ts";
import { NewestPlans } from "./dispatch/child-starter.ts";
import { Dispatcher } from "./dispatch/dispatcher.ts";
import type { HandlerQueue } from "./dispatch/handler-queue.ts";
import { voidMark } from "./dispatch/sent-commands.ts";
import { WorkerRoster } from "./dispatch/worker-roster.ts";
import type { Members, Output } from "./io.ts";
import { ENUMERATION, type Lease } from "./leases/lease.ts";
import type { HandedLease } from "./leases/lease-handover.ts";
import { UnrecordedStarts } from "./leases/unrecorded-starts.ts";
import { type Declared, Limits, type Moves, projectScope, rateName } from "./limits/limits.ts";
import { findsRoom } from "./limits/permits.ts";
import type { Held } from "./limits/priority-holds.ts";
import { WAITS } from "./limits/quota-client.ts";
import { Tenures } from "./partitions/tenures.ts";
import type { Settings } from "./settings.ts";
import { Figures } from "./views/figures.ts";
import { noTotals } from "./views/totals.ts";

/** The number of handlers for which the node remembers when their limits were declared. */
const DECLARED_MAX = 20_000;

/** Returns the phases of a plan, and the phases that compensate them. */
function allPhases({ phases, compensations }: Plan): readonly PhasePlan[] {
  return compensations.length === 0 ? phases : [...phases, ...compensations];
}

/** Whether a handler of the plan has limits that apply across executions. */
function hasLimits(plan: Plan): boolean {
  return allPhases(plan).some(({ handlers }) =>
    handlers.some(({ definition: { concurrency, rate } }) => concurrency !== undefined || rate !== undefined),
  );
}

/** Attempts of an execution that may still run although this node has no lease for them. */
export interface Suspects {
  /** The names of the handlers whose attempts may still run; null for all handlers. */
  readonly handlers: readonly string[] | null;
  /** The time at which this node dropped the leases because the execution could not be read; null if a former owner had the leases. */
  readonly droppedAt: number | null;
  /**
   * The time from which the next owner need not know of these attempts; Infinity if it must know of them until their loss is
   * journaled.
   */
  readonly until: number;
}

export class NodeState {
  readonly settings: Settings;
  readonly tenures: Tenures;
  // @plant post-operation before its commit 2
  readonly slots = new TransientMap<string, Slot>();
  readonly roster = new WorkerRoster();
  readonly limits: Limits;
  readonly dispatcher = new Dispatcher();
  readonly pages: PageCache;
  readonly plans = new PlanCache();
  readonly newest = new NewestPlans();
  readonly dropped = new RecentDuplicates();
  readonly topics: TopicRules;
  /** Leases that the last owner handed over, for executions that are not in memory yet, by execution. */
  readonly handedOver = new Map<string, HandedLease[]>();
  /** Receivers of damaged mailbox messages, as the last scan found them. */
  readonly damagedMail = new Map<string, Damage>();
  /** Executions that left memory while attempts may still run for which this node has no lease. */
  readonly suspects = new Map<string, Suspects>();
  /** Leases of adopted attempts that quota servers have not confirmed yet, with their executions. */
  readonly unconfirmed = new Map<Lease, string>();
  readonly starts = new UnrecordedStarts(this);
  /** Slots with messages to step, in the order in which they became ready. */
  readonly runnable: Slot[] = [];
  /** The nodes of the cluster, as the last input about members listed them. */
  // @plant timer discarded by a node not first 2
  members: Members = {
    // @plant timer discarded by a node not first 3
    self: "",
    // @plant timer discarded by a node not first 4
    live: [],
    ended: {},
    epochs: new Map(),
    reads: Number.POSITIVE_INFINITY,
  };
  outputs: Output[] = [];
  readonly totals = noTotals();
  readonly figures = new Figures();
  now: number;
  /**
   * Whether to grant before stepping, because an execution that is clean again has further reports. It is dirty as soon as these are
   * stepped, so under a steady stream of reports (the pages of an enumeration, for example) its tasks would wait for the end of the stream.
   * If handlers have different priorities, executions are stepped first all the same, because they may have work of higher priority.
   */
  grantsFirst = false;
  /** The number of turns in which handlers were served so far. */
  turns = 0;
  /** Whether the node is closing. Then it grants nothing more. */
  closing = false;

  constructor(settings: Settings, info: StoreInfo, now: number) {
    this.settings = settings;
    this.now = now;
    const { prefix, projects, boundProjects: bound } = settings;
    this.topics = new TopicRules({ prefix, projects, bound });
    this.tenures = new Tenures(info, now, {
      takeoverMs: settings.takeoverMs,
      marginMs: settings.permitPatienceMs,
      reminderMs: WAITS * settings.permitPatienceMs,
    });
    this.limits = new Limits(this.tenures.isWhole ? null : settings);
    this.pages = new PageCache(settings.pageCacheChars);
  }

  /**
   * Declares the limits of a plan's handlers in a project, unless those of a newer plan are declared. Nothing is granted under the
   * limits while attempts of a former owner may still run; in a cluster, the quota server makes sure of that.
   */
  declareLimits(plan: Plan, project: string, at = this.now): void {
    this.#declared.add(project);
    this.#declareProject(project, plan);
    const isAlone = this.limits.shares === null;
    const since = isAlone && this.settings.suspectMs > 0 ? this.tenures.uncleanSince() : null;
    if (hasLimits(plan)) this.#limited.add(plan.definition.name);
    for (const phase of allPhases(plan)) {
      for (const handler of phase.handlers) {
        // The time until which attempts of a former owner may still report.
        const heldUntil = (since ?? 0) + Math.max(this.settings.suspectMs, this.heartbeatMs(handler));
        if (since !== null && this.settings.projects[project]?.concurrency !== undefined)
          this.limits.block(projectScope(project), heldUntil);
        this.#priorities.add(handler.priority);
        const { scope: name, definition } = handler;
        const scope = `${project}/${name}`;
        if (at < (this.#declaredAt.get(scope) ?? 0)) continue;
        this.#noteDeclared(scope, at);
        if (definition.rate !== undefined)
          // Starts of a former owner are not known to this node, even if that owner ended cleanly.
          this.limits.declareRate(rateName(scope), {
            rate: definition.rate,
            declaredAt: at,
            // @plant rate forgotten by a restart
            usedUpAt: this.tenures.succeedsSince(),
            now: this.now,
          });
        if (definition.concurrency !== undefined)
          this.limits.declare(scope, this.declared(definition.concurrency, handler, at));
        else if (definition.concurrencyPerKey === undefined) continue;
        if (since !== null) this.limits.block(scope, heldUntil);
      }
    }
  }

  /** Declares the limits of a restored execution, whose plan may be older than the declared one. */
  declareRestored(plan: Plan, { project, createdAt }: Execution): void {
    this.declareLimits(plan, project, createdAt);
    const newest = hasLimits(plan) ? this.newest.get(this, plan.definition.name) : null;
    if (newest && newest.hash !== plan.hash) this.#redeclare(newest, project);
  }

  /** Called when a definition was stored: if limits of its workflow are declared, their values are updated. */
  definitionStored(workflow: string): void {
    this.newest.forget(workflow);
    if (this.#limited.has(workflow)) this.newest.get(this, workflow);
  }

  workflowFound(workflow: string, plan: Plan | null): void {
    const isNewest = this.newest.found(workflow, plan);
    if (!this.#limited.has(workflow)) return;
    if (!isNewest) this.newest.get(this, workflow);
    else if (plan !== null) for (const project of this.#declared) this.#redeclare(plan, project);
  }

  /** Updates the declared limits of a project to the values of a newer plan. */
  #redeclare(plan: Plan, project: string): void {
    for (const { handlers } of allPhases(plan)) {
      for (const handler of handlers) {
        const { scope: name, definition } = handler;
        const scope = `${project}/${name}`;
        if (!this.#declaredAt.has(scope)) continue;
        const { concurrency, rate } = definition;
        if (rate === undefined && concurrency === undefined) continue;
        this.#declaredAt.set(scope, this.now);
        if (rate !== undefined)
          this.limits.declareRate(rateName(scope), {
            rate,
            declaredAt: this.now,
            // @plant rate forgotten by a restart 2
            usedUpAt: this.tenures.succeedsSince(),
            now: this.now,
          });
        if (concurrency !== undefined)
          this.limits.declare(scope, this.declared(concurrency, handler, this.now));
      }
    }
  }

  /**
   * Declares the limit of a project. The attempts of all handlers hold its permits, so the longest heartbeat time of any handler
   * applies.
   */
  #declareProject(project: string, plan: Plan): void {
    const concurrency = this.settings.projects[project]?.concurrency;
    if (concurrency === undefined) return;
    const before = this.#projectSilences.get(project);
    let silenceMs = before ?? Math.max(this.settings.suspectMs, this.settings.heartbeatMs);
    for (const phase of allPhases(plan))
      for (const handler of phase.handlers) silenceMs = Math.max(silenceMs, this.heartbeatMs(handler));
    if (silenceMs === before) return;
    this.#projectSilences.set(project, silenceMs);
    this.limits.declare(projectScope(project), { max: concurrency, declaredAt: this.now, silenceMs });
  }

  readonly #declared = new Set<string>();
  readonly #projectSilences = new Map<string, number>();
  readonly #limited = new Set<string>();
  readonly #declaredAt = new Map<string, number>();
  readonly #priorities = new Set<number>();

  /**
   * Remembers when the limits of a scope were declared. Only the most recent scopes are kept, because each submitted command has its
   * own definition.
   */
  #noteDeclared(scope: string, at: number): void {
    this.#declaredAt.delete(scope);
    this.#declaredAt.set(scope, at);
    if (this.#declaredAt.size <= DECLARED_MAX) return;
    const [oldest] = this.#declaredAt.keys();
    if (oldest !== undefined) this.#declaredAt.delete(oldest);
  }

  /** Declares the rate `name` of a key. `declaredAt` is the age of the definition that it comes from. */
  declareKeyRate(name: string, rate: RateDefinition, declaredAt: number): void {
    this.limits.declareKeyRate(rateName(name), {
      rate,
      declaredAt,
      // @plant rate of a key forgotten by a restart
      usedUpAt: this.tenures.succeedsSince(),
      now: this.now,
    });
  }

  declared(max: number, plan: HandlerPlan, declaredAt: number): Declared {
    return { max, declaredAt, silenceMs: Math.max(this.settings.suspectMs, this.heartbeatMs(plan)) };
  }

  /** The time without a heartbeat after which an attempt of the handler is lost. */
  heartbeatMs(plan: HandlerPlan): number {
    return plan.heartbeatMs ?? this.settings.heartbeatMs;
  }

  /** Whether attempts may still run in executions that have left memory, without leases at this node. */
  hasSuspects(isOf: (execution: string) => boolean): boolean {
    for (const [execution, { until }] of this.suspects) if (until > this.now && isOf(execution)) return true;
    return false;
  }

  get openLeases(): number {
    let open = 0;
    for (const slot of this.slots.values()) for (const queue of slot.allQueues) open += queue.openLeases;
    return open;
  }

  emit(output: Output): void {
    this.outputs.push(output);
  }

  /** Adds a message to a slot's queue and marks the slot as ready to step. */
  enqueue(slot: Slot, queued: Queued): void {
    if (slot.queue.length === 0) slot.queue = [queued];
    else slot.queue.push(queued);
    this.wake(slot);
  }

  /** Queues a message that the engine itself sends; no caller waits for its answer. */
  enqueueMessage(slot: Slot, message: Message): void {
    this.enqueue(slot, { kind: "message", message, request: null });
  }

  /** Makes the next commit write the slot's head, marks and timers, even if it has no events. */
  requestCommit(slot: Slot): void {
    this.enqueue(slot, { kind: "mark", mark: null });
  }

  /** Marks a slot as ready to step, if it can be stepped. */
  wake(slot: Slot): void {
    if (slot.isRunnable || slot.status !== "clean") return;
    slot.isRunnable = true;
    this.runnable.push(slot);
  }

  /** Wakes the slot at this time. The node sets this function, because it has the timers. */
  wakeAt: (slot: Slot, at: number) => void = () => {};

  unwake: (slot: Slot) => void = () => {};

  /**
   * Whether post-operations of the execution are in progress. The node sets this function, because it has the queue of
   * post-operations.
   */
  performs: (execution: string) => boolean = () => false;

  /** The highest version of events that may be written, because every node of the cluster can read it. */
  get writes(): number {
    // @plant vocabulary of older nodes ignored
    return Math.min(this.settings.vocabulary.events, this.members.reads);
  }

  /** Whether the execution's next events need a version that some node of the cluster cannot read yet. */
  isHeldBack({ needs }: Slot): boolean {
    return needs > this.writes;
  }

  offerAll(slot: Slot): void {
    if (slot.status !== "clean" || slot.execution === null || !slot.execution.open || this.closing) return;
    if (slot.tenure.isYielding || this.isHeldBack(slot)) return;
    // Offers the queues in the order in which they were last served, oldest first, because a commit may have removed them from their
    // rings.
    const queues =
      slot.queues.length > 1 ? [...slot.queues].sort((a, b) => a.servedAt - b.servedAt) : slot.queues;
    for (const queue of queues) this.offer(slot, queue);
  }

  /** Whether handlers have different priorities, so that some work may have to wait for other work. */
  get hasPriorities(): boolean {
    return this.#priorities.size > 1;
  }

  /** Holds back work of lower priority while the execution waits for its commit, except for work that waits at a limit. */
  holdLower(slot: Slot): void {
    const { execution } = slot;
    if (!this.hasPriorities || execution?.open !== true || slot.tenure.isYielding) return;
    const { project } = execution;
    const held: Held[] = [];
    for (const queue of slot.queues) {
      const { plan, finished } = queue.state;
      if (plan.waits || finished) continue;
      const { priority } = plan;
      if (queue.wantsEnumeration(this.now)) held.push({ project, priority, wanted: plan.enumerator });
      if (plan.mode !== "workflow" && queue.hasTasks(this.now) && findsRoom(this, slot, queue))
        held.push({ project, priority, wanted: plan.wanted });
    }
    this.dispatcher.holds.add(slot.id, held);
  }

  offer(slot: Slot, queue: HandlerQueue): void {
    const { plan } = queue.state;
    if (slot.status !== "clean" || plan.waits || queue.state.finished) return;
    if (queue.wantsEnumeration(this.now)) this.dispatcher.offer({ slot, queue, wanted: plan.enumerator });
    if (
      plan.mode !== "workflow" &&
      queue.hasTasks(this.now) &&
      /* @plant enumeration inferred from the workers present 3 */ this.enumeratorAt(slot, queue) === null
    )
      this.dispatcher.offer({ slot, queue, wanted: plan.wanted });
  }

  /**
   * Some tasks must not go to code that enumerates. Returns the id of a worker that enumerates with this code; null if the task may
   * be granted.
   */
  enumeratorAt({ execution }: Pick<Slot, "execution">, { state }: HandlerQueue): string | null {
    // @plant input given to code that enumerates
    if (execution === null || !state.needsSingleCode) return null;
    return this.roster.enumeratorOf(state.plan.wanted, execution.project);
  }

  /**
   * Ends a lease, and frees its place at the worker. Its permits are released, or kept for a while if the attempt moves to another
   * node with its partition.
   */
  endLease(queue: HandlerQueue, lease: Lease, moves: Moves | null = null): void {
    if (queue.leases.get(lease.task) !== lease) return;
    queue.leases.delete(lease.task);
    if (!lease.reported) this.noteReported(queue, lease);
    // The permits of an adopted attempt are kept until the quota server confirms it. Before that, the server might grant them to
    // another node.
    const isOwed = lease.confirmBy !== undefined && this.limits.shares !== null && moves === null;
    if (isOwed) lease.isEnded = true;
    else this.endPermits(lease, moves);
  }

  /** Releases the permits of a lease that has ended. `moves` is given if the attempt goes on at another node. */
  endPermits({ permits, isAdopted }: Lease, moves: Moves | null): void {
    for (const permit of permits) {
      if (isAdopted === true) this.limits.endAdopted(permit);
      if (moves !== null) this.limits.linger(permit, moves);
      // @plant permits not given back
      else this.limits.release(permit);
    }
  }

  /** Called when a claim lapsed before its attempt began: the task is pending again, and its next claim has another number. */
  lapse(slot: Slot, queue: HandlerQueue, lease: Lease): void {
    this.endUnrecorded(slot, queue, lease);
    // The retry time of the task may be in the future, if a former owner with a fast clock granted it. Then the task is not requeued
    // now.
    if (lease.task !== ENUMERATION && queue.state.tasks.until(lease.task) <= this.now)
      queue.requeue(lease.task);
  }

  /** Ends the lease of an open attempt of which nothing was journaled. The next claim of the attempt has another number. */
  endUnrecorded(slot: Slot, queue: HandlerQueue, lease: Lease): void {
    this.endLease(queue, lease);
    voidMark(slot, queue, lease);
    slot.tenure.lapses++;
    // @plant lapsed claim granted again under its id
    queue.lapse(lease.task);
  }

  noteReported(queue: HandlerQueue, lease: Lease): void {
    if (lease.reported) return;
    lease.reported = true;
    queue.openLeases--;
    const worker = this.roster.workers.get(lease.worker);
    if (worker === undefined) return;
    worker.held--;
    if (worker.alone?.kind === "taken" && worker.held === 0) worker.alone = null;
  }
}
