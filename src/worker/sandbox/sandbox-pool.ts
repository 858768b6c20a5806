/**
 * A pool of jailed sandbox processes that run scripts. Each process belongs to one project for its whole life.
 * 1. An attempt gets an idle process of its project. If there is none, it gets a new process, if necessary in place of an idle
 *    process of another project. Otherwise it waits.
 * 2. A process whose attempt ended as done or failed is used again. After any other end it is killed, and replaced on demand.
 * 3. A process that was idle for long, or has served many attempts, is ended.
 */
import { availableParallelism } from "node:os";
import { assert } from "../../std/assert.ts";
import { type Clock, systemClock } from "../../std/clock.ts";
import { AttemptWatch } from "./attempt-watch.ts";
import type { Jail } from "./jail.ts";
import { chooseJail } from "./jail-probe.ts";
import { readReport } from "./report-check.ts";
import { SandboxChild } from "./sandbox-child.ts";
import {
  type RunningScript,
  SCRIPT_LIMITS,
  type ScriptAttempt,
  type ScriptEnd,
  type ScriptEvent,
  type ScriptLimits,
} from "./script-attempt.ts";

export interface SandboxPoolOptions {
  readonly limits?: Partial<ScriptLimits>;
  /** The most sandbox processes at a time; by default the number of cores. */
  readonly childrenMax?: number;
  readonly idleMs?: number;
  readonly attemptsPerChild?: number;
  /** Runs scripts without a jail if no jail works on this machine. Only for trusted scripts. */
  readonly unsafeNoJail?: boolean;
  readonly clock?: Clock;
}

/** The status of one sandbox process, for status pages and tests. */
export interface ChildStatus {
  readonly project: string;
  readonly pid: number | undefined;
  readonly isIdle: boolean;
  /** The resident memory of the sandbox process; null if the system does not provide it. */
  readonly residentBytes: number | null;
}

interface Place {
  readonly project: string;
  readonly child: SandboxChild;
  served: number;
  isIdle: boolean;
  stopIdling: () => void;
}

interface Job {
  readonly attempt: ScriptAttempt;
  readonly onEvent: (event: ScriptEvent) => void;
  readonly end: (end: ScriptEnd) => void;
  cancel: (reason: string) => void;
}

const IDLE_MS = 60_000;
const START_MS = 20_000;
const ATTEMPTS_PER_CHILD = 500;

/** Opens a pool. Throws a `RondoError` with a hint if no jail works and `unsafeNoJail` is not set. */
export async function openSandboxPool(options: SandboxPoolOptions = {}): Promise<SandboxPool> {
  return new SandboxPool(await chooseJail({ unsafeNoJail: options.unsafeNoJail === true }), options);
}

export class SandboxPool {
  readonly jail: Jail;
  readonly #limits: ScriptLimits;
  readonly #options: SandboxPoolOptions;
  readonly #clock: Clock;
  readonly #places = new Set<Place>();
  /** Sandbox processes that were killed but may not have ended yet. */
  readonly #leaving = new Set<SandboxChild>();
  readonly #waiting: Job[] = [];
  readonly #running = new Set<Job>();
  #isClosed = false;

  constructor(jail: Jail, options: SandboxPoolOptions) {
    this.jail = jail;
    this.#options = options;
    this.#limits = { ...SCRIPT_LIMITS, ...options.limits };
    this.#clock = options.clock ?? systemClock();
  }

