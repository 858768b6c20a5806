/**
 * A worker: runs handler code for the grants it is given and reports what became of it, in batches. It knows
 * neither engine nor transport: grants come in by `take`, reports go out by `send`.
 *
 * 1. Granted items wait in a queue; at most `concurrency` run at a time, and a turn lasts only so long.
 * 2. Code that returns at once costs no promise, no timer and no report of its own.
 * 3. At the end of a turn everything that ended is reported together; what runs on is reported as started.
 */
import type { Outcome } from "../kernel/message.ts";
import type { Beat, Grant, GrantItem, Report, ReportedReceipt } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { isThenable } from "../std/thenable.ts";
import { keyOf, reportPlace, samePlace } from "./attempt-place.ts";
import { AnswerContext, type Shared, TaskContext } from "./context.ts";
import { enumerate } from "./enumerate.ts";
import type { HandlerCode } from "./handler-code.ts";
import { doneWith, handedBack, outOfTime, threw } from "./outcome.ts";
import type { ResultsSource } from "./results-reader.ts";

export interface WorkerOptions {
  readonly clock: Clock;
  readonly results: ResultsSource;
  /** Delivers reports; resolves when they are committed, with a verdict list per report. */
  readonly send: (reports: readonly Report[]) => Promise<readonly (readonly string[])[]>;
  readonly log: Shared["log"];
  /** Items that run at the same time. */
  readonly concurrency: number;
  /** Called with a failure of the worker itself, which is a bug. */
  readonly onBug: (thrown: unknown) => void;
}

interface Running {
  readonly grant: Grant;
  readonly lead: Grant;
  readonly item: GrantItem;
  readonly since: number;
  readonly abort: (reason: Error) => void;
  isReported: boolean;
  isCancelled: boolean;
  hasEnded: boolean;
}

