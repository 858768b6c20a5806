/**
 * A worker runs handler code for grants and reports the results in batches. It does not know the engine or the transport: grants come in
 * by `accept`, reports go out by `send`.
 * 1. Granted items wait in a queue. At most `concurrency` items run at a time, and a turn of the event loop has a time limit. Scripts
 *    have their own queue.
 * 2. Code that returns synchronously needs no promise, no timer and no report of its own.
 * 3. At the end of a turn, all attempts that have ended are reported together, and those whose code goes on are reported as started.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Beat, Grant, GrantItem } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import { isThenable } from "../std/thenable.ts";
import { atMost } from "../std/within.ts";
import { samePlace } from "./attempt-place.ts";
import { CodeRunner } from "./code-runner.ts";
import type { Around, Shared } from "./context.ts";
import type { HandlerCode, HostedPart, Middleware } from "./handler-code.ts";
import { Secrets } from "./log/secrets.ts";
import { withMiddleware } from "./middleware.ts";
import { handedBack, threw } from "./outcome.ts";
import { Reporter, type Send } from "./reporter.ts";
import type { ResultsSource } from "./results-reader.ts";
import { type ScriptOptions, ScriptRunner } from "./script-runner.ts";
import { tracingOf } from "./tracing.ts";
import { WorkQueue } from "./work-queue.ts";

/** The options that workers over HTTP and AMQP share. */
export interface NetworkWorkerOptions
  extends Pick<WorkerOptions, "secrets" | "clock" | "onBug" | "middleware"> {
  readonly name: string;
  /** The most attempts that run at a time. */
  readonly capacity: number;
  readonly workflows: readonly HostedPart[];
  readonly random: Random;
  readonly onLog: WorkerOptions["log"];
  /** Called with the reason when the server or broker is unreachable or refuses the worker; with null when it works again. */
  readonly onTrouble: (what: string | null) => void;
}

export interface WorkerOptions {
  readonly clock: Clock;
  readonly results: ResultsSource;
  readonly send: Send;
  /** Called with each logged line at once. */
  readonly log: Around["onLog"];
  readonly concurrency: number;
  /** How long an attempt runs before its start is reported. By default, starts are reported at once. */
  readonly startsAfterMs?: number | undefined;
  /** The options of scripts. Without them, this worker runs no scripts. */
  readonly scripts?: ScriptOptions | undefined;
  /** Values that are redacted in logs and errors, each of at least 4 characters. */
  readonly secrets?: readonly string[] | undefined;
  /** Why steps, sleeps, waits and earlier results are not available at this worker; undefined if they are available. */
  readonly lacks?: string | undefined;
  /** Middleware around all code, the outermost first. The list is read at each call. */
  readonly middleware?: readonly Middleware[] | undefined;
  /** Called with an internal error of the worker, which is a bug. */
  readonly onBug: (thrown: unknown) => void;
}

/**
 * The most items that begin in one turn. After that, reports are sent and input is read before the next turn. It is a quarter of the
 * default capacity, so that one commit is written while the tasks of the next run, and so that the objects of a turn fit into the young
 * generation of the heap.
 */
