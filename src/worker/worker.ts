/**
 * A worker: runs handler code for the grants it is given and reports what became of it, in batches. It knows
 * neither engine nor transport: grants come in by `take`, reports go out by `send`.
 *
 * 1. Granted items wait in a queue; at most `concurrency` run at a time, and a turn lasts only so long. Scripts wait
 *    in a queue of their own.
 * 2. Code that returns at once costs no promise, no timer and no report of its own.
 * 3. At the end of a turn everything that ended is reported together; what runs on is reported as started.
 */

import type { Beat, Grant, GrantItem } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { isThenable } from "../std/thenable.ts";
import { atMost } from "../std/within.ts";
import { samePlace } from "./attempt-place.ts";
import { CodeRunner } from "./code-runner.ts";
import type { Around, Shared } from "./context.ts";
import type { HandlerCode } from "./handler-code.ts";
import { HostedCode } from "./hosted-code.ts";
import { Secrets } from "./log/secrets.ts";
import { handedBack, threw } from "./outcome.ts";
import { Reporter, type Send } from "./reporter.ts";
import type { ResultsSource } from "./results-reader.ts";
import { type ScriptOptions, ScriptRunner } from "./script-runner.ts";
import { tracingOf } from "./tracing.ts";
import { WorkQueue } from "./work-queue.ts";

export interface WorkerOptions {
  readonly clock: Clock;
  readonly results: ResultsSource;
  /** Delivers reports; resolves when they are committed, with a verdict list per report. */
  readonly send: Send;
  /** Gets what is logged, as it is logged. */
  readonly log: Around["onLog"];
  /** Items that run at the same time. */
  readonly concurrency: number;
  /** Without it, this worker does no scripts. */
  readonly scripts?: ScriptOptions | undefined;
  /** Values that are redacted in logs and errors, each of at least 4 characters. */
  readonly secrets?: readonly string[] | undefined;
  /** Why code has no steps, sleeps, waits and earlier results here; undefined: it has. */
  readonly lacks?: string | undefined;
  /** Called with a failure of the worker itself, which is a bug. */
  readonly onBug: (thrown: unknown) => void;
}