/** Items run in one turn before reports go out and input is taken. */
const TURN_ITEMS = 1_000;
const TURN_MS = 20;
/** Characters of results that may wait for their commit: beyond, nothing new begins. */
const UNCOMMITTED_CHARS_MAX = 33_554_432;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, HandlerCode>();
  readonly #queue: { grant: Grant; shared: Shared; next: number }[] = [];
  readonly #running = new Map<string, Running>();
  #begun: Running[] = [];
  #receipts = new Map<Grant, ReportedReceipt[]>();
  #lead: Grant | null = null;
  #isScheduled = false;
  #isStopping = false;
  readonly #sending = new Set<Promise<unknown>>();
  /** Characters of results that are not committed yet, and of those gathered for the next report. */
  #uncommittedChars = 0;
  #gatheredChars = 0;
  /** What a result usually comes to. */
  #usualChars = 65_536;
  #onIdle: (() => void)[] = [];

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Adds code to host. Two workflows may share a handler's name; each brings its own way to read its input. */
  host(workflow: string, code: HandlerCode): void {
    this.#handlers.set(`${workflow} ${code.use}`, code);
    this.#handlers.set(code.use, code);
  }

  /** Takes granted work. */
  take(grant: Grant): void {
    const input = this.#inputOf(grant);
    if (!isThenable(input)) {
      this.#enqueue(grant, input);
      return;
    }
    input.then(
      (value) => this.#enqueue(grant, value),
      (thrown: unknown) => this.#refuse(grant, thrown),
    );
  }

  /** Stops attempts: the engine cancelled them, or their leases are lost. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    for (const beat of beats) {
      for (const { task, attempt, claim } of beat.attempts) {
        const running = this.#running.get(keyOf(beat, task, attempt, claim));
        if (running === undefined) continue;
        running.abort(new Error(why === "cancel" ? "cancelled" : "lease lost"));
        // Its word is final only when the code has ended: until then the phase is not over.
        if (why === "lost") this.#end(running, handedBack(why));
        else running.isCancelled = true;
      }
      for (const entry of this.#queue)
        this.#giveUp(
          entry,
          (item) =>
            samePlace(entry.grant, beat) &&
            beat.attempts.some(
              (a) => a.task === item.number && a.attempt === item.attempt && a.claim === item.claim,
            ),
        );
    }
    this.#schedule();
  }

  /**
   * Ends gracefully: gives back what has not begun, lets the rest end within `graceMs`, hands back what has not ended by
   * then. Resolves when all of that is committed.
   */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true;
    for (const entry of this.#queue) this.#giveUp(entry, () => true);
    this.#queue.length = 0;
    this.#report();
    if (this.#running.size > 0) await this.#idle(graceMs);
    for (const running of [...this.#running.values()]) {
      running.abort(new Error("the worker stops"));
      this.#end(running, handedBack("the worker stopped"));
    }
    this.#report();
    while (this.#sending.size > 0) await Promise.all(this.#sending);
  }

  /** Resolves when nothing runs any more, or after so long. */
  #idle(graceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(graceMs, resolve);
      this.#onIdle.push(() => {
        cancel();
        resolve();
      });
    });
  }

  #code(grant: Grant): HandlerCode | undefined {
    return this.#handlers.get(`${grant.workflow} ${grant.use}`) ?? this.#handlers.get(grant.use);
  }

  /** The input as handlers see it: the schema's output, where there is a schema. */
  #inputOf(grant: Grant): unknown {
    const input = JSON.parse(grant.input) as unknown;
    const code = this.#code(grant);
    if (code?.parseInput === undefined) return input;
    try {
      return code.parseInput(input);
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  #enqueue(grant: Grant, input: unknown): void {
    if (this.#isStopping) {
      for (const item of grant.items) this.#receipt(grant, item, 0, handedBack("the worker stops"));
      this.#report();
      return;
    }
    const last = this.#lead;
    const lead = last !== null && last.do === grant.do && samePlace(last, grant) ? last : grant;
    this.#lead = lead;
    const shared = {
      grant,
      lead,
      code: this.#code(grant),
      input,
      results: this.#options.results,
      log: this.#options.log,
    };
    this.#queue.push({ grant, shared, next: 0 });
    this.#schedule();
  }

  /** The input does not fit: every attempt of the grant fails with that. */
  #refuse(grant: Grant, thrown: unknown): void {
    for (const item of grant.items) this.#receipt(grant, item, 0, threw(thrown));
    this.#schedule();
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
    const { clock, concurrency } = this.#options;
    const from = clock.now();
    let items = 0;
    while (this.#queue.length > 0 && this.#hasRoom(concurrency) && items < TURN_ITEMS) {
      const entry = this.#queue[0] as { grant: Grant; shared: Shared; next: number };
      const item = entry.grant.items[entry.next++];
      if (item === undefined) {
        this.#queue.shift();
        continue;
      }
      if (!this.#givenUp.has(item)) this.#begin(entry.shared, item);
      items++;
      // Code that returns at once may have taken long to do so.
      if (clock.now() - from > TURN_MS) break;
    }
    this.#report();
    if (this.#queue.length > 0 && this.#hasRoom(concurrency)) this.#schedule();
    if (this.#running.size === 0 && this.#queue.length === 0)
      for (const idle of this.#onIdle.splice(0)) idle();
  }

  /** Whether another item may begin: not too many run, and what they may come to fits with what is not committed yet. */
  #hasRoom(concurrency: number): boolean {
    return (
      this.#running.size < concurrency &&
      this.#uncommittedChars + this.#running.size * this.#usualChars < UNCOMMITTED_CHARS_MAX
    );
  }

  readonly #givenUp = new WeakSet<GrantItem>();

  /** Hands items of a queued grant back unbegun. */
  #giveUp(entry: { grant: Grant; next: number }, which: (item: GrantItem) => boolean): void {
    for (let i = entry.next; i < entry.grant.items.length; i++) {
      const item = entry.grant.items[i] as GrantItem;
      if (this.#givenUp.has(item) || !which(item)) continue;
      this.#givenUp.add(item);
      this.#receipt(entry.grant, item, 0, handedBack("not begun"));
    }
  }

  #begin(shared: Shared, item: GrantItem): void {
    const { grant, code } = shared;
    if (code === undefined) {
      this.#receipt(grant, item, 0, handedBack(`this worker does not serve ${grant.use}`));
      return;
    }
    if (grant.do === "enumerate") this.#beginEnumeration(shared, item, code);
    else this.#beginTask(shared, item, code);
  }

  #beginTask(shared: Shared, item: GrantItem, code: HandlerCode): void {
    const { grant } = shared;
    const since = this.#options.clock.now();
    const isTask = grant.do === "process";
    const context = isTask
      ? new TaskContext(shared, item, JSON.parse(item.task ?? "null") as unknown)
      : new AnswerContext(shared, item);
    let value: unknown;
    let isPending = false;
    try {
      if (!isTask) value = code.answer?.(context);
      else if (code.process !== undefined) value = code.process(context as TaskContext);
      else if (code.processBatch !== undefined) value = oneOfBatch(code, context as TaskContext);
      isPending = isThenable(value);
    } catch (thrown) {
      this.#receipt(shared.lead, item, this.#options.clock.now() - since, threw(thrown));
      return;
    }
    if (!isPending) {
      this.#receipt(shared.lead, item, this.#options.clock.now() - since, doneWith(value));
      return;
    }
    const running = this.#run(shared, item, since, (reason) => context.abort(reason));
    // Not Promise.resolve: that reads the value's constructor, which may throw here.
    new Promise((resolve) => resolve(value)).then(
      (result) => this.#end(running, doneWith(result)),
      (thrown: unknown) => this.#end(running, running.isCancelled ? handedBack("cancelled") : threw(thrown)),
    );
  }

  #beginEnumeration(shared: Shared, item: GrantItem, code: HandlerCode): void {
    const since = this.#options.clock.now();
    const controller = new AbortController();
    const running = this.#run(shared, item, since, (reason) => controller.abort(reason));
    enumerate(shared, item, code, {
      clock: this.#options.clock,
      signal: controller.signal,
      sendPage: (page) => this.#sendPage(page),
    })
      .then((outcome) => this.#end(running, outcome))
      .catch(this.#options.onBug);
  }

  async #sendPage(page: Report): Promise<boolean> {
    const [verdicts] = await this.#options.send([page]);
    return verdicts?.[0] !== "stale" && verdicts?.[0] !== "gone";
  }

  #run(shared: Shared, item: GrantItem, since: number, abort: (reason: Error) => void): Running {
    const running: Running = {
      grant: shared.grant,
      lead: shared.lead,
      item,
      since,
      abort,
      isReported: false,
      isCancelled: false,
      hasEnded: false,
    };
    this.#running.set(keyOf(shared.grant, item.number, item.attempt, item.claim), running);
    this.#begun.push(running);
    const { timeoutMs } = shared.grant;
    if (timeoutMs !== null) {
      const cancel = this.#options.clock.after(timeoutMs, () => {
        abort(new Error(`ran longer than ${timeoutMs} ms`));
        this.#end(running, outOfTime(timeoutMs));
      });
      this.#timeouts.set(running, cancel);
    }
    return running;
  }

  readonly #timeouts = new Map<Running, () => void>();

  #end(running: Running, outcome: Outcome): void {
    if (running.hasEnded) return;
    running.hasEnded = true;
    this.#timeouts.get(running)?.();
    this.#timeouts.delete(running);
    const { grant, item } = running;
    this.#running.delete(keyOf(grant, item.number, item.attempt, item.claim));
    const ms = this.#options.clock.now() - running.since;
    if (grant.do === "enumerate")
      this.#deliver([
        { kind: "enumeration", ...reportPlace(grant), attempt: item.attempt, claim: item.claim, ms, outcome },
      ]);
    else this.#receipt(running.lead, item, ms, outcome);
    this.#schedule();
  }

  #receipt(grant: Grant, item: GrantItem, ms: number, outcome: Outcome): void {
    const receipt = { task: item.number, attempt: item.attempt, claim: item.claim, ms, outcome };
    this.#uncommittedChars += outcome.payload.length;
    this.#gatheredChars += outcome.payload.length;
    this.#usualChars += (outcome.payload.length - this.#usualChars) / 16;
    const batch = this.#receipts.get(grant);
    if (batch === undefined) this.#receipts.set(grant, [receipt]);
    else batch.push(receipt);
  }

  /** Sends what ended and what began since the last turn. */
  #report(): void {
    const reports: Report[] = [];
    const began = new Map<Grant, { task: number; attempt: number; claim: number }[]>();
    for (const running of this.#begun) {
      if (running.hasEnded || running.isReported || running.grant.do === "enumerate") continue;
      running.isReported = true;
      const attempts = began.get(running.grant) ?? [];
      attempts.push({ task: running.item.number, attempt: running.item.attempt, claim: running.item.claim });
      began.set(running.grant, attempts);
    }
    this.#begun = [];
    for (const [grant, attempts] of began) reports.push({ kind: "started", ...reportPlace(grant), attempts });
    const receipts = this.#receipts;
    if (receipts.size > 0) this.#receipts = new Map();
    for (const [grant, batch] of receipts) {
      if (grant.do === "enumerate")
        for (const { attempt, claim, ms, outcome } of batch)
          reports.push({ kind: "enumeration", ...reportPlace(grant), attempt, claim, ms, outcome });
      else reports.push({ kind: "receipts", ...reportPlace(grant), receipts: batch });
    }
    if (reports.length > 0) this.#deliver(reports);
  }

  #deliver(reports: readonly Report[]): void {
    const chars = this.#gatheredChars;
    this.#gatheredChars = 0;
    const sending: Promise<unknown> = this.#options
      .send(reports)
      .catch(this.#options.onBug)
      .finally(() => {
        this.#sending.delete(sending);
        this.#uncommittedChars -= chars;
        if (this.#queue.length > 0) this.#schedule();
      });
    this.#sending.add(sending);
  }
}

async function oneOfBatch(code: HandlerCode, context: TaskContext): Promise<unknown> {
  const results = await code.processBatch?.({
    execution: context.execution,
    input: context.input,
    phases: context.phases,
    signal: context.signal,
    log: context.log,
    tasks: [context.task],
  });
  if (!Array.isArray(results) || results.length !== 1)
    throw new TypeError("processBatch must give a list with one value or Error for each of its tasks");
  const [result] = results as readonly unknown[];
  if (result instanceof Error) throw result;
  return result;
}