  /** Lists the sandbox processes that run an attempt or are idle. */
  get children(): readonly ChildStatus[] {
    return Array.from(this.#places, ({ project, child, isIdle }) => ({
      project,
      pid: child.pid,
      isIdle,
      residentBytes: child.residentBytes(),
    }));
  }

  /** Does the unfinished runs of an attempt. All events are delivered in order, before the end of the attempt. */
  run(attempt: ScriptAttempt, onEvent: (event: ScriptEvent) => void): RunningScript {
    assert(!this.#isClosed, "a closed sandbox pool runs no scripts");
    const { promise, resolve } = withResolvers<ScriptEnd>();
    const job: Job = {
      attempt,
      onEvent,
      end: (end) => {
        this.#running.delete(job);
        job.cancel = () => {};
        resolve(end);
      },
      cancel: (reason) => {
        const at = this.#waiting.indexOf(job);
        if (at >= 0) this.#waiting.splice(at, 1);
        job.end({ kind: "cancelled", run: null, reason });
      },
    };
    this.#waiting.push(job);
    this.#serve();
    return { done: promise, cancel: (reason) => job.cancel(reason) };
  }

  /** Cancels running and waiting attempts. Resolves when every sandbox process has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of [...this.#waiting, ...this.#running]) job.cancel("the sandbox closes");
    for (const place of this.#places) this.#drop(place);
    // Idle sandbox processes do not keep this worker process alive. Now they must, until all have ended.
    for (const child of this.#leaving) child.hold(true);
    await Promise.all(Array.from(this.#leaving, ({ ended }) => ended));
  }

  /** Assigns sandbox processes to the waiting attempts, the oldest first. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      const at = this.#waiting.findIndex(({ attempt }) => this.#canPlace(attempt.project));
      if (at < 0) return;
      const [job] = this.#waiting.splice(at, 1) as [Job];
      this.#running.add(job);
      const idle = this.#idlePlace(job.attempt.project);
      if (idle === null) this.#start(job);
      else this.#begin(job, idle);
    }
  }

  #canPlace(project: string): boolean {
    return this.#idlePlace(project) !== null || this.#hasRoom() || this.#idlePlace() !== null;
  }

  #hasRoom(): boolean {
    return this.#places.size < (this.#options.childrenMax ?? availableParallelism());
  }

  #idlePlace(project?: string): Place | null {
    for (const place of this.#places)
      if (place.isIdle && (project === undefined || place.project === project)) return place;
    return null;
  }

  /** Starts a sandbox process for the attempt. If the pool is full, it replaces an idle process of another project. */
  #start(job: Job): void {
    const other = this.#hasRoom() ? null : this.#idlePlace();
    if (other !== null) this.#drop(other);
    let child: SandboxChild;
    try {
      child = this.#newChild();
    } catch (error) {
      // The machine may lack memory, processes or disk for a sandbox process. The attempt counts as crashed, so it is retried
      // at this worker or another.
      const message = `no sandbox process could be started: ${(error as Error).message}`;
      job.end({ kind: "crashed", run: null, message });
      return;
    }
    const { project } = job.attempt;
    const place: Place = { project, child, served: 0, isIdle: false, stopIdling: () => {} };
    this.#places.add(place);
    const end = (ended: ScriptEnd): void => {
      stopTimer();
      child.listener = null;
      this.#drop(place);
      job.end(ended);
      this.#serve();
    };
    const crash = (message: string): void => end({ kind: "crashed", run: null, message });
    const stopTimer = this.#clock.after(START_MS, () =>
      crash(`the sandbox process did not start within ${START_MS} ms`),
    );
    job.cancel = (reason) => end({ kind: "cancelled", run: null, reason });
    child.listener = {
      ended: crash,
      line: (line) => {
        stopTimer();
        if (line !== null && readReport(line)?.kind === "ready") this.#begin(job, place);
        else crash("the first line of the sandbox process was not the report that it is ready");
      },
    };
  }

  #newChild(): SandboxChild {
    const { memoryBytes, stateBytesMax, logLineBytes } = this.#limits;
    return new SandboxChild({
      jail: this.jail,
      memoryBytes,
      // In a report, a state is JSON within JSON, so each of its characters takes at most three bytes. A character of a log
      // line can take six.
      lineBytesMax: 3 * stateBytesMax + 6 * logLineBytes + 65_536,
    });
  }

  #begin(job: Job, place: Place): void {
    place.isIdle = false;
    place.stopIdling();
    place.served += 1;
    place.child.hold(true);
    const watch = new AttemptWatch({
      child: place.child,
      attempt: job.attempt,
      limits: this.#limits,
      clock: this.#clock,
      onEvent: job.onEvent,
      onEnd: (end) => {
        this.#release(place, end);
        job.end(end);
        this.#serve();
      },
    });
    job.cancel = (reason) => watch.cancel(reason);
    watch.begin();
  }

  #release(place: Place, end: ScriptEnd): void {
    const { attemptsPerChild = ATTEMPTS_PER_CHILD, idleMs = IDLE_MS } = this.#options;
    const isClean = end.kind === "done" || end.kind === "failed";
    if (!isClean || place.child.isSpent || this.#isClosed || place.served >= attemptsPerChild) {
      this.#drop(place);
      return;
    }
    place.isIdle = true;
    place.child.hold(false);
    place.child.listener = { line: () => this.#drop(place), ended: () => this.#drop(place) };
    place.stopIdling = this.#clock.after(idleMs, () => this.#drop(place));
  }

  #drop(place: Place): void {
    place.stopIdling();
    place.isIdle = false;
    this.#places.delete(place);
    place.child.kill();
    if (!place.child.isAlive) return;
    this.#leaving.add(place.child);
    void place.child.ended.then(() => this.#leaving.delete(place.child));
  }
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
