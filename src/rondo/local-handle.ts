/** An execution's handle over the engine in this process. */
import type { EnginePort } from "../engine/engine-port.ts";
import type { Ending, Inspection } from "../engine/io.ts";
import { signalMessage, signalState } from "../engine/signal-with-start.ts";
import { tasksWithError } from "../engine/views/error-groups.ts";
import { DamagedData } from "../kernel/journal/damage.ts";
import { type PublicEvent, publicEvent } from "../kernel/journal/public-event.ts";
import type { ControlMessage, RetriedTasks } from "../kernel/message.ts";
import { type ExecutionView, hasEnded, type ShownStatus } from "../kernel/view.ts";
import {
  checkChosen,
  checkControl,
  checkEventsOptions,
  checkLogsOptions,
  checkResultOptions,
  checkSignalOptions,
} from "../protocol/check-request.ts";
import { damagedRow, ExecutionFailed, notEndedWithin, outputOf } from "../sdk/errors.ts";
import type {
  CancelOptions,
  ControlOptions,
  EventsOptions,
  ExecutionHandle,
  LogEntry,
  LogsOptions,
  ResultOptions,
  RetryTasksOptions,
  SignalOptions,
  SignalState,
  TaskChoice,
} from "../sdk/handle.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { newMessageId } from "../std/id.ts";
import type { Random } from "../std/random.ts";
import { isRejection, type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import { SparseSet } from "../std/sparse.ts";
import { type ExecutionStore, type Store, StoreFault } from "../store/store.ts";
import { readEvents } from "./journal-reader.ts";

/** The parts of the process that handles use. */
export interface LocalParts {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** Why the payload of a signal does not match the schema of its wait; null if it matches. */
  readonly checkSignal?: (execution: string, signal: string, data: string) => Promise<Rejection | null>;
}

const NO_OPTIONS = {};
/** A choice that names no task. */
const NO_TASKS = { phase: "", handler: "", numbers: [] };

interface Listening {
  readonly end: Promise<Ending | "stopped">;
  readonly stop: () => void;
}

export class LocalHandle<Output> implements ExecutionHandle<Output> {
  readonly id: string;
  /** Whether the execution existed before the start that made this handle, because of an equal start. */
  existed = false;
  readonly #parts: LocalParts;
  /** Functions that stop a running `result`, `events` or `logs` when the handle is disposed. */
  readonly #listening = new SparseSet<() => void>();
  #early: Listening | null = null;

  constructor(id: string, parts: LocalParts) {
    this.id = id;
    this.#parts = parts;
  }

  /** Begins to watch for the end, for a caller that starts the execution and then waits. */
  watchEnd(): void {
    this.#early = this.#ending();
  }

  async result(options: ResultOptions = NO_OPTIONS): Promise<Output> {
    if (options !== NO_OPTIONS) checkResultOptions(options);
    const isEarly = this.#early !== null;
    const ending = this.#early ?? this.#ending();
    try {
      if (!isEarly && !this.#parts.engine.isOpen(this.id)) {
        const { view } = await this.#inspect();
        if (hasEnded(view)) return outputOf<Output>(view);
      }
      const end = await this.#orGiveUp(ending.end, options);
      if (end === "stopped")
        throw new RondoError(
          reject("not_ready", "the engine or the handle was closed before the execution ended", {
            hint: "the execution continues when a process opens the store",
          }),
        );
      if (end.status === "done") return JSON.parse(end.output ?? "null") as Output;
      return outputOf<Output>((await this.#inspect()).view);
    } finally {
      if (!isEarly) ending.stop();
    }
  }

  async *events(options: EventsOptions = {}): AsyncGenerator<PublicEvent> {
    const { engine, store } = this.#parts;
    checkEventsOptions(options);
    let next = options.from ?? 1;
    const bell = new Bell();
    let isDamaged = false;
    const unwatch = engine.watch(this.id, (_, end) => {
      if (end === "stopped") return bell.stop();
      isDamaged = end?.status === "damaged";
      bell.ring();
    });
    const stop = () => bell.stop();
    this.#listening.add(stop);
    try {
      const { view } = await this.#inspect();
      isDamaged ||= view.status === "damaged";
      if (view.finishedAt !== null && next > view.revision && options.follow !== true) return;
      while (await bell.next()) {
        try {
          for await (const recorded of readEvents(store, this.id, next)) {
            next = recorded.seq + 1;
            yield publicEvent(this.id, recorded, options.detail ?? "summary");
            if (recorded.event.kind === "finished" && options.follow !== true) return;
          }
        } catch (fault) {
          if (fault instanceof DamagedData) {
            await this.#throwIfDamaged();
            throw new RondoError(damagedRow(fault));
          }
          // If the handle is closed during a read, the iteration ends here, as if the handle were closed between two reads.
          if (!bell.isStopped || !(fault instanceof StoreFault)) throw fault;
        }
        // The rows are readable, but another part of the execution is damaged.
        if (isDamaged) await this.#throwIfDamaged();
        isDamaged = false;
      }
    } finally {
      unwatch();
      this.#listening.delete(stop);
    }
  }

  async *logs(options: LogsOptions = {}): AsyncGenerator<LogEntry> {
    const { engine, store } = this.#parts;
    checkLogsOptions(options);
    let after = options.after ?? 0;
    const bell = new Bell();
    let isOver = false;
    let isDamaged = false;
    const unwatchLogs = engine.watchLogs(this.id, () => bell.ring());
    const unwatch = engine.watch(this.id, (_, end) => {
      isOver ||= end !== null;
      if (end === "stopped") return bell.stop();
      isDamaged = end?.status === "damaged";
      if (end !== null) bell.ring();
    });
    const stop = () => bell.stop();
    this.#listening.add(stop);
    try {
      const { view } = await this.#inspect();
      isOver = hasEnded(view) || isOver;
      isDamaged ||= view.status === "damaged";
      while (await bell.next()) {
        // If the execution ended before this read, all its lines are stored by now.
        const isLast = isOver || options.follow !== true;
        try {
          for await (const line of readLines(store, this.id, after)) {
            after = line.order;
            yield line;
          }
        } catch (fault) {
          if (!bell.isStopped || !(fault instanceof StoreFault)) throw fault;
        }
        if (isLast && isDamaged && options.follow === true) await this.#throwIfDamaged();
        if (isLast) return;
      }
    } finally {
      unwatch();
      unwatchLogs();
      this.#listening.delete(stop);
    }
  }

  async status(): Promise<ShownStatus> {
    return (await this.describe()).status;
  }

  async describe(): Promise<ExecutionView> {
    return (await this.#inspect()).view;
  }

  async why(): Promise<string> {
    return (await this.#inspect()).why;
  }

  async signal(name: string, data?: unknown, options: SignalOptions = {}): Promise<SignalState> {
    checkSignalOptions(options);
    const message = unwrap(signalMessage(this.#parts, { name, data, ...options }));
    const unfit = (await this.#parts.checkSignal?.(this.id, name, message.data)) ?? null;
    if (unfit !== null) throw new RondoError(unfit);
    return unwrap(signalState((await this.#parts.engine.send(this.id, message)).answer));
  }

  pause(options?: ControlOptions): Promise<void> {
    return this.#control("pause", options);
  }

  resume(options?: ControlOptions): Promise<void> {
    return this.#control("resume", options);
  }

  cancel(options?: CancelOptions): Promise<void> {
    return this.#control("cancel", options);
  }

  retry(options?: ControlOptions): Promise<void> {
    return this.#control("retry", options);
  }

  async retryTasks(choice: TaskChoice, given: RetryTasksOptions = {}): Promise<RetriedTasks> {
    const { dryRun: isDry, ...options } = given;
    const checked = unwrap(checkChosen(choice, isDry));
    const { dryRun } = checked;
    const { id, by, reason } = unwrap(checkControl(options));
    const found = "error" in checked ? await tasksWithError(this.#parts.store, this.id, checked) : checked;
    // If the request is a repeat, its tasks no longer have the error. The execution knows the first answer by the id.
    const isUnknown = isRejection(found);
    if (isUnknown && id === null) throw new RondoError(found);
    const tasks = isUnknown ? NO_TASKS : { ...found, ...defined({ dryRun }) };
    const message = { kind: "retry", id: id ?? this.#newId(), by, reason, tasks } as const;
    const { answer } = await this.#parts.engine.send(this.id, message);
    if (isUnknown && isRejection(answer)) throw new RondoError(found);
    return unwrap(answer).retried ?? { tasks: 0, skipped: [] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of [...this.#listening]) stop();
    this.#listening.clear();
  }

  async #control(kind: ControlMessage["kind"], options: CancelOptions = {}): Promise<void> {
    const { id, by, reason, force } = unwrap(checkControl(options));
    const message = { kind, id: id ?? this.#newId(), by, reason, ...(force ? { force } : {}) };
    unwrap((await this.#parts.engine.send(this.id, message)).answer);
  }

  async #inspect(): Promise<Inspection> {
    return unwrap(await this.#parts.engine.inspect(this.id));
  }

  async #throwIfDamaged(): Promise<void> {
    const { view } = await this.#inspect();
    if (view.status === "damaged") throw new ExecutionFailed(view);
  }

  #newId(): string {
    return newMessageId(this.#parts.clock.now(), this.#parts.random);
  }

  /** Listens for the end until the execution ends or `stop` is called. */
  #ending(): Listening {
    let stop: () => void = () => {};
    const end = new Promise<Ending | "stopped">((resolve) => {
      const unwatch = this.#parts.engine.watch(this.id, (_, ending) => {
        if (ending === null) return;
        unwatch();
        this.#listening.delete(stop);
        resolve(ending);
      });
      stop = () => {
        unwatch();
        this.#listening.delete(stop);
        resolve("stopped");
      };
      this.#listening.add(stop);
    });
    return { end, stop };
  }

  #orGiveUp<T>(wanted: Promise<T>, options: ResultOptions): Promise<T> {
    if (options.signal === undefined && options.timeout === undefined) return wanted;
    return new Promise((resolve, fail) => {
      const ms = options.timeout === undefined ? null : unwrap(parseDuration(options.timeout, "timeout"));
      const cancel =
        ms === null ? () => {} : this.#parts.clock.after(ms, () => fail(notEndedWithin(this.id, ms)));
      const aborted = () => {
        cancel();
        fail(options.signal?.reason instanceof Error ? options.signal.reason : new Error("aborted"));
      };
      if (options.signal?.aborted) aborted();
      options.signal?.addEventListener("abort", aborted, { once: true });
      wanted.then((value) => {
        cancel();
        options.signal?.removeEventListener("abort", aborted);
        resolve(value);
      }, fail);
    });
  }
}

/** A condition variable for one reader: `ring` announces news, `stop` ends the waiting for good. */
class Bell {
  #isRung = true;
  #isStopped = false;
  #wake: () => void = () => {};

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Wakes the reader. */
  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Ends the waiting for good. */
  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }

  /** Resolves with true at the first call and after each `ring`, with false after `stop`. */
  async next(): Promise<boolean> {
    while (!this.#isRung && !this.#isStopped)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    this.#isRung = false;
    return !this.#isStopped;
  }
}

const ROWS = 64;

/** Reads the log lines of an execution that were stored after `after`, in the order of storing. */
async function* readLines(store: ExecutionStore, execution: string, after: number): AsyncGenerator<LogEntry> {
  for (let last = after; ; ) {
    const rows = await store.readLogs({ execution, after: last, rowsMax: ROWS });
    if (rows.length === 0) return;
    for (const { order, phase, visit, handler, task, attempt, number, worker, lines } of rows) {
      const place = { phase, visit, handler, task, attempt: number, attemptId: attempt, worker };
      last = order;
      for (const { at, level, text, run, fields } of lines) {
        const parsed = fields === undefined ? undefined : (JSON.parse(fields) as LogEntry["fields"]);
        yield { order, at, ...place, level, text, ...defined({ run, fields: parsed }) };
      }
    }
  }
}
