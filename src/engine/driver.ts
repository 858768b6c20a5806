/**
 * The driver: does the I/O that an engine node asks for, and nothing else decides here. It feeds inputs in, performs
 * outputs, wakes the node when its time comes, and backs off when the store fails.
 */
import type { ControlMessage, SignalMessage, StartMessage } from "../kernel/message.ts";
import type { Plan } from "../kernel/plan.ts";
import type { Beat, Report, ReportedAttempt, Serves } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { type Commit, type Store, StoreFault, type StoreInfo } from "../store/store.ts";
import type { EngineOptions, Progress, Reply, WorkerLink } from "./driver-options.ts";
import { readLeases, storeLeases } from "./hand-over.ts";
import type { AttemptHolder, Dropped, Input, Inspection, OpenAttempt, Output, Overview } from "./io.ts";
import { EngineNode } from "./node.ts";
import { nowFor } from "./now-for.ts";
import type { Settings } from "./settings.ts";
import { type ReadOutput, readFor } from "./store-reads.ts";
import { addWatcher } from "./watchers.ts";

export type { EngineOptions, Progress, Reply, WorkerLink } from "./driver-options.ts";

const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 5_000;

export class Engine {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #options: EngineOptions;
  readonly #node: EngineNode;
  readonly #now: () => number;
  readonly info: StoreInfo;
  readonly #links = new Map<string, WorkerLink>();
  readonly #replies = new Map<number, (reply: Reply) => void>();
  readonly #inspections = new Map<number, (inspection: Inspection | Rejection) => void>();
  readonly #verdicts = new Map<string, (verdicts: readonly (readonly string[])[]) => void>();
  readonly #watchers = new Map<string, Set<Progress>>();
  readonly #logWatchers = new Map<string, Set<() => void>>();
  #requests = 0;
  #isScheduled = false;
  #isRunning = false;
  #cancelWake: (() => void) | null = null;
  #failures = 0;
  #commitFault: Error | null = null;
  readonly #onFaulty: (() => void)[] = [];
  #stopped: Error | null = null;
  readonly #pending = new Set<Promise<void>>();

  private constructor(options: EngineOptions, info: StoreInfo, settings?: Partial<Settings>) {
    this.#options = options;
    this.#store = options.store;
    this.#clock = options.clock;
    this.info = info;
    this.#node = new EngineNode(info, options.clock.now(), { ...options.settings, ...settings });
    this.#now = nowFor(this.#node, options.clock);
  }

  /** Opens the store and starts the node. */
  static async open(options: EngineOptions): Promise<Engine> {
    const info = await options.store.open();
    const engine = new Engine(options, info, await options.settingsFor?.(info, options.store));
    engine.#node.takeOver(await readLeases(options.store, info));
    engine.#schedule();
    return engine;
  }