/** Items run in one turn before reports go out and input is taken. */
const TURN_ITEMS = 1_000;
const TURN_MS = 20;
/** Characters of results that may wait for their commit: beyond, nothing new begins. */
const UNCOMMITTED_CHARS_MAX = 33_554_432;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #around: Around;
  readonly #reporter: Reporter;
  readonly #runner: CodeRunner;
  readonly #scripts: ScriptRunner | null;
  readonly #hosted = new HostedCode();
  readonly #queue = new WorkQueue();
  readonly #scriptQueue = new WorkQueue();
  #lead: Grant | null = null;
  #isScheduled = false;
  #isStopping = false;
  #onIdle: (() => void)[] = [];

  constructor(options: WorkerOptions) {
    this.#options = options;
    const { clock, results, send, log: onLog, onBug, scripts } = options;
    const secrets = new Secrets(options.secrets);
    const schedule = (): void => this.#schedule();
    const onCommitted = (): void => {
      if (!this.#queue.isEmpty) this.#schedule();
    };
    this.#reporter = new Reporter({ clock, secrets, send, schedule, onCommitted, onBug });
    this.#scripts = scripts === undefined ? null : new ScriptRunner(scripts.open);
    const runner = new CodeRunner({ clock, reporter: this.#reporter, onEnded: schedule, onBug });
    this.#runner = runner;
    this.#around = {
      clock,
      results,
      reporter: this.#reporter,
      secrets,
      onLog,
      lacks: options.lacks ?? null,
      end: (running, outcome) => runner.attempts.end(running, outcome),
    };
  }

  /** Adds code to host. Two workflows may share a handler's name, and a name may have several versions. */
  host(workflow: string, code: HandlerCode): void {
    this.#hosted.add(workflow, code);
  }

  /** Takes granted work. */
  take(grant: Grant): void {
    const code = this.#hosted.find(grant);
    const input = inputOf(grant, code);
    if (!isThenable(input)) {
      this.#enqueue(grant, code, input);
      return;
    }
    input.then(
      (value) => this.#enqueue(grant, code, value),
      (thrown: unknown) => this.#refuse(grant, thrown),
    );
  }

  /** Stops attempts: the engine cancelled them, or their leases are lost. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    for (const beat of beats) this.#runner.attempts.cancel(beat, why);
    this.giveBack(beats);
  }

  /** Hands back those of them that have not begun. */
  giveBack(beats: readonly Beat[]): void {
    const giveUp = (shared: Shared, item: GrantItem): void => this.#handBack(shared.grant, item, "not begun");
    for (const beat of beats) {
      this.#queue.giveUp(beat, giveUp);
      this.#scriptQueue.giveUp(beat, giveUp);
    }
    this.#schedule();
  }

  /**
   * Ends gracefully: gives back what has not begun, lets the rest end within `graceMs`, hands back what has not ended by
   * then. Resolves when all of that is committed, or was given `lastWordsMs` to be.
   */
  async stop(graceMs: number, lastWordsMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#isStopping = true;
    const { attempts } = this.#runner;
    for (const queue of [this.#queue, this.#scriptQueue])
      queue.clear(({ grant }, item) => this.#handBack(grant, item, "not begun"));
    this.#reporter.flush();
    if (attempts.size > 0) await this.#idle(graceMs);
    attempts.abandon(new Error("the worker stops"), handedBack("the worker stopped"));
    this.#reporter.flush();
    await this.#heard(lastWordsMs);
    await this.#scripts?.close();
  }

  /** Resolves when nothing runs any more, or after so long. */
  #idle(graceMs: number): Promise<void> {
    const idle = new Promise<void>((resolve) => this.#onIdle.push(resolve));
    return atMost(this.#options.clock, graceMs, idle);
  }

  /** Resolves when everything that was said is committed, or after so long. */
  #heard(lastWordsMs: number): Promise<void> {
    const settled = this.#reporter.settled();
    if (lastWordsMs === Number.POSITIVE_INFINITY) return settled;
    return atMost(this.#options.clock, lastWordsMs, settled);
  }

  #enqueue(grant: Grant, code: HandlerCode | undefined, input: unknown): void {
    if (this.#isStopping) {
      for (const item of grant.items) this.#handBack(grant, item, "the worker stops");
      this.#reporter.flush();
      return;
    }
    const last = this.#lead;
    const lead = last !== null && last.do === grant.do && samePlace(last, grant) ? last : grant;
    this.#lead = lead;
    const shared = { grant, lead, code, input, around: this.#around, tracing: tracingOf(grant) };
    const queue = grant.do === "script" ? this.#scriptQueue : this.#queue;
    queue.push(shared);
    this.#schedule();
  }

  /** The input does not fit: every attempt of the grant fails with that. */
  #refuse(grant: Grant, thrown: unknown): void {
    for (const item of grant.items) this.#reporter.receipt(grant, item, 0, threw(thrown));
    this.#schedule();
  }

  #handBack(grant: Grant, item: GrantItem, why: string): void {
    this.#reporter.receipt(grant, item, 0, handedBack(why));
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.clock.soon(() => {
      this.#isScheduled = false;
      this.#turn();
    });
  }

  #turn(): void {
    const from = this.#runner.look();
    let items = 0;
    while (!this.#queue.isEmpty && items < TURN_ITEMS && this.#hasRoom()) {
      items += this.#beginNext();
      // Code that returns at once may have taken long to do so.
      if (this.#runner.at - from > TURN_MS) break;
    }
    while (!this.#scriptQueue.isEmpty && this.#hasScriptRoom()) this.#beginScript();
    this.#reporter.flush();
    if (!this.#queue.isEmpty && this.#hasRoom()) this.#schedule();
    if (this.#runner.attempts.size === 0 && this.#queue.isEmpty && this.#scriptQueue.isEmpty)
      for (const idle of this.#onIdle.splice(0)) idle();
  }

  /** Whether another item may begin: not too many run, and what they may come to fits with what is not committed yet. */
  #hasRoom(): boolean {
    const running = this.#runner.attempts.size;
    const { uncommittedChars, usualChars } = this.#reporter;
    return (
      running < this.#options.concurrency && uncommittedChars + running * usualChars < UNCOMMITTED_CHARS_MAX
    );
  }

  #hasScriptRoom(): boolean {
    return this.#runner.scripts < (this.#options.scripts?.atOnce ?? Number.POSITIVE_INFINITY);
  }

  /** Begins the next item, or group of them; returns how many. */
  #beginNext(): number {
    const shared = this.#queue.first as Shared;
    const { grant, code } = shared;
    const isBatch = grant.do === "process" && code?.processBatch !== undefined;
    if (code !== undefined && isBatch && (grant.batch > 1 || code.process === undefined)) {
      const group = this.#queue.takeGroup(Math.max(1, grant.batch));
      if (group.length > 0) this.#runner.beginGroup(shared, group, code);
      return group.length;
    }
    const item = this.#queue.take();
    if (item === undefined) return 1;
    if (code === undefined) this.#handBack(grant, item, `this worker does not serve ${shownUse(grant)}`);
    else if (grant.do === "enumerate") this.#runner.beginEnumeration(shared, item, code);
    else this.#runner.beginTask(shared, item, code);
    return 1;
  }

  #beginScript(): void {
    const shared = this.#scriptQueue.first as Shared;
    const item = this.#scriptQueue.take();
    if (item === undefined) return;
    if (this.#scripts === null) this.#handBack(shared.grant, item, "this worker does no scripts");
    else this.#runner.beginScript(shared, item, this.#scripts);
  }
}

/** The input as handlers see it: the schema's output, where there is a schema. */
function inputOf(grant: Grant, code: HandlerCode | undefined): unknown {
  const input = JSON.parse(grant.input) as unknown;
  if (code?.parseInput === undefined) return input;
  try {
    return code.parseInput(input);
  } catch (thrown) {
    return Promise.reject(thrown);
  }
}

function shownUse({ use, version }: Grant): string {
  return version === null ? use : `${use} ${version}`;
}
