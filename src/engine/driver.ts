/**
 * The driver: performs the I/O that an engine node requests, and decides nothing. It passes inputs to the node, performs its
 * outputs, wakes it when a time is due, and backs off when the store fails.
 */
import type { Verdict } from "../kernel/message.ts";
import type { Beat, Report, ReportedAttempt } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import type { Rejection } from "../std/rejection.ts";
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
import { EngineNode } from "./node.ts";
import { PartitionInputs } from "./partitions/partition-inputs.ts";
import { PostOpRunner } from "./post-ops/post-op-runner.ts";
import type { Settings } from "./settings.ts";
import { type ReadOutput, readFor } from "./store-reads.ts";
import { nowFor } from "./timers/now-for.ts";

export type { EngineOptions, Progress, Reply, WorkerLink } from "./driver-options.ts";

/** How long a close waits for post-operations under way: what does not end by then is done again after the next open. */
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
  #cancelWake: (() => void) | null = null;
  readonly #backoff: StoreBackoff;
  /** What a cluster does with the engine, and whoever publishes its events. */
  readonly cluster: PartitionInputs;
  readonly outbox: OutboxPort;
  #stopped: Error | null = null;
  /** What the store has found by itself that keeps it from taking commits. */
  #unwritable: () => Error | null = () => null;
  readonly #pending = new Set<Promise<void>>();
  /** Post-operations under way. */
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

  /** Opens the store and starts the node. */
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

  /** Sends a message to an execution and resolves with its answer once that is committed. */
  send(execution: string, message: Request, start?: StartOf): Promise<Reply> {
    if (this.#stopped !== null)
      return Promise.resolve({ answer: stoppedAnswer(this.#stopped), existed: false });
    const request = ++this.#requests;
    const reply = this.#replies.replies.ask(request);
    this.#input({ kind: "request", request, execution, message, ...start });
    return reply;
  }

  /** How an execution is, from committed state. */
  inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection> {
    if (this.#stopped !== null) return Promise.resolve(stoppedAnswer(this.#stopped));
    const request = ++this.#requests;
    const inspection = this.#replies.inspections.ask(request);
    this.#input({ kind: "inspect", request, execution, ...(attempt === undefined ? {} : { attempt }) });
    return inspection.then((found) => this.#links.explain(found));
  }

  readonly epochOf = (execution: string): number | null => this.#node.epochOf(execution);
  readonly isOwn = (execution: string): boolean => this.epochOf(execution) !== null;

  /** Connects a worker. */
  join(worker: string, link: WorkerLink, options: JoinOptions): void {
    this.#links.add(worker, link, options.serves);
    this.#input({ kind: "worker-joined", worker, ...options });
  }

  /** Delivers a worker's reports; resolves with verdicts once they are committed. */
  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly Verdict[])[]> {
    if (this.#stopped !== null) return Promise.resolve(reports.map(() => ["stale"]));
    const report = ++this.#requests;
    const verdicts = this.#replies.verdicts.ask(`${worker}/${report}`);
    this.#inputNow({ kind: "worker-reports", worker, report, reports });
    return verdicts;
  }

  /** A remote worker asks for up to so many items; the newest word counts, 0 takes it back, perhaps for a reason. */
  readonly claim = (worker: string, max: number, why?: string): void =>
    this.#input({ kind: "worker-claims", worker, max, ...(why === undefined ? {} : { why }) });

  /** A remote worker's attempts are alive; its link is told of those whose leases are gone. */
  readonly beat = (worker: string, beats: readonly Beat[]): void =>
    this.#inputNow({ kind: "worker-beats", worker, beats });

  readonly release = (worker: string, beats: readonly Beat[]): void =>
    this.#input({ kind: "worker-releases", worker, beats });

  readonly sent = (worker: string, beats: readonly Beat[]): void =>
    this.#input({ kind: "worker-sent", worker, beats });

  /** A worker is gone; its open leases end by their own rules. */
  leave(worker: string): void {
    this.#links.remove(worker);
    this.#input({ kind: "worker-left", worker });
  }

  readonly purge = (ids: readonly string[]): void => this.#input({ kind: "purge", ids });

  readonly definitionStored = (workflow: string): void =>
    this.#input({ kind: "definition-stored", workflow });

  readonly bindProjects = (projects: ReadonlySet<string>): void =>
    this.#input({ kind: "projects-bound", projects });

  /** What the node holds now: workers, limits, how much is open. */
  readonly overview = (): Overview => this.#node.overview();

  /** Attempts whose leases are open, of one worker or of all. */
  readonly openAttempts = (all: AttemptFilter): readonly OpenAttempt[] => this.#node.openAttempts(all);
  readonly usesServed = (): ReadonlySet<string> => this.#node.usesServed();

  readonly isResident = (execution: string): boolean => this.#node.isResident(execution);
  readonly holderOf = (attempt: ReportedAttempt): AttemptHolder | null => this.#node.holderOf(attempt);
  readonly needsSingleCode = (attempt: ReportedAttempt): boolean => this.#node.needsSingleCode(attempt);

  /** Messages that were dropped as duplicates or stale, newest last: a bounded list, kept while this runs. */
  readonly dropped = (execution: string): readonly Dropped[] => this.#node.dropped(execution);

  /** Calls `logged` after every commit with log lines of the execution; the returned function stops that. */
  watchLogs(execution: string, logged: () => void): () => void {
    return this.#replies.logWatchers.add(execution, logged);
  }

  /** Calls `progress` after every commit of the execution; the returned function stops that. */
  watch(execution: string, progress: Progress): () => void {
    return this.#replies.watchers.add(execution, progress);
  }

  readonly quiesce = (): void => this.#input({ kind: "closing" });

  /** Waits for what is under way, then releases the store: clean if no lease is open, or the next owner gets them all. */
  async close(): Promise<void> {
    this.quiesce();
    await this.#idle();
    const isHandedOver = await this.#handOver();
    // Words may have come meanwhile; what is owed to others may end too, if it does so soon.
    const until = this.#clock.now() + POST_OPS_GRACE_MS;
    do {
      await this.#postOpRunner.idle(until - this.#clock.now());
      await this.#idle();
    } while (this.#postOpRunner.isBusy && this.#stopped === null && this.#clock.now() < until);
    const isClean = this.#stopped === null && isHandedOver && !this.#node.hasSuspects;
    this.#stop(new Error("the engine is closed"));
    await this.#store.close({ clean: isClean });
  }

  /** It does nothing any more: it was closed, or it could not go on. */
  get hasStopped(): boolean {
    return this.#stopped !== null;
  }

  /** Why the store takes no commits just now; null: it takes them, as far as is known. */
  get commitFault(): Error | null {
    return this.#backoff.commitFault ?? this.#unwritable();
  }

  get openLeases(): number {
    return this.#node.openLeases;
  }
  get residentCount(): number {
    return this.#node.residentCount;
  }

  /** While the store fails nothing can be finished: what is open goes on after the next open. */
  async #idle(): Promise<void> {
    while (
      this.#stopped === null &&
      !this.#backoff.isFailing &&
      (this.#node.isBusy || this.#pending.size > 0)
    ) {
      await Promise.race([Promise.all(this.#pending), this.#backoff.nextFault()]);
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
  }

  /** Leaves what is open at workers elsewhere to the next owner; false: that cannot be. */
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

  /** For input that comes in batches already: taken and acted on at once, without waiting for more. */
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
    this.#cancelWake?.();
    this.#cancelWake = null;
    const at = this.#node.nextWakeAt();
    if (at !== Number.POSITIVE_INFINITY)
      this.#cancelWake = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#schedule());
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
      case "store-home":
        return this.#track(this.cluster.storeQuotas(output));
      case "damaged":
        return this.#track(this.#markDamaged(output.head));
      case "unreadable":
        this.#options.onFault?.(new Error(`execution ${output.execution} is left alone: ${output.why}`));
        return this.#options.onCluster?.(output);
    }
  }

  #track(work: Promise<void>): void {
    const tracked: Promise<void> = work
      .catch((thrown: unknown) => this.#fail(thrown))
      .finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
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

  /** Lists show it as damaged from now on; what it is about is in its head. */
  async #markDamaged(head: Head): Promise<void> {
    this.#options.onFault?.(new Error(`execution ${head.id} is damaged, the others go on: ${head.error}`));
    const mark = () => this.#store.putDerived({ head, timers: null, opened: null, end: null });
    await this.#backoff.with(mark, () => this.hasStopped);
  }

  /** What cannot be forgotten now is forgotten another time. */
  async #purge(ids: readonly string[]): Promise<void> {
    try {
      await this.#store.purge(ids);
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#options.onFault?.(thrown);
    }
    this.#input({ kind: "purged", ids });
  }

  #fail(thrown: unknown): void {
    if (this.#stopped !== null) return;
    const reason = thrown instanceof Error ? thrown : new Error(String(thrown));
    this.#stop(reason);
    this.#options.onStop?.(reason);
  }

  #stop(reason: Error): void {
    if (this.#stopped !== null) return;
    this.#stopped = reason;
    this.#postOpRunner.stop();
    this.#cancelWake?.();
    this.#replies.dismiss(stoppedAnswer(reason));
  }
}