  /** Sends a message to an execution and resolves with its answer once that is committed. */
  send(
    execution: string,
    message: StartMessage | ControlMessage | SignalMessage,
    start?: { plan: Plan; fresh: boolean; views?: boolean },
  ): Promise<Reply> {
    if (this.#stopped !== null)
      return Promise.resolve({ answer: stoppedAnswer(this.#stopped), existed: false });
    const request = ++this.#requests;
    return new Promise((resolve) => {
      this.#replies.set(request, resolve);
      this.#input({ kind: "request", request, execution, message, ...start });
    });
  }

  /** How an execution is, from committed state. */
  inspect(execution: string): Promise<Inspection | Rejection> {
    if (this.#stopped !== null) return Promise.resolve(stoppedAnswer(this.#stopped));
    const request = ++this.#requests;
    return new Promise((resolve) => {
      this.#inspections.set(request, resolve);
      this.#input({ kind: "inspect", request, execution });
    });
  }

  /** Connects a worker. */
  join(
    worker: string,
    link: WorkerLink,
    options: { serves: readonly Serves[]; capacity: number; local: boolean; asks?: boolean },
  ): void {
    this.#links.set(worker, link);
    this.#input({ kind: "worker-joined", worker, ...options });
  }

  /** Delivers a worker's reports; resolves with verdicts once they are committed. */
  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly string[])[]> {
    if (this.#stopped !== null) return Promise.resolve(reports.map(() => ["stale"]));
    const report = ++this.#requests;
    return new Promise((resolve) => {
      this.#verdicts.set(`${worker}/${report}`, resolve);
      this.#inputNow({ kind: "worker-reports", worker, report, reports });
    });
  }

  /** A remote worker asks for up to so many items; the newest word counts, 0 takes it back. */
  claim(worker: string, max: number): void {
    this.#input({ kind: "worker-claims", worker, max });
  }

  /** A remote worker's attempts are alive; its link is told of those whose leases are gone. */
  beat(worker: string, beats: readonly Beat[]): void {
    this.#inputNow({ kind: "worker-beats", worker, beats });
  }

  /** A worker is gone; its open leases end by their own rules. */
  leave(worker: string): void {
    this.#links.delete(worker);
    this.#input({ kind: "worker-left", worker });
  }

  /** Forgets executions that have ended and are not in use. */
  purge(ids: readonly string[]): void {
    this.#input({ kind: "purge", ids });
  }

  /** A definition was stored: executions that wait for a workflow of this name go on. */
  definitionStored(workflow: string): void {
    this.#input({ kind: "definition-stored", workflow });
  }

  /** What the node holds now: workers, limits, how much is open. */
  overview(): Overview {
    return this.#node.overview();
  }

  /** Attempts whose leases are open, of one worker or of all. */
  openAttempts(options: {
    worker: string | null;
    project?: string | null;
    max: number;
  }): readonly OpenAttempt[] {
    return this.#node.openAttempts(options);
  }

  /** Who holds an attempt, as far as is known in memory. */
  readonly holderOf = (attempt: ReportedAttempt): AttemptHolder | null => this.#node.holderOf(attempt);

  /** Messages that were dropped as duplicates or stale, newest last: a bounded list, while the execution is in memory. */
  dropped(execution: string): readonly Dropped[] {
    return this.#node.dropped(execution);
  }

  /** Calls `logged` after every commit with log lines of the execution; the returned function stops that. */
  watchLogs(execution: string, logged: () => void): () => void {
    return addWatcher(this.#logWatchers, execution, logged);
  }

  /** Calls `progress` after every commit of the execution; the returned function stops that. */
  watch(execution: string, progress: Progress): () => void {
    return addWatcher(this.#watchers, execution, progress);
  }

  /** Stops giving out work. */
  quiesce(): void {
    this.#input({ kind: "closing" });
  }

  /** Waits for what is under way, then releases the store: clean if no lease is open, or the next owner gets them all. */
  async close(): Promise<void> {
    this.quiesce();
    await this.#idle();
    const isHandedOver = await this.#handOver();
    // Words may have come meanwhile.
    await this.#idle();
    const isClean = this.#stopped === null && isHandedOver && !this.#node.hasSuspects;
    this.#stop(new Error("the engine is closed"));
    await this.#store.close({ clean: isClean });
  }

  /** It does nothing any more: it was closed, or it could not go on. */
  get hasStopped(): boolean {
    return this.#stopped !== null;
  }

  /** Why the store takes no commits just now; null: the last one was taken. */
  get commitFault(): Error | null {
    return this.#commitFault;
  }

  get openLeases(): number {
    return this.#node.openLeases;
  }

  get residentCount(): number {
    return this.#node.residentCount;
  }

  /** While the store fails nothing can be finished: what is open goes on after the next open. */
  async #idle(): Promise<void> {
    while (this.#stopped === null && this.#failures === 0 && (this.#node.isBusy || this.#pending.size > 0)) {
      const faulty = new Promise<void>((resolve) => this.#onFaulty.push(resolve));
      await Promise.race([Promise.all(this.#pending), faulty]);
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
  }

  /** Leaves what is open at workers elsewhere to the next owner; false: that cannot be. */
  async #handOver(): Promise<boolean> {
    if (this.#stopped !== null || this.#failures > 0) return this.#node.openLeases === 0;
    try {
      return await storeLeases(this.#store, this.#node.leaseTable());
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#options.onFault?.(thrown);
      return this.#node.openLeases === 0;
    }
  }

  #input(input: Input): void {
    if (this.#stopped !== null) return;
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
    let outputs: Output[];
    this.#isRunning = true;
    try {
      outputs = this.#node.advance(this.#now());
    } catch (thrown) {
      this.#isRunning = false;
      this.#fail(thrown);
      return;
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
      case "scan-letters":
        return this.#track(this.#read(output));
      case "purge":
        return this.#track(this.#purge(output.ids));
      case "ask-worker":
        return this.#track(this.#ask(output.worker, output.attempts));
      case "logged":
        for (const logged of [...(this.#logWatchers.get(output.execution) ?? [])]) logged();
        return;
      case "reply": {
        const resolve = this.#replies.get(output.request);
        this.#replies.delete(output.request);
        const { answer, existed = false, view } = output;
        return resolve?.({ answer, existed, ...(view === undefined ? {} : { view }) });
      }
      case "inspected": {
        const resolve = this.#inspections.get(output.request);
        this.#inspections.delete(output.request);
        return resolve?.(output.inspection);
      }
      case "grant":
        return this.#links.get(output.worker)?.take(output.grant);
      case "cancel":
        return this.#links.get(output.worker)?.cancel(output.attempts, output.why);
      case "verdicts": {
        const key = `${output.worker}/${output.report}`;
        const resolve = this.#verdicts.get(key);
        this.#verdicts.delete(key);
        return resolve?.(output.verdicts);
      }
      case "progressed":
        for (const progress of [...(this.#watchers.get(output.execution) ?? [])])
          progress(output.seq, output.end);
        return;
      case "fenced":
        return this.#fail(new Error(`this engine no longer owns its store: ${output.why}`));
      case "unreadable":
        return this.#options.onFault?.(
          new Error(`execution ${output.execution} is left alone: ${output.why}`),
        );
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
      this.#failures = 0;
      this.#commitFault = null;
      this.#inputNow({ kind: "committed", commit, verdict });
    } catch (thrown) {
      if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
      this.#commitFault = thrown;
      await this.#backOff(thrown);
      this.#input({ kind: "commit-failed", commit, nothingWritten: thrown.nothingWritten });
    }
  }

  async #read(output: ReadOutput): Promise<void> {
    for (;;) {
      try {
        this.#input(await readFor(this.#store, output));
        return;
      } catch (thrown) {
        if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
        await this.#backOff(thrown);
        if (this.#stopped !== null) return;
      }
    }
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

  async #ask(worker: string, attempts: readonly Beat[]): Promise<void> {
    const beats = (await this.#links.get(worker)?.ask?.(attempts)) ?? [];
    if (beats.length > 0) this.#input({ kind: "worker-vouches", worker, beats });
  }

  /** Tells of the fault and waits, longer each time. */
  async #backOff(fault: StoreFault): Promise<void> {
    this.#options.onFault?.(fault);
    for (const resolve of this.#onFaulty.splice(0)) resolve();
    const ms = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** Math.min(this.#failures++, 10));
    await new Promise<void>((resolve) => this.#clock.after(ms, resolve));
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
    this.#cancelWake?.();
    const answer = stoppedAnswer(reason);
    for (const resolve of this.#replies.values()) resolve({ answer, existed: false });
    for (const resolve of this.#inspections.values()) resolve(answer);
    for (const resolve of this.#verdicts.values()) resolve([]);
    this.#replies.clear();
    this.#inspections.clear();
    this.#verdicts.clear();
    for (const watchers of [...this.#watchers.values()])
      for (const progress of [...watchers]) progress(-1, "stopped");
  }
}

function stoppedAnswer(reason: Error): Rejection {
  return reject("not_ready", `the engine has stopped: ${reason.message}`, { hint: "open the store again" });
}
