/** Performs the I/O that an engine node requests, wakes the node when a time is due, and backs off when the store fails. */

import type { Verdict } from "../kernel/message.ts";
import type { Beat, Report, ReportedAttempt } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { OpenPromises } from "../std/open-promises.ts";
import type { Rejection } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { type Commit, type Head, type Store, StoreFault, type StoreInfo } from "../store/store.ts";
import { PendingReplies } from "./commit/pending-replies.ts";
import { StoreBackoff } from "./commit/store-backoff.ts";
import { WorkerLinks } from "./dispatch/worker-links.ts";
import {
  type EngineOptions,
  type Progress,
  type Reply,
  stoppedAnswer,
  type WorkerLink,
} from "./driver-options.ts";
import type { EnginePort, Request, StartOf } from "./engine-port.ts";
import type {
  AttemptFilter,
  Dropped,
  Input,
  Inspection,
  JoinOptions,
  OpenAttempt,
  Output,
  Overview,
} from "./io.ts";
import type { AttemptHolder } from "./leases/attempt-facts.ts";
import { inDoubt, readLeases, storeAllLeases } from "./leases/lease-handover.ts";
import { OutboxPort } from "./mailbox/outbox.ts";
import { keepUndelivered } from "./mailbox/undelivered.ts";
import { EngineNode } from "./node.ts";
import { PartitionInputs } from "./partitions/partition-inputs.ts";
import { PostOpRunner } from "./post-ops/post-op-runner.ts";
import type { Settings } from "./settings.ts";
import { type ReadOutput, readFor } from "./store-reads.ts";
import { nowFor } from "./timers/now-for.ts";
import type { HourFigures } from "./views/figures.ts";
import { makePhaseSpan } from "./views/phase-span.ts";

export type { EngineOptions, Progress, Reply, WorkerLink } from "./driver-options.ts";

/** The longest time that a close waits for running post-operations. Unfinished ones are repeated after the next open. */
const POST_OPS_GRACE_MS = 5_000;

export class Engine implements EnginePort {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #options: EngineOptions;
  readonly #node: EngineNode;
  readonly #now: () => number;
  readonly info: StoreInfo;
  readonly #links = new WorkerLinks();
  readonly #replies = new PendingReplies();
  #requests = 0;
  #isScheduled = false;
  #isRunning = false;
  /** The timer that wakes the node, with the value of `clock.stepped()` when it was set; null if there is none. */
  #wake: { readonly at: number; readonly stepped: number; readonly cancel: () => void } | null = null;
  readonly #backoff: StoreBackoff;
  readonly cluster: PartitionInputs;
  readonly outbox: OutboxPort;
  #stopped: Error | null = null;
  /** Returns the fault, reported by the store itself, that prevents commits; null if there is none. */
  #unwritable: () => Error | null = () => null;
  readonly #pending = new OpenPromises();
  readonly #postOpRunner: PostOpRunner;

