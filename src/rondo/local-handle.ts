/** The handle of an execution whose engine is in this process. */
import type { EnginePort } from "../engine/engine-port.ts";
import type { Ending, Inspection } from "../engine/io.ts";
import { EndOfNewest, inspectNewest, isLast, sendToNewest } from "../engine/newest.ts";
import { signalMessage, signalState } from "../engine/signal-with-start.ts";
import { findDefinition } from "../engine/store-definition.ts";
import { AnswerWatch, sendUpdate } from "../engine/update-answers.ts";
import { tasksWithError } from "../engine/views/error-groups.ts";
import {
  LOG_START,
  type LogPosition,
  lineAt,
  parsePosition,
  pieceAt,
  readLog,
} from "../engine/views/log-reader.ts";
import { addressOf } from "../kernel/definition/names.ts";
import { DamagedData } from "../kernel/journal/damage.ts";
import { type PublicEvent, publicEvent } from "../kernel/journal/public-event.ts";
import type { ControlMessage, RetriedTasks } from "../kernel/message.ts";
import { type ExecutionView, hasEnded, type ShownStatus } from "../kernel/view.ts";
import {
  checkChosen,
  checkControl,
  checkEventsOptions,
  checkLogsOptions,
  checkMove,
  checkResultOptions,
  checkSignalOptions,
  checkStreamOptions,
  checkUpdateOptions,
  checkWatchOptions,
} from "../protocol/check-request.ts";
import { positionAfter } from "../protocol/stream-piece.ts";
import { notAnswered } from "../protocol/update-answer.ts";
import { checkedData, type Declared } from "../sdk/declared.ts";
import { answerOf, damagedRow, ExecutionFailed, notEndedWithin, outputOf } from "../sdk/errors.ts";
import type {
  CancelOptions,
  ControlOptions,
  EventsOptions,
  ExecutionHandle,
  ExecutionStream,
  LogEntry,
  LogsOptions,
  MoveOptions,
  MoveTarget,
  ResultOptions,
  RetryTasksOptions,
  SendUpdateOptions,
  SignalOptions,
  SignalState,
  StreamOptions,
  StreamPiece,
  TaskChoice,
  WatchOptions,
} from "../sdk/handle.ts";
import { executionStream } from "../sdk/stream-fold.ts";
import { Bell } from "../std/bell.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { newMessageId } from "../std/id.ts";
import type { Random } from "../std/random.ts";
import { isRejection, type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import { SparseSet } from "../std/sparse.ts";
import { readEvents } from "../store/read-events.ts";
import { type Store, type StoredLogRow, StoreFault } from "../store/store.ts";

/** The parts of `Rondo` that handles use. */
export interface LocalParts {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** Returns why the payload of a signal does not match the schema of its wait; null if it matches. */
  readonly checkSignal?: (execution: string, signal: string, data: string) => Promise<Rejection | null>;
}

const NO_OPTIONS = {};
/** A choice of tasks to retry that contains no task. */
const NO_TASKS = { phase: "", handler: "", numbers: [] };

/** The most lines of the log that are read at a time. */
const PAGE_LINES = 1_000;

interface LogReading<Item> {
  readonly from: LogPosition;
  /** Converts a log line to an item; null if the line is not wanted. */
  readonly itemOf: (row: StoredLogRow, index: number) => Item | null;
  readonly follow: boolean;
  readonly isEnd?: (item: Item) => boolean;
}

interface Listening {
  readonly end: Promise<{ readonly end: Ending | "stopped"; readonly execution: string }>;
  readonly watch: EndOfNewest;
  readonly stop: () => void;
}

export class LocalHandle<Output> implements ExecutionHandle<Output> {
  readonly id: string;
  /** Whether the execution existed before the start that returned this handle: an earlier start with the same id had started it. */
  existed = false;
  /** The id of the execution that was first started under the id of the handle. Later executions may continue it under the same id. */
  readonly #stored: string;
  readonly #parts: LocalParts;
  /** Functions that end a running `result`, `events` or `logs`. They are called when the handle is disposed. */
  readonly #listening = new SparseSet<() => void>();
  #early: Listening | null = null;

  constructor(id: string, parts: LocalParts) {
    this.id = id;
    this.#stored = addressOf(id).stored;
    this.#parts = parts;
  }

  /** Begins to watch for the end of the execution, before it is started, so that `result` need not look it up. */
  watchEnd(): void {
    this.#early = this.#ending();
  }

  async result(options: ResultOptions = NO_OPTIONS): Promise<Output> {
    if (options !== NO_OPTIONS) checkResultOptions(options);
    const isEarly = this.#early !== null;
    const ending = this.#early ?? this.#ending();
    try {
      if (!isEarly && !this.#parts.engine.isOpen(this.#stored)) {
        const found = unwrap(await ending.watch.inspect());
        if (isLast(this.id, found)) return outputOf<Output>(found.view);
      }
      const { end, execution } = await this.#orGiveUp(ending.end, options);
      if (end === "stopped") throw closedEarly("the execution ended");
      if (end.status === "done") return JSON.parse(end.output ?? "null") as Output;
      return outputOf<Output>(unwrap(await this.#parts.engine.inspect(execution)).view);
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
    const watch = (execution: string) =>
      engine.watch(execution, (_, end) => {
        if (end === "stopped") return bell.stop();
        isDamaged = end?.status === "damaged";
        bell.ring();
      });
    let unwatch = watch(this.#stored);
    const stop = () => bell.stop();
    this.#listening.add(stop);
    try {
      const { view } = await this.#inspect();
      const { id } = view;
      if (id !== this.#stored) {
        unwatch();
        unwatch = watch(id);
      }
      isDamaged ||= view.status === "damaged";
      if (view.finishedAt !== null && next > view.revision && options.follow !== true) return;
      while (await bell.next()) {
        try {
          for await (const recorded of readEvents(store, id, next)) {
            next = recorded.seq + 1;
            yield publicEvent(id, recorded, options.detail ?? "summary");
            if (recorded.event.kind === "finished" && options.follow !== true) return;
          }
        } catch (fault) {
          if (fault instanceof DamagedData) {
            await this.#throwIfDamaged();
            throw new RondoError(damagedRow(fault));
          }
          // If the handle is closed during a read, the iteration ends without an error, as it does between two reads.
          if (!bell.isStopped || !(fault instanceof StoreFault)) throw fault;
        }
        // The journal could be read, but another part of the execution is damaged.
        if (isDamaged) await this.#throwIfDamaged();
        isDamaged = false;
      }
    } finally {
      unwatch();
      this.#listening.delete(stop);
    }
  }

  async *logs(options: LogsOptions = {}): AsyncGenerator<LogEntry> {
    checkLogsOptions(options);
    const from = { row: (options.after ?? 0) + 1, line: 0 };
    const itemOf = (row: StoredLogRow, index: number): LogEntry | null => {
      const line = lineAt(row, index);
      return line === null ? null : { order: row.order, ...line };
    };
    yield* this.#log({ from, itemOf, follow: options.follow === true });
  }

  stream<Chunk>(name: string, options: StreamOptions = {}): ExecutionStream<Chunk> {
    checkStreamOptions(name, options);
    return executionStream((follow) => this.#stream<Chunk>(name, { ...options, follow }), options);
  }

  async *#stream<Chunk>(
    name: string,
    { after, task, follow }: StreamOptions,
  ): AsyncGenerator<StreamPiece<Chunk>> {
    const from = after === undefined ? LOG_START : positionAfterPiece(after);
    const itemOf = (row: StoredLogRow, index: number): StreamPiece<Chunk> | null => {
      const piece = pieceAt(row, index);
      const isWanted = piece?.stream === name && (task ?? piece.task) === piece.task;
      return isWanted ? (piece as StreamPiece<Chunk>) : null;
    };
    yield* this.#log({ from, itemOf, follow: follow === true, isEnd: ({ end }) => end === true });
  }

  async published<Values extends object>(): Promise<Partial<Values>> {
    return ((await this.describe()).published ?? {}) as Partial<Values>;
  }

  /**
   * Reads items of the log. First those that are stored; with `follow`, also new ones until the execution ends, or until the last stored
   * item marks an end.
   */
  async *#log<Item>({ from, itemOf, follow, isEnd = () => false }: LogReading<Item>): AsyncGenerator<Item> {
    const { engine, store } = this.#parts;
    const bell = new Bell();
    let position = from;
    let isOver = false;
    let isDamaged = false;
    const watch = (execution: string) => [
      engine.watchLogs(execution, () => bell.ring()),
      engine.watch(execution, (_, end) => {
        isOver ||= end !== null;
        if (end === "stopped") return bell.stop();
        isDamaged = end?.status === "damaged";
        if (end !== null) bell.ring();
      }),
    ];
    let unwatch = watch(this.#stored);
    const stop = () => bell.stop();
    this.#listening.add(stop);
    try {
      const { view } = await this.#inspect();
      const { id } = view;
      if (id !== this.#stored) {
        for (const end of unwatch) end();
        isOver = false;
        unwatch = watch(id);
      }
      isOver = hasEnded(view) || isOver;
      isDamaged ||= view.status === "damaged";
      while (await bell.next()) {
        // If the execution ended before this read, the read finds all its lines, so it is the last one.
        let isLast = isOver || !follow;
        try {
          let last: Item | undefined;
          for (let isRead = false; !isRead; ) {
            const page = await readLog(store, id, { from: position, max: PAGE_LINES, itemOf });
            position = page.next;
            isRead = page.isLast;
            yield* page.items;
            last = page.items.at(-1) ?? last;
          }
          isLast ||= last !== undefined && isEnd(last);
        } catch (fault) {
          if (!bell.isStopped || !(fault instanceof StoreFault)) throw fault;
        }
        if (isLast && isDamaged && follow) await this.#throwIfDamaged();
        if (isLast) return;
      }
    } finally {
      for (const end of unwatch) end();
      this.#listening.delete(stop);
    }
  }

  async *watch(options: WatchOptions = {}): AsyncGenerator<ExecutionView> {
    checkWatchOptions(options);
    const bell = new Bell();
    const stop = () => bell.stop();
    const { engine } = this.#parts;
    const watch = (execution: string) =>
      engine.watch(execution, (_, end) => (end === "stopped" ? bell.stop() : bell.ring()));
    let id = this.#stored;
    let unwatch = watch(id);
    this.#listening.add(stop);
    try {
      let last: ExecutionView | null = null;
      while (await bell.next()) {
        const found: Inspection = last === null ? await this.#inspect() : unwrap(await engine.inspect(id));
        const view: ExecutionView = found.view;
        if (last === null) options.onConnection?.(true);
        if (view.id !== id) {
          // The id refers to a later execution by now. It may have changed before it was watched, so it is read again.
          unwatch();
          id = view.id;
          unwatch = watch(id);
          bell.ring();
        }
        if (view.revision !== last?.revision || view.status !== last.status) yield view;
        if (hasEnded(view)) return;
        last = view;
      }
    } finally {
      unwatch();
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

  async awaits(): Promise<readonly string[]> {
    return (await this.#inspect()).signals ?? [];
  }

  async signal(
    given: string | Declared,
    payload?: unknown,
    options: SignalOptions = {},
  ): Promise<SignalState> {
    checkSignalOptions(options);
    const { name, data } = await checkedData(given, payload);
    const message = unwrap(signalMessage(this.#parts, { name, data, ...options }));
    const unfit = (await this.#parts.checkSignal?.(this.id, name, message.data)) ?? null;
    if (unfit !== null) throw new RondoError(unfit);
    return unwrap(signalState((await this.#send(message)).answer));
  }

  async update<Answer>(
    given: string | Declared,
    payload?: unknown,
    { id, ...options }: SendUpdateOptions = {},
  ): Promise<Answer> {
    checkUpdateOptions({ ...options, ...defined({ id }) });
    const { name, data } = await checkedData(given, payload);
    const watch = new AnswerWatch(this.#parts);
    const stop = () => watch.stop();
    this.#listening.add(stop);
    try {
      const update = unwrap(await sendUpdate(this.#parts, this.id, { name, data, ...defined({ id }) }));
      const late = (ms: number) => new RondoError(notAnswered(update, ms));
      const answer = await this.#orGiveUp(watch.answerTo(update), options, late);
      if (answer === "stopped") throw closedEarly("the update was answered");
      return answerOf<Answer>(name, unwrap(answer));
    } finally {
      watch.stop();
      this.#listening.delete(stop);
    }
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
    const found =
      "error" in checked
        ? await tasksWithError(this.#parts.store, (await this.describe()).id, checked)
        : checked;
    // If the request is a repeat, its tasks no longer have this error. The request is sent all the same: the execution finds its first
    // answer by the id.
    const isUnknown = isRejection(found);
    if (isUnknown && id === null) throw new RondoError(found);
    const tasks = isUnknown ? NO_TASKS : { ...found, ...defined({ dryRun }) };
    const message = { kind: "retry", id: id ?? this.#newId(), by, reason, tasks } as const;
    const { answer } = await this.#send(message);
    if (isUnknown && isRejection(answer)) throw new RondoError(found);
    return unwrap(answer).retried ?? { tasks: 0, skipped: [] };
  }

  async move(target: MoveTarget, { dryRun: isDry, ...options }: MoveOptions = {}): Promise<void> {
    const { to, dryRun } = unwrap(checkMove(target, isDry));
    const { id, by, reason } = unwrap(checkControl(options));
    const { view } = await this.#inspect();
    const definition = unwrap(await findDefinition(this.#parts.store, view.workflow, to));
    const message = { kind: "move", id: id ?? this.#newId(), by, reason, definition, dryRun } as const;
    unwrap((await this.#send(message)).answer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of [...this.#listening]) stop();
    this.#listening.clear();
  }

  async #control(kind: ControlMessage["kind"], options: CancelOptions = {}): Promise<void> {
    const { id, by, reason, force } = unwrap(checkControl(options));
    const message = { kind, id: id ?? this.#newId(), by, reason, ...(force ? { force } : {}) };
    unwrap((await this.#send(message)).answer);
  }

  #send(message: Parameters<typeof sendToNewest>[2]): ReturnType<typeof sendToNewest> {
    return sendToNewest(this.#parts.engine, this.id, message);
  }

  async #inspect(): Promise<Inspection> {
    const { engine } = this.#parts;
    return unwrap(await inspectNewest((id) => engine.inspect(id), this.id));
  }

  async #throwIfDamaged(): Promise<void> {
    const { view } = await this.#inspect();
    if (view.status === "damaged") throw new ExecutionFailed(view);
  }

  #newId(): string {
    return newMessageId(this.#parts.clock.now(), this.#parts.random);
  }

  /** Listens for the end of the execution, until it ends or `stop` is called. */
  #ending(): Listening {
    let settle: (end: Ending | "stopped", execution: string) => void = () => {};
    const end = new Promise<Awaited<Listening["end"]>>((resolve) => {
      settle = (end, execution) => {
        this.#listening.delete(stop);
        resolve({ end, execution });
      };
    });
    const watch = new EndOfNewest(this.#parts.engine, this.id, settle);
    const stop = () => {
      watch.stop();
      settle("stopped", this.#stored);
    };
    this.#listening.add(stop);
    return { end, watch, stop };
  }

  #orGiveUp<T>(
    wanted: Promise<T>,
    options: ResultOptions,
    late = (ms: number): Error => notEndedWithin(this.id, ms),
  ): Promise<T> {
    if (options.signal === undefined && options.timeout === undefined) return wanted;
    return new Promise((resolve, fail) => {
      const ms = options.timeout === undefined ? null : unwrap(parseDuration(options.timeout, "timeout"));
      const cancel = ms === null ? () => {} : this.#parts.clock.after(ms, () => fail(late(ms)));
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

/** Makes the error for a call that waited when its engine or handle was closed. */
function closedEarly(awaited: string): RondoError {
  return new RondoError(
    reject("not_ready", `the engine or the handle was closed before ${awaited}`, {
      hint: "the execution continues when a process opens its store again",
    }),
  );
}

/** Returns the position after the piece of a stream with this id. */
function positionAfterPiece(id: string): LogPosition {
  const position = parsePosition(positionAfter(id));
  if (position === null)
    throw new RondoError(
      reject("invalid_input", `after: "${id}" is not the id of a piece of a stream`, { path: "after" }),
    );
  return position;
}
