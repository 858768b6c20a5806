/** An execution's handle over HTTP. */
import { exactly } from "../kernel/definition/names.ts";
import type { PublicEvent } from "../kernel/journal/public-event.ts";
import type { RetriedTasks } from "../kernel/message.ts";
import { type ExecutionView, hasEnded, type ShownStatus } from "../kernel/view.ts";
import {
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
import { answerOf, ExecutionFailed, notEndedWithin, outputOf } from "../sdk/errors.ts";
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
import type { Result, Signalled, Why } from "../server/schemas/execution.ts";
import type { PublishedState } from "../server/schemas/stream.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { newMessageId } from "../std/id.ts";
import type { Random } from "../std/random.ts";
import { type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import { awaitAnswer, awaitResult, patiently, startAndAwait } from "./await-result.ts";
import type { ServerEvent } from "./event-stream.ts";
import { followStream } from "./follow-stream.ts";
import { OpenCalls } from "./open-calls.ts";
import type { Requester, RequestOptions } from "./requester.ts";

/** The parts of the client that handles use. */
export interface RemoteParts {
  readonly requester: Requester;
  readonly clock: Clock;
  readonly random: Random;
  /** How long calls that wait or follow repeat a request that fails for a temporary reason, in milliseconds. */
  readonly reconnectMs: number;
  /** The calls that end when the client is closed. */
  readonly calls: OpenCalls;
}

const FINISHED = "workflow.finished";
/** The kind of the event with which a stream about a damaged execution ends. */
const DAMAGED = "damaged";
const LOG_PAGE = 1_000;

/** A log line as the server sends it. Its id is `<order>.<index within the lines that were stored together>`. */
type ShownLine = Omit<LogEntry, "order"> & { readonly id: string };

export class RemoteHandle<Output> implements ExecutionHandle<Output> {
  readonly id: string;
  readonly #parts: RemoteParts;
  readonly #path: string;
  /** The calls that end when the handle is disposed. */
  readonly #calls = new OpenCalls();

  constructor(id: string, parts: RemoteParts) {
    this.id = id;
    this.#parts = parts;
    this.#path = `/v1/executions/${encodeURIComponent(id)}`;
  }

  async result(options: ResultOptions = {}): Promise<Output> {
    checkResultOptions(options);
    const giveUp = this.#giveUp(options);
    try {
      return await this.#result(giveUp.signal);
    } finally {
      giveUp.stop();
    }
  }

  /** Starts the execution with this request and waits for its output. */
  async run(start: RequestOptions, options: ResultOptions): Promise<Output> {
    checkResultOptions(options);
    const { signal, stop } = this.#giveUp(options);
    try {
      const view = await startAndAwait(this.#parts, { ...start, signal });
      return hasEnded(view) ? outputOf<Output>(view) : await this.#result(signal);
    } finally {
      stop();
    }
  }

  async #result(signal: AbortSignal): Promise<Output> {
    let result: Result;
    try {
      result = await awaitResult(this.#parts, this.#path, signal);
    } catch (thrown) {
      if (!(thrown instanceof RondoError) || thrown.code !== "not_found") throw thrown;
      // The server either has no such execution, or is of an earlier version without this route.
      return this.#resultByEvents(signal);
    }
    if (result.status === "done") return result.output as Output;
    return outputOf<Output>(await this.#describe(signal));
  }

  /** Reads the result from a server of an earlier version, which has no route for results. */
  async #resultByEvents(signal: AbortSignal): Promise<Output> {
    const before = await this.#describe(signal);
    if (hasEnded(before)) return outputOf<Output>(before);
    for await (const event of this.#events({ from: before.revision + 1 }, signal))
      if (event.kind === FINISHED) break;
    signal.throwIfAborted();
    return outputOf<Output>(await this.#describe(signal));
  }

  async *events(options: EventsOptions = {}): AsyncGenerator<PublicEvent> {
    checkEventsOptions(options);
    const { signal, stop } = this.#giveUp();
    try {
      yield* this.#events(options, signal);
    } finally {
      stop();
    }
  }

  async *logs(options: LogsOptions = {}): AsyncGenerator<LogEntry> {
    checkLogsOptions(options);
    const { after, follow = false } = options;
    const cursor = after === undefined ? undefined : `${after + 1}.0`;
    const { signal, stop } = this.#giveUp();
    try {
      yield* follow ? this.#followLogs(cursor, signal) : this.#readLogs(cursor, signal);
    } finally {
      stop();
    }
  }

  stream<Chunk>(name: string, options: StreamOptions = {}): ExecutionStream<Chunk> {
    checkStreamOptions(name, options);
    return executionStream((follow) => this.#stream<Chunk>(name, { ...options, follow }), options);
  }

  async *#stream<Chunk>(
    name: string,
    { after, follow, task }: StreamOptions,
  ): AsyncGenerator<StreamPiece<Chunk>> {
    const path = `${this.#path}/streams/${encodeURIComponent(name)}`;
    const { signal, stop } = this.#giveUp();
    const query = { task, cursor: after === undefined ? undefined : positionAfter(after) };
    try {
      yield* follow === true
        ? this.#followPieces<Chunk>({ path, query, signal })
        : this.#pages<StreamPiece<Chunk>>({ path, query, signal });
    } finally {
      stop();
    }
  }

  async *#followPieces<Chunk>(options: Reading): AsyncGenerator<StreamPiece<Chunk>> {
    let hasEnded = false;
    for await (const item of followStream({ ...this.#parts, ...options, path: () => options.path })) {
      if (item !== "ended") {
        if (item.kind === DAMAGED) throw await this.#damaged(item, options.signal);
        const piece = JSON.parse(item.data) as StreamPiece<Chunk>;
        hasEnded = piece.end === true;
        yield piece;
      } else if (hasEnded || (await this.#describeAnew(options.signal)).finishedAt !== null) return;
    }
  }

  /** Reads a list page by page. */
  async *#pages<Item>({ path, query, signal }: Reading): AsyncGenerator<Item> {
    let { cursor }: { cursor?: string | null | undefined } = query;
    while (cursor !== null) {
      const page: { data: readonly Item[]; next: string | null } = await this.#parts.requester.json(path, {
        query: { ...query, cursor, limit: LOG_PAGE },
        signal,
      });
      yield* page.data;
      cursor = page.next;
    }
  }

  async published<Values extends object>(): Promise<Partial<Values>> {
    const { published } = await this.#parts.requester.json<PublishedState>(`${this.#path}/published`);
    return published as Partial<Values>;
  }

  async *watch(options: WatchOptions = {}): AsyncGenerator<ExecutionView> {
    checkWatchOptions(options);
    const { signal, stop } = this.#giveUp();
    let path = this.#path;
    const stream = followStream({ ...this.#parts, ...options, path: () => path, query: {}, signal });
    let last: ExecutionView | null = null;
    try {
      for await (const item of stream) {
        // If the stream ends early, it is opened again. A server of an earlier version has no such stream, so the execution's view is
        // read instead.
        const view: ExecutionView =
          item === "ended" || item.kind === DAMAGED
            ? await this.#describeAnew(signal, path)
            : {
                ...(last === null ? {} : { input: last.input }),
                ...(JSON.parse(item.data) as ExecutionView),
              };
        if (view.revision !== last?.revision || view.status !== last.status) yield view;
        if (hasEnded(view)) return;
        path = pathOf(view.id);
        last = view;
      }
    } finally {
      stop();
    }
  }

  async status(): Promise<ShownStatus> {
    return (await this.describe()).status;
  }

  describe(): Promise<ExecutionView> {
    return this.#parts.requester.json<ExecutionView>(this.#path);
  }

  async why(): Promise<string> {
    return (await this.#why()).why;
  }

  async awaits(): Promise<readonly string[]> {
    return (await this.#why()).signals ?? [];
  }

  #why(): Promise<Why> {
    return this.#parts.requester.json<Why>(`${this.#path}/why`);
  }

  async signal(
    given: string | Declared,
    payload?: unknown,
    options: SignalOptions = {},
  ): Promise<SignalState> {
    checkSignalOptions(options);
    const { name, data } = await checkedData(given, payload);
    const body = { name, data: data ?? null };
    const { state = "kept" } = await this.#post<Partial<Signalled>>("signals", body, options.id);
    return state;
  }

  async update<Answer>(
    given: string | Declared,
    payload?: unknown,
    options: SendUpdateOptions = {},
  ): Promise<Answer> {
    checkUpdateOptions(options);
    const { id = this.#newId(), timeout, ...others } = options;
    const { name, data } = await checkedData(given, payload);
    const late = (ms: number) => new RondoError(notAnswered({ name, id }, ms));
    const { signal, stop } = this.#giveUp({ ...others, ...defined({ timeout }) }, late);
    try {
      const path = `${this.#path}/updates/${encodeURIComponent(name)}`;
      const body = { data: data ?? null, id };
      return answerOf<Answer>(name, await awaitAnswer(this.#parts, path, { body, signal }));
    } finally {
      stop();
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

  retryTasks(choice: TaskChoice, { id, ...options }: RetryTasksOptions = {}): Promise<RetriedTasks> {
    return this.#post<RetriedTasks>("tasks/retry", { ...choice, ...defined(options) }, id);
  }

  async move(target: MoveTarget, { id, dryRun, ...options }: MoveOptions = {}): Promise<void> {
    const checked = unwrap(checkMove(target, dryRun));
    await this.#post("move", { ...checked.to, dryRun: checked.dryRun, ...defined(options) }, id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#calls.abort(closedEarly("the handle"));
  }

  async #control(kind: string, { id, ...body }: CancelOptions = {}): Promise<void> {
    await this.#post(kind, defined(body), id);
  }

  #newId(): string {
    return newMessageId(this.#parts.clock.now(), this.#parts.random);
  }

  /** Sends a request with a generated id, so that the request can be repeated. */
  #post<Answer>(path: string, body: object, id = this.#newId()): Promise<Answer> {
    const { requester } = this.#parts;
    // The id is not sent as an Idempotency-Key, because other executions may use the same id.
    return requester.json<Answer>(`${this.#path}/${path}`, {
      method: "POST",
      body: { ...body, id },
      isRepeatable: true,
    });
  }

  #describe(signal: AbortSignal): Promise<ExecutionView> {
    return this.#parts.requester.json<ExecutionView>(this.#path, { signal });
  }

  /** Reads the execution after a stream has ended. The server may have closed, so it is asked until it answers. */
  #describeAnew(signal: AbortSignal, path = this.#path): Promise<ExecutionView> {
    return patiently<ExecutionView>(this.#parts, path, { signal });
  }

  async *#events(options: EventsOptions, signal: AbortSignal): AsyncGenerator<PublicEvent> {
    const { from = 1, detail = "summary", follow = false } = options;
    let next = from;
    // Before the stream is opened again: the id may belong to a later execution by now, whose events are numbered from 1 again.
    let path = this.#path;
    const stream = followStream({
      ...this.#parts,
      path: () => `${path}/events`,
      query: { from, detail, follow: follow ? true : undefined },
      signal,
    });
    for await (const item of stream) {
      if (item === "ended") {
        const { finishedAt, revision } = await this.#describeAnew(signal, path);
        if (!follow && finishedAt !== null && next > revision) return;
        continue;
      }
      if (item.kind === DAMAGED) throw await this.#damaged(item, signal);
      const event = JSON.parse(item.data) as PublicEvent;
      path = pathOf(event.execution);
      if (event.seq < next) continue;
      next = event.seq + 1;
      yield event;
      if (event.kind === FINISHED && !follow) return;
    }
  }

  /** Makes the error for a stream about a damaged execution. */
  async #damaged({ data }: ServerEvent, signal: AbortSignal): Promise<Error> {
    const view = await this.#describe(signal);
    if (view.status === DAMAGED) return new ExecutionFailed(view);
    const { code, message, hint } = JSON.parse(data) as Pick<Rejection, "code" | "message" | "hint">;
    return new RondoError(reject(code, message, defined({ hint })));
  }

  async *#readLogs(cursor: string | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    for await (const line of this.#pages<ShownLine>({
      path: `${this.#path}/logs`,
      query: { cursor },
      signal,
    }))
      yield entryOf(line);
  }

  async *#followLogs(cursor: string | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    // All lines are of one execution, even if another execution continues it while they are read.
    const path = pathOf((await this.#describe(signal)).id);
    const stream = followStream({ ...this.#parts, path: () => `${path}/logs`, query: { cursor }, signal });
    for await (const item of stream) {
      if (item !== "ended") {
        if (item.kind === DAMAGED) throw await this.#damaged(item, signal);
        yield entryOf(JSON.parse(item.data) as ShownLine);
      } else if ((await this.#describeAnew(signal, path)).finishedAt !== null) return;
    }
  }

  /** Returns a signal that is aborted by the caller's signal, by its timeout, or when the handle or its client is closed. */
  #giveUp(
    { signal, timeout }: ResultOptions = {},
    late = (ms: number): Error => notEndedWithin(this.id, ms),
  ): { signal: AbortSignal; stop: () => void } {
    const { calls, clock } = this.#parts;
    const ms = timeout === undefined ? null : unwrap(parseDuration(timeout, "timeout"));
    const call = new AbortController();
    const abort = (): void => call.abort(signal?.reason);
    const cancel = ms === null ? () => {} : clock.after(ms, () => call.abort(late(ms)));
    const removals = [calls.add(call), this.#calls.add(call)];
    signal?.addEventListener("abort", abort);
    if (signal?.aborted === true) abort();
    const stop = (): void => {
      cancel();
      for (const remove of removals) remove();
      signal?.removeEventListener("abort", abort);
    };
    return { signal: call.signal, stop };
  }
}

/** Returns the path of one execution by its own id, which never refers to a later execution. */
function pathOf(stored: string): string {
  return `/v1/executions/${encodeURIComponent(exactly(stored))}`;
}

/** Makes the error for a call that waited for an execution's end when its handle or client was closed. */
export function closedEarly(what: string): RondoError {
  return new RondoError(
    reject("not_ready", `${what} was closed before the execution ended`, { hint: "it goes on" }),
  );
}

/** A list of items that can be read page by page, or followed. */
interface Reading {
  readonly path: string;
  readonly query: { readonly task?: number | undefined; readonly cursor: string | undefined };
  readonly signal: AbortSignal;
}

function entryOf({ id, ...line }: ShownLine): LogEntry {
  return { order: Number.parseInt(id, 10), ...line };
}