  private constructor(options: EngineOptions, info: StoreInfo, settings?: Partial<Settings>) {
    this.#options = options;
    this.#store = options.store;
    this.#clock = options.clock;
    this.info = info;
    this.#backoff = new StoreBackoff(options.clock, options.onFault);
    this.#node = new EngineNode(info, options.clock.now(), { ...options.settings, ...settings });
    this.#now = nowFor(this.#node, options.clock);
    this.#postOpRunner = new PostOpRunner(options, (performed) => this.#input(performed));
    const take = (input: Input): void => this.#input(input);
    this.outbox = new OutboxPort(take, () => this.#node.scope);
    this.cluster = new PartitionInputs(options.store, take, (fault) => options.onFault?.(fault));
  }

  static async open(options: EngineOptions): Promise<Engine> {
    const opened = await options.store.open();
    let unwritable: Error | null = null;
    options.store.onUnwritable?.((fault) => {
      unwritable = fault;
      if (fault !== null) options.onFault?.(fault);
    });
    const left = await readLeases(options.store, opened.owned);
    const info = { ...opened, owned: inDoubt(opened.owned, left) };
    for (const warning of info.warnings ?? []) options.onFault?.(new Error(warning));
    const engine = new Engine(options, info, await options.settingsFor?.(info, options.store));
    engine.#unwritable = () => unwritable;
    engine.#node.takeOver(left.leases);
    engine.#schedule();
    return engine;
  }

  send(execution: string, message: Request, start?: StartOf): Promise<Reply> {
    if (this.#stopped !== null)
      return Promise.resolve({ answer: stoppedAnswer(this.#stopped), existed: false });
    const request = ++this.#requests;
    const reply = this.#replies.replies.ask(request);
    this.#input({ kind: "request", request, execution, message, ...start });
    return reply;
  }

  inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection> {
    if (this.#stopped !== null) return Promise.resolve(stoppedAnswer(this.#stopped));
    const request = ++this.#requests;
    const inspection = this.#replies.inspections.ask(request);
    this.#input({ kind: "inspect", request, execution, ...(attempt === undefined ? {} : { attempt }) });
    return inspection.then((found) => this.#links.explain(found));
  }

  readonly epochOf = (execution: string): number | null => this.#node.epochOf(execution);
  readonly isOwn = (execution: string): boolean => this.epochOf(execution) !== null;

  join(worker: string, link: WorkerLink, options: JoinOptions): void {
    this.#links.add(worker, link, options.serves);
    this.#input({ kind: "worker-joined", worker, ...options });
  }

  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly Verdict[])[]> {
    if (this.#stopped !== null) return Promise.resolve(reports.map(() => ["stale"]));
    const report = ++this.#requests;
    const verdicts = this.#replies.verdicts.ask(`${worker}/${report}`);
    this.#inputNow({ kind: "worker-reports", worker, report, reports });
    return verdicts;
  }

  readonly claim = (worker: string, max: number, why?: string): void =>
    this.#input({ kind: "worker-claims", worker, max, ...(why === undefined ? {} : { why }) });

  readonly beat = (worker: string, beats: readonly Beat[]): void =>
    this.#inputNow({ kind: "worker-beats", worker, beats });

  readonly release = (worker: string, beats: readonly Beat[]): void =>
    this.#input({ kind: "worker-releases", worker, beats });

  readonly sent = (worker: string, beats: readonly Beat[]): void =>
    this.#input({ kind: "worker-sent", worker, beats });

  leave(worker: string): void {
    this.#links.remove(worker);
    this.#input({ kind: "worker-left", worker });
  }

  readonly purge = (ids: readonly string[]): void => this.#input({ kind: "purge", ids });
  readonly mailStored = (): void => this.#input({ kind: "mail-stored" });

  readonly definitionStored = (workflow: string): void =>
    this.#input({ kind: "definition-stored", workflow });

  readonly bindProjects = (projects: ReadonlySet<string>): void =>
    this.#input({ kind: "projects-bound", projects });

  readonly pauseQueues = (paused: ReadonlyMap<string, string>): void =>
    this.#input({ kind: "queues-paused", paused });

  readonly overview = (): Overview => this.#node.overview();
  readonly takeFigures = (): readonly HourFigures[] => this.#node.takeFigures();

  readonly openAttempts = (all: AttemptFilter): readonly OpenAttempt[] => this.#node.openAttempts(all);
  readonly usesServed = (): ReadonlySet<string> => this.#node.usesServed();

  readonly isResident = (execution: string): boolean => this.#node.isResident(execution);
  readonly isOpen = (execution: string): boolean => !this.hasStopped && this.#node.isOpen(execution);
  readonly holderOf = (attempt: ReportedAttempt): AttemptHolder | null => this.#node.holderOf(attempt);
  readonly needsSingleCode = (attempt: ReportedAttempt): boolean => this.#node.needsSingleCode(attempt);

  readonly dropped = (execution: string): readonly Dropped[] => this.#node.dropped(execution);

  watchLogs(execution: string, logged: () => void): () => void {
    return this.#replies.logWatchers.add(execution, logged);
  }

  watch(execution: string, progress: Progress): () => void {
    return this.#replies.watchers.add(execution, progress);
  }

  readonly quiesce = (): void => this.#input({ kind: "closing" });

  /**
   * Waits for open work, then releases the store. The release is clean if no lease is open. Otherwise the next owner gets a table of
   * the open leases.
   */
  async close(): Promise<void> {
    this.quiesce();
    await this.#idle();
    const isHandedOver = await this.#handOver();
    // Messages may have arrived during the hand-over, and running post-operations may end soon.
    const until = this.#clock.now() + POST_OPS_GRACE_MS;
    do {
      await this.#postOpRunner.idle(until - this.#clock.now());
      await this.#idle();
    } while (this.#postOpRunner.isBusy && this.#stopped === null && this.#clock.now() < until);
    const isClean = this.#stopped === null && isHandedOver && !this.#node.hasSuspects;
    this.#stop(new Error("the engine is closed"));
    await this.#store.close({ clean: isClean });
  }

  get hasStopped(): boolean {
    return this.#stopped !== null;
  }

  get commitFault(): Error | null {
    return this.#backoff.commitFault ?? this.#unwritable();
  }

  get openLeases(): number {
    return this.#node.openLeases;
  }
  get residentCount(): number {
    return this.#node.residentCount;
  }

  get reads(): number {
    return this.#node.reads;
  }

  /** Waits until there is no open work. While the store fails, no work can be finished, so it is left for the next open. */
  async #idle(): Promise<void> {
    while (
      this.#stopped === null &&
      !this.#backoff.isFailing &&
      (this.#node.isBusy || this.#pending.size > 0)
    ) {
      await Promise.race([this.#pending.all(), this.#backoff.nextFault()]);
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
  }

  /** Hands attempts at remote workers over to the next owner. Returns false if that is not possible. */
  async #handOver(): Promise<boolean> {
    if (this.#stopped !== null || this.#backoff.isFailing) return this.#node.openLeases === 0;
    try {
      return await storeAllLeases(this.#store, this.#node.leaseTables());
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#options.onFault?.(thrown);
      return this.#node.openLeases === 0;
    }
  }

  #input(input: Input): void {
    if (this.#stopped !== null) return;
    if (input.kind === "members") this.#backoff.renewed();
    this.#node.input(input, this.#now());
    this.#schedule();
  }

  /** Applies an input to the node at once, without batching. It is for inputs that are batches already. */
  #inputNow(input: Input): void {
    if (this.#stopped !== null) return;
    this.#node.input(input, this.#now());
    if (this.#isRunning) this.#schedule();
    else this.#run();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#stopped !== null) return;
    this.#isScheduled = true;
    this.#clock.soon(() => {
      this.#isScheduled = false;
      if (this.#stopped === null) this.#run();
    });
  }

  #run(): void {
    if (this.#node.isOwner && this.#options.mayAct?.() === false) return;
    let outputs: Output[];
    this.#isRunning = true;
    try {
      outputs = this.#node.advance(this.#now());
    } catch (thrown) {
      this.#isRunning = false;
      return this.#fail(thrown);
    }
    for (const output of outputs) this.#perform(output);
    this.#isRunning = false;
    if (this.#node.isWaiting) this.#schedule();
    else this.#wakeAt(this.#node.nextWakeAt());
  }

  /**
   * Sets the timer that wakes the node. Keeps a timer that is due earlier, because most turns only move the time to a later one; the turn
   * after that timer sets the next one. After a jump of the clock the timer is set anew. `stepped` does not count jumps of less than
   * half a second; after one the timer fires that much too late.
   */
  #wakeAt(at: number): void {
    const stepped = this.#clock.stepped?.() ?? 0;
    const isSoonEnough = this.#wake !== null && this.#wake.at <= at && this.#wake.stepped === stepped;
    if (at === Number.POSITIVE_INFINITY || isSoonEnough) return;
    this.#wake?.cancel();
    const cancel = this.#clock.after(Math.max(0, at - this.#clock.now()), () => {
      this.#wake = null;
      this.#schedule();
    });
    this.#wake = { at, stepped, cancel };
  }

  #perform(output: Output): void {
    switch (output.kind) {
      case "commit":
        return this.#track(this.#commit(output.commit, output.content));
      case "load":
      case "get-definition":
      case "find-workflow":
      case "read-page":
      case "scan-work":
      case "scan-timers":
      case "scan-mailbox":
        return this.#track(this.#read(output));
      case "purge":
        return this.#track(this.#purge(output.ids));
      case "trim":
        return this.#track(this.#orFault(this.#store.trimJournal(output.execution, output.before)));
      case "phase-ended":
        return this.#track(this.#orFault(makePhaseSpan(this.#store, output)));
      case "perform":
        return this.#postOpRunner.run(output.task);
      case "ask-worker":
        return this.#track(this.#links.ask(output, (vouched) => this.#input(vouched)));
      case "reply":
      case "inspected":
      case "verdicts":
      case "progressed":
      case "logged":
        return this.#replies.deliver(output);
      case "grant":
      case "cancel":
      case "withdraw":
      case "check-sent":
      case "took-over":
      case "queue-closed":
        return this.#links.send(output);
      case "ask-permits":
      case "grant-permits":
      case "call-permits":
      case "timers-changed":
      case "mail-sent":
        return this.#options.onCluster?.(output);
      case "fenced":
        if (this.#options.onCluster !== undefined) return this.#options.onCluster(output);
        return this.#fail(new Error(`this engine no longer owns its store: ${output.why}`));
      case "publish":
        return this.outbox.publish(output);
      case "yielded":
        return this.cluster.yielded(output);
      case "store-quotas":
        return this.#track(this.cluster.storeQuotas(output));
      case "damaged":
        return this.#track(this.#markDamaged(output.head));
      case "undelivered":
        return this.#track(this.#keepUndelivered(output));
      case "unreadable":
        this.#options.onFault?.(
          new Error(`execution ${output.execution} cannot continue at this node: ${output.why}`),
        );
        return this.#options.onCluster?.(output);
    }
  }

  #track(work: Promise<void>): void {
    this.#pending.add(work.catch((thrown: unknown) => this.#fail(thrown)));
  }

  async #commit(commit: number, content: Commit): Promise<void> {
    try {
      const verdict = await this.#store.commit(content);
      this.#backoff.succeeded();
      this.#inputNow({ kind: "committed", commit, verdict });
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      await this.#backoff.commitFailed(thrown);
      this.#input({ kind: "commit-failed", commit, nothingWritten: thrown.nothingWritten });
    }
  }

  async #read(output: ReadOutput): Promise<void> {
    const read = async () => readFor(this.#store, output);
    const answer = await this.#backoff.with(read, () => this.hasStopped);
    if (answer !== null) this.#input(answer);
  }

  /** Marks the execution as damaged in lists, by its head. */
  async #markDamaged(head: Head): Promise<void> {
    this.#options.onFault?.(
      new Error(`execution ${head.id} is damaged; other executions continue: ${head.error}`),
    );
    const mark = () => this.#store.putDerived({ head, timers: null, opened: null, end: null });
    await this.#backoff.with(mark, () => this.hasStopped);
  }

  async #keepUndelivered(undelivered: Extract<Output, { kind: "undelivered" }>): Promise<void> {
    const { id, to, message } = undelivered;
    this.#options.onFault?.(
      new Error(
        `the message ${id} (${message.kind}) was dropped: its receiver, execution ${to}, does not exist`,
      ),
    );
    await this.#backoff.with(
      () => keepUndelivered(this.#store, undelivered),
      () => this.hasStopped,
    );
  }

  /** Purges executions. If an execution cannot be purged now, a later purge deletes it. */
  async #purge(ids: readonly string[]): Promise<void> {
    try {
      await this.#store.purge(ids);
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#options.onFault?.(thrown);
    }
    this.#input({ kind: "purged", ids });
  }

  /** Waits for an operation of the store. If the store fails, the operation is skipped, and only the fault is reported. */
  async #orFault(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#options.onFault?.(thrown);
    }
  }

  #fail(thrown: unknown): void {
    if (this.#stopped !== null) return;
    const reason = toError(thrown);
    this.#stop(reason);
    this.#options.onStop?.(reason);
  }

  #stop(reason: Error): void {
    if (this.#stopped !== null) return;
    this.#stopped = reason;
    this.#postOpRunner.stop();
    this.#wake?.cancel();
    this.#replies.dismiss(stoppedAnswer(reason));
  }
}
