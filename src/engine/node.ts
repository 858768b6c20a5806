/**
 * An engine node as a deterministic object: inputs in, outputs out, no promises, no clock, no I/O.
 * 1. Inputs (requests, reports, loads, timers) become messages in the queues of their executions.
 * 2. Clean executions with messages are stepped and written, in a few commits at a time. After a large commit, the others wait for the
 *    next turn.
 * 3. The verdict makes them clean again: answers and grants go out, timers are set, subscribers are notified.
 * 4. Workers with room get work from clean executions, fairly.
 */
import type { Plan } from "../kernel/definition/plan.ts";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import type { ReportedAttempt } from "../protocol/work.ts";
import { unreachable } from "../std/assert.ts";
import type { Partitions, StoreInfo } from "../store/store.ts";
import { ExecutionCache } from "./cache/execution-cache.ts";
import { pageRead } from "./cache/task-pages.ts";
import { AfterCommit } from "./commit/after-commit.ts";
import { Committer } from "./commit/committer.ts";
import { waitingFor } from "./dispatch/child-starter.ts";
import { WorkerInputs } from "./dispatch/worker-inputs.ts";
import type { AttemptFilter, Dropped, Input, OpenAttempt, Output, Overview } from "./io.ts";
import type { AttemptHolder } from "./leases/attempt-facts.ts";
import { grantAll } from "./leases/lease-granter.ts";
import { type HandedLease, type LeaseTable, leaseTables, noteHandedOver } from "./leases/lease-handover.ts";
import { extendLeases, sweepLeases } from "./leases/lease-sweeper.ts";
import { holderOf, vouch } from "./leases/report-intake.ts";
import { nameKeys } from "./limits/permits.ts";
import { Mailbox } from "./mailbox/mailbox.ts";
import { notePublished, publishAgain } from "./mailbox/outbox.ts";
import { NodeState } from "./node-state.ts";
import { notOwner, whyNotTaken } from "./partitions/partition-ownership.ts";
import { PartitionReads } from "./partitions/partition-reads.ts";
import { PostOpQueue } from "./post-ops/post-op-queue.ts";
import { DEFAULT_SETTINGS, type Settings } from "./settings.ts";
import { TimerQueue, WAKE } from "./timers/timer-queue.ts";
import type { HourFigures } from "./views/figures.ts";
import { openAttempts, overviewOf } from "./views/overview.ts";

/** The most passes of granting in one turn. The bound makes sure that starts that are refused again and again cannot block the node. */
const PASSES_MAX = 10;

export class EngineNode {
  readonly #node: NodeState;
  readonly #cache: ExecutionCache;
  readonly #timers: TimerQueue;
  readonly #afterCommit: AfterCommit;
  readonly #postOps: PostOpQueue;
  readonly #mailbox: Mailbox;
  readonly #commits: Committer;
  readonly #cluster: PartitionReads;
  readonly #workers: WorkerInputs;
  #nextSweepAt = 0;
  /** The number of turns in a row in which nothing was granted. */
  #turnsWithoutGrants = 0;
  /** The last start that was requested, if there has been no input of another kind and no `advance` since. */
  #lastStart: { readonly plan: Plan; readonly project: string; readonly at: number } | null = null;