const TURN_ITEMS = 500;
const TURN_MS = 20;
/** The longest time for which an enumeration waits after a page, so that granted tasks run first. */
const READY_TASKS_MS = 20;
const RESOLVED = Promise.resolve();
const NO_MIDDLEWARE: readonly Middleware[] = [];
/** The most characters of results that are not committed yet. While there are more, no item begins. */
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
  /**
   * Runs a function in the asynchronous context in which the worker was made. A grant can be a consequence of a report of another
   * task, and its code must not get the context of that task's code.
   */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #lead: Grant | null = null;
  #isScheduled = false;
  #isStopping = false;
  #onIdle: (() => void)[] = [];
  /** Enumerations that wait until no task is ready to begin. */
  readonly #onNoneReady = new Set<() => void>();

  constructor(options: WorkerOptions) {
    this.#options = options;
    const { clock, results, send, log: onLog, onBug, scripts } = options;
    const secrets = new Secrets(options.secrets);
    const schedule = (): void => this.#schedule();
    const onCommitted = (): void => {
      if (!this.#queue.isEmpty) this.#schedule();
    };
    const { startsAfterMs = 0 } = options;
    this.#reporter = new Reporter({ clock, secrets, send, schedule, startsAfterMs, onCommitted, onBug });
    this.#scripts = scripts === undefined ? null : new ScriptRunner(scripts.open);
    const waitForReadyTasks = (): Promise<void> => this.#waitForReadyTasks();
    const runner = new CodeRunner({
      clock,
      reporter: this.#reporter,
      onEnded: schedule,
      waitForReadyTasks,
      onBug,
    });
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

  /** Adds handler code that this worker hosts. Two workflows may use the same handler name, and a name may have several versions. */
  host(workflow: string, code: HandlerCode): void {
    this.#hosted.add(workflow, withMiddleware(code, this.#options.middleware ?? NO_MIDDLEWARE));
  }

  accept(grant: Grant): void {
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

  /** Stops attempts, because the engine cancelled them or their leases are lost. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    for (const beat of beats) this.#runner.attempts.cancel(beat, why);
    this.giveBack(beats);
  }

  /** Hands back those of the named attempts that have not begun. */
  giveBack(beats: readonly Beat[]): void {
    const giveUp = (shared: Shared, item: GrantItem): void => this.#handBack(shared.grant, item, "not begun");
    for (const beat of beats) {
      this.#queue.giveUp(beat, giveUp);
      this.#scriptQueue.giveUp(beat, giveUp);
    }
    this.#schedule();
  }

  /**
   * Stops the worker: hands back items that have not begun, lets the others end within `graceMs`, and waits up to
   * `lastReportsMs` for the commits of the last reports.
   */
  async stop(graceMs: number, lastReportsMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#isStopping = true;
    const { attempts } = this.#runner;
    for (const queue of [this.#queue, this.#scriptQueue])
      queue.clear(({ grant }, item) => this.#handBack(grant, item, "not begun"));
    this.#reporter.flush();
    if (attempts.size > 0) await this.#idle(graceMs);
    attempts.abandon(new Error("the worker stops"), handedBack("the worker stopped"));
    this.#reporter.stop();
    this.#reporter.flush();
    await this.#settled(lastReportsMs);
    await this.#scripts?.close();
  }

  /** Resolves when no attempt is running, or after `graceMs`. */
  #idle(graceMs: number): Promise<void> {
    const idle = new Promise<void>((resolve) => this.#onIdle.push(resolve));
    return atMost(this.#options.clock, graceMs, idle);
  }

  #settled(lastReportsMs: number): Promise<void> {
    const settled = this.#reporter.settled();
    if (lastReportsMs === Number.POSITIVE_INFINITY) return settled;
    return atMost(this.#options.clock, lastReportsMs, settled);
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
    if (grant.do === "script") this.#reporter.accepted(grant);
    const queue = grant.do === "script" ? this.#scriptQueue : this.#queue;
    queue.push(shared);
    this.#schedule();
  }

  /** Fails all attempts of a grant whose input does not match the schema of the code. */
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
    const { clock, onBug } = this.#options;
    clock.soon(() => {
      this.#isScheduled = false;
      this.#inOwnContext(() => RESOLVED.then(this.#turn)).catch(onBug);
    });
  }

  /**
   * Runs as a microtask, so that user code has no frames of the event loop below it: V8 collects and formats them for each error that
   * user code makes.
   */
  readonly #turn = (): void => {
    const from = this.#runner.readClock();
    let items = 0;
    while (items < TURN_ITEMS && this.#hasReady()) {
      items += this.#beginNext();
      // The turn ends early if synchronous code has taken a long time.
      if (this.#runner.at - from > TURN_MS) break;
    }
    while (!this.#scriptQueue.isEmpty && this.#hasScriptRoom()) this.#beginScript();
    this.#reporter.flush();
    if (this.#hasReady()) this.#schedule();
    else for (const resume of this.#onNoneReady) resume();
    if (this.#runner.attempts.size === 0 && this.#queue.isEmpty && this.#scriptQueue.isEmpty)
      for (const idle of this.#onIdle.splice(0)) idle();
  };

  /** Whether another item may begin: fewer than `concurrency` are running, and there is room for its expected result. */
  #hasRoom(): boolean {
    const running = this.#runner.attempts.size;
    const { uncommittedChars, usualChars } = this.#reporter;
    return (
      running < this.#options.concurrency && uncommittedChars + running * usualChars < UNCOMMITTED_CHARS_MAX
    );
  }

  /** Whether a granted item is waiting and may begin. */
  #hasReady(): boolean {
    return !this.#queue.isEmpty && this.#hasRoom();
  }

  /**
   * Called by an enumeration after each page. If tasks are ready to begin, waits until all have begun, or for a short time. Otherwise
   * the enumeration would run far ahead, the engine would drop pages from memory, and read them from the store again for their tasks.
   */
  async #waitForReadyTasks(): Promise<void> {
    if (!this.#hasReady()) return;
    let resume = (): void => {};
    const begun = new Promise<void>((resolve) => {
      resume = resolve;
    });
    this.#onNoneReady.add(resume);
    await atMost(this.#options.clock, READY_TASKS_MS, begun);
    this.#onNoneReady.delete(resume);
  }

  #hasScriptRoom(): boolean {
    return this.#runner.scripts < (this.#options.scripts?.atOnce ?? Number.POSITIVE_INFINITY);
  }

  /** Begins the next item or group of items. Returns how many items began. */
  #beginNext(): number {
    const shared = this.#queue.first as Shared;
    const { grant, code } = shared;
    const isBatch = grant.do === "process" && code?.processBatch !== undefined;
    if (code !== undefined && isBatch && (grant.batch > 1 || code.process === undefined)) {
      const group = this.#queue.dequeueGroup(Math.max(1, grant.batch));
      if (group.length > 0) this.#runner.beginGroup(shared, group, code);
      return group.length;
    }
    const item = this.#queue.dequeue();
    if (item === undefined) return 1;
    if (code === undefined) this.#handBack(grant, item, `this worker does not serve ${shownUse(grant)}`);
    else if (grant.do === "enumerate") this.#runner.beginEnumeration(shared, item, code);
    else this.#runner.beginTask(shared, item, code);
    return 1;
  }

  #beginScript(): void {
    const shared = this.#scriptQueue.first as Shared;
    const item = this.#scriptQueue.dequeue();
    if (item === undefined) return;
    if (this.#scripts === null) this.#handBack(shared.grant, item, "this worker does not run scripts");
    else this.#runner.beginScript(shared, item, this.#scripts);
  }
}

/** Returns the input in the form in which handlers get it: the schema's output, if there is a schema. */
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

class HostedCode {
  readonly #codes = new Map<string, HandlerCode>();

  /** Adds code. Two workflows may use the same handler name; each has its own `parseInput`. */
  add(workflow: string, code: HandlerCode): void {
    for (const of of [workflow, ""]) {
      this.#codes.set(keyOf(of, code.use, code.version ?? ""), code);
      // The code that was added last also serves grants without a version.
      this.#codes.set(keyOf(of, code.use, ANY), code);
    }
  }

  /** Finds the code for a grant: it has the grant's version and, if possible, belongs to the grant's workflow. */
  find({ workflow, use, version }: Pick<Grant, "workflow" | "use" | "version">): HandlerCode | undefined {
    if (version !== null) return this.#find(workflow, use, version);
    return this.#find(workflow, use, "") ?? this.#find(workflow, use, ANY);
  }

  #find(workflow: string, use: string, version: string): HandlerCode | undefined {
    return this.#codes.get(keyOf(workflow, use, version)) ?? this.#codes.get(keyOf("", use, version));
  }
}

const ANY = "*";

function keyOf(workflow: string, use: string, version: string): string {
  return `${workflow} ${use} ${version}`;
}