  constructor(info: StoreInfo, now: number, settings: Partial<Settings> = {}) {
    this.#node = new NodeState({ ...DEFAULT_SETTINGS, ...settings }, info, now);
    this.#timers = new TimerQueue(this.#node.settings);
    this.#node.wakeAt = (slot, at) => this.#timers.set(slot.id, WAKE, at);
    this.#node.unwake = (slot) => this.#timers.clear(slot.id, WAKE);
    this.#cache = new ExecutionCache(
      this.#node,
      () => this.#afterCommit,
      () => this.#mailbox.isScanned,
    );
    this.#mailbox = new Mailbox(this.#node, this.#cache);
    this.#postOps = new PostOpQueue(this.#node, this.#cache);
    this.#node.performs = (execution) => this.#postOps.has(execution);
    const postOps = this.#postOps;
    const queues = { cache: this.#cache, timers: this.#timers, mailbox: this.#mailbox, postOps };
    this.#afterCommit = new AfterCommit(this.#node, queues);
    const parts = { ...queues, afterCommit: this.#afterCommit };
    this.#workers = new WorkerInputs(this.#node, parts);
    this.#cluster = new PartitionReads(this.#node, parts);
    this.#commits = new Committer(this.#node, {
      ...parts,
      lose: (partitions) => this.#cluster.ownership.lost(partitions),
    });
  }

  addPlan(plan: Plan, project: string): void {
    this.#node.plans.put(plan);
    this.#node.declareLimits(plan, project);
  }

  /** The state of the node at this time. Its time does not go back. */
  #at(now: number): NodeState {
    this.#node.now = Math.max(this.#node.now, now);
    return this.#node;
  }

  /** Applies an input to the node. `advance` returns the outputs. */
  input(input: Input, now: number): void {
    const node = this.#at(now);
    if (input.kind !== "request") this.#lastStart = null;
    switch (input.kind) {
      case "request":
        return this.#request(input);
      case "inspect": {
        if (node.tenures.of(input.execution) === undefined) {
          const inspection = notOwner(input.execution);
          return node.emit({ kind: "inspected", request: input.request, inspection });
        }
        const slot = this.#cache.slot(input.execution);
        slot.inspections.push({ request: input.request, attempt: input.attempt ?? null });
        if (slot.status === "clean") this.#afterCommit.inspect(slot);
        return;
      }
      case "committed":
        return this.#commits.committed(input.commit, input.verdict);
      case "commit-failed":
        return this.#commits.failed(input.commit);
      case "loaded":
        for (const { id, loaded } of input.loads) this.#cache.loaded(input.load, id, loaded);
        return;
      case "definition":
        this.#cache.definition(input.hash, input.plan, input.damage);
        return this.#mailbox.definition(input.hash, input.plan);
      case "mailbox-scanned":
        return this.#mailbox.scanned(input.messages, input.max);
      case "workflow-found":
        node.workflowFound(input.workflow, input.plan);
        this.#workers.workflowFound(input.workflow);
        return this.#offerChildren(input.workflow);
      case "definition-stored":
        return this.#mayBeDefined(input.workflow);
      case "projects-bound":
        return node.topics.bind(input.projects);
      case "purge":
        return this.#cache.purge(input.ids);
      case "purged":
        return this.#cache.purged(input.ids);
      case "worker-vouches":
        for (const one of input.beats) {
          const slot = node.slots.get(one.execution);
          if (slot !== undefined) vouch(node, slot, one);
        }
        return;
      case "performed":
        // @plant post-operation before its commit 3
        return this.#postOps.performed(input);
      case "page-read":
        return this.#pageRead(input.execution, input.seq, input.entry);
      case "work-scanned":
        return this.#cache.scanned(input.heads, input.each);
      case "timers-scanned":
        return this.#timers.scanned(input.timers, input.until, { max: input.max, now: node.now });
      case "worker-joined":
      case "worker-claims":
      case "worker-reports":
      case "worker-beats":
      case "worker-releases":
      case "worker-sent":
      case "worker-left":
      case "queues-paused":
        return this.#workers.handle(input);
      case "published":
        if (node.tenures.of(input.execution) === undefined) return;
        return this.#published(input.execution, input.seq);
      case "publish-again":
        return publishAgain(node);
      case "taken":
      case "yield":
      case "lost":
      case "permits-asked":
      case "permits-granted":
      case "permits-called":
      case "quotas-stored":
      case "mail-stored":
      case "timers-due":
        return this.#cluster.handle(input);
      case "members":
        return this.#onMembers(input);
      case "closing":
        return void (node.closing = true);
      case "clock-stepped":
        return extendLeases(node, input.ms);
      case "tick":
        return;
      default:
        return unreachable(input);
    }
  }

  /** Requests missing definitions again, because another node may have stored them. */
  #onMembers(input: Extract<Input, { kind: "members" }>): void {
    const { newest, now } = this.#node;
    for (const workflow of newest.missingAgain(now)) this.#mayBeDefined(workflow);
    this.#cluster.handle(input);
  }

  /** Does all work that is possible at this time, and returns the outputs. */
  advance(now: number): Output[] {
    this.#lastStart = null;
    const node = this.#at(now);
    this.#commits.beginTurn();
    this.#clockDuty();
    if (node.grantsFirst) {
      node.grantsFirst = false;
      if (!node.hasPriorities) grantAll(node);
    }
    this.#commits.flush();
    if (!this.#grantsLater()) this.#grant();
    this.#cache.requestReads();
    this.#mailbox.requestScan();
    this.#cluster.ownership.release();
    const { outputs } = node;
    node.outputs = [];
    return outputs;
  }

  /**
   * Whether to grant in the next turn, because executions that wait for it may have work of higher priority. Only as many turns in a row
   * are passed as fill the concurrent commits, so that a stream of messages cannot keep all work back.
   */
  #grantsLater(): boolean {
    const { hasPriorities, settings } = this.#node;
    const isLater = hasPriorities && this.isWaiting && this.#turnsWithoutGrants < settings.commitsMax - 1;
    this.#turnsWithoutGrants = isLater ? this.#turnsWithoutGrants + 1 : 0;
    return isLater;
  }

  #grant(): void {
    const node = this.#node;
    // Granting is repeated, because a start that is refused when its commit is stepped releases its permits, and waiters at limits
    // may then get them.
    for (let pass = 0; pass < PASSES_MAX; pass++) {
      // @plant post-operation before its commit
      grantAll(node);
      if (this.#cluster.permits.exchange()) grantAll(node);
      // Granting may have queued starts and marks that must be committed first. They are committed now, without waiting for the next
      // input.
      this.#commits.flush();
      // @plant waiters not called after a refused start
      if (node.closing || !node.limits.isCallable) break;
    }
  }

  /** Whether `advance` has left executions for the next turn. `advance` must then be called soon, even if no input arrives. */
  get isWaiting(): boolean {
    return this.#commits.isWaiting;
  }

  /** The time at which `advance` must be called if no input arrives before; Infinity if there is none. */
  nextWakeAt(): number {
    const { limits, roster, closing, now } = this.#node;
    if (this.isWaiting || (limits.isCallable && !closing)) return now;
    const parts = [limits.nextUnblockAt(), roster.nextHoldEnd(), this.#cluster.permits.nextAt()];
    return Math.min(this.#timers.nextAt(), this.#nextSweepAt, this.#node.starts.checkAt, ...parts);
  }

  /** The state of the node. Tests use it to check invariants. */
  get state(): NodeState {
    return this.#node;
  }

  /** The number of leases that still wait for a receipt. A graceful stop waits for them. */
  get openLeases(): number {
    return this.#node.openLeases;
  }

  /** Returns the leases at remote workers, for the next owner of each partition; null if a worker in this process holds an open lease. */
  leaseTables(): ReadonlyMap<number, LeaseTable> | null {
    return leaseTables(this.#node);
  }

  takeOver(leases: readonly HandedLease[]): void {
    noteHandedOver(this.#node, leases);
    for (const execution of [...this.#node.handedOver.keys()]) this.#cache.slot(execution);
  }

  /** Whether attempts of a former owner may still run. If so, a stop now is not clean. */
  get hasSuspects(): boolean {
    const { slots } = this.#node;
    return this.#node.hasSuspects(() => true) || [...slots.values()].some((slot) => slot.suspects.length > 0);
  }

  epochOf(execution: string): number | null {
    return this.#node.tenures.of(execution)?.epoch ?? null;
  }

  get scope(): Partitions {
    return this.#node.tenures.scope;
  }

  get isOwner(): boolean {
    return this.#node.tenures.size > 0;
  }

  /** Whether a commit is in progress or messages wait for one. */
  get isBusy(): boolean {
    return this.#commits.underWay > 0 || this.#node.runnable.length > 0;
  }

  get residentCount(): number {
    return this.#node.slots.size;
  }

  /** The highest version of events that every node of the cluster can read. */
  get reads(): number {
    return this.#node.writes;
  }

  overview(): Overview {
    return overviewOf(this.#node, this.#cache.working);
  }

  takeFigures(): readonly HourFigures[] {
    return this.#node.figures.take();
  }

  usesServed(): ReadonlySet<string> {
    return this.#node.roster.usesServed();
  }

  openAttempts(options: AttemptFilter): readonly OpenAttempt[] {
    return openAttempts(this.#node, options);
  }

  isResident(execution: string): boolean {
    return this.#node.slots.has(execution);
  }

  isOpen(execution: string): boolean {
    const slot = this.#node.slots.get(execution);
    if (slot === undefined || slot.execution === null) return false;
    const { ended, round } = slot.execution;
    // While a retry is being committed, the stored execution has ended, so it does not count as open. Later writes do not announce an
    // end again, so a watcher of an ended execution would wait for ever.
    return !ended && (round === 1 || slot.status === "clean");
  }

  holderOf(attempt: ReportedAttempt): AttemptHolder | null {
    return holderOf(this.#node.slots.get(attempt.execution), attempt);
  }

  needsSingleCode(attempt: ReportedAttempt): boolean {
    return this.#node.slots.get(attempt.execution)?.handlerQueue(attempt)?.state.needsSingleCode === true;
  }

  dropped(execution: string): readonly Dropped[] {
    return this.#node.dropped.of(execution);
  }

  #published(execution: string, seq: number): void {
    const slot = this.#cache.slot(execution);
    notePublished(this.#node, slot, seq);
    // If the execution's commands are at a broker, no further write may follow after which it could leave memory. So this is checked
    // now.
    if (slot.sentLeases > 0) this.#cache.settle(slot);
  }

  /** Called when a workflow may have a newer definition: executions that wait for it check again. */
  #mayBeDefined(workflow: string): void {
    this.#node.definitionStored(workflow);
    this.#cache.rescan();
    this.#offerChildren(workflow);
  }

  /** Offers executions whose children wait for the definition of this workflow, and delivers starts that wait for it. */
  #offerChildren(workflow: string): void {
    this.#mailbox.workflowFound(workflow);
    for (const slot of waitingFor(this.#node, workflow)) this.#afterCommit.becameClean(slot);
  }

  #request(input: Extract<Input, { kind: "request" }>): void {
    const node = this.#node;
    const { message, request, plan, execution } = input;
    const refused = whyNotTaken(node, execution);
    if (refused !== null) return node.emit({ kind: "reply", request, answer: refused });
    if (plan !== undefined && message.kind === "start") this.#planOfStart(plan, message.project);
    const isFresh = input.fresh === true && !node.slots.has(execution);
    const slot = isFresh ? this.#cache.freshSlot(execution) : this.#cache.slot(execution);
    node.enqueue(slot, { kind: "message", message, request, plan, views: input.views });
  }

  /** Declares the plan of a start and its limits. If the start before it had the same plan, project and time, they are declared already. */
  #planOfStart(plan: Plan, project: string): void {
    const { now: at } = this.#node;
    const last = this.#lastStart;
    if (last !== null && last.plan === plan && last.project === project && last.at === at) return;
    this.addPlan(plan, project);
    this.#lastStart = { plan, project, at };
  }

  #pageRead(execution: string, seq: number, entry: Entry | null): void {
    const node = this.#node;
    const slot = node.slots.get(execution);
    const queue = slot?.queues.find((candidate) => candidate.fetching === seq);
    if (slot === undefined || queue === undefined) return;
    if (!pageRead(node, slot, queue, { seq, entry })) return this.#cache.recheck(slot);
    nameKeys(node, slot, queue);
    // A page was read, so the execution continues. Children whose tasks are in the page are started too, without a worker.
    if (slot.status === "clean")
      // @plant page that was read starts no children
      this.#afterCommit.becameClean(slot);
  }

  #clockDuty(): void {
    const node = this.#node;
    const scan = this.#timers.wantedScan(node.now);
    if (scan !== null)
      node.emit({
        kind: "scan-timers",
        ...scan,
        /* @plant timers of one partition scanned */ partitions: node.tenures.scope,
      });
    // Fires due timers while fewer loads than the limit are running. The number of executions in memory does not matter.
    while (this.#cache.loading < node.settings.windowMax) {
      const due = this.#timers.popDue(node.now);
      if (due === null) break;
      // The timer was found by a scan before this node lost the partition. It is dropped, because the next owner scans again.
      if (node.tenures.of(due.execution) === undefined) this.#timers.clear(due.execution, due.timer);
      // @plant timer of a lost partition fires
      if (node.tenures.of(due.execution) === undefined) continue;
      const slot = this.#cache.slot(due.execution);
      if (due.timer.startsWith("~")) {
        if (due.timer === WAKE) slot.wakeAt = 0;
        else {
          this.#timers.clear(due.execution, due.timer);
          slot.retryFired = true;
        }
        if (slot.status === "clean") this.#afterCommit.becameClean(slot);
      }
      // @plant timer discarded by a node not first
      else node.enqueueMessage(slot, { kind: "timer", timer: due.timer });
    }
    if (
      node.now >= this.#nextSweepAt ||
      (this.#nextSweepAt === Number.POSITIVE_INFINITY && node.roster.hasRemote)
    ) {
      const lapsed = sweepLeases(node);
      for (const slot of lapsed ?? []) if (slot.status === "clean") this.#afterCommit.becameClean(slot);
      const isWatching = lapsed !== null || node.roster.hasRemote;
      this.#nextSweepAt = isWatching ? node.now + node.settings.sweepMs : Number.POSITIVE_INFINITY;
    }
    node.starts.check();
    node.limits.unblock(node.now);
  }
}
