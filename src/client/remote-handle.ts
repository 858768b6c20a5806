/** An execution's handle over HTTP. */
import type { PublicEvent } from "../kernel/journal/public-event.ts";
import type { RetriedTasks } from "../kernel/message.ts";
import { type ExecutionView, hasEnded, type ShownStatus } from "../kernel/view.ts";
import {
  checkEventsOptions,
  checkLogsOptions,
  checkResultOptions,
  checkSignalOptions,
} from "../protocol/check-request.ts";
import { ExecutionFailed, notEndedWithin, outputOf } from "../sdk/errors.ts";
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
import type { Result, Signalled, Why } from "../server/schemas/execution.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { newMessageId } from "../std/id.ts";
import type { Random } from "../std/random.ts";
import { type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import { awaitResult, startAndAwait } from "./await-result.ts";
import type { ServerEvent } from "./event-stream.ts";
import { followStream } from "./follow-stream.ts";
import { OpenCalls } from "./open-calls.ts";
import type { Requester, RequestOptions } from "./requester.ts";

/** The parts of the client that handles use. */
export interface RemoteParts {
  readonly requester: Requester;
  readonly clock: Clock;
  readonly random: Random;
  /** How long `result()`, `events()` and `logs()` retry without a connection. */
  readonly reconnectMs: number;
  /** The calls that end when the client is closed. */
  readonly calls: OpenCalls;
}

const FINISHED = "workflow.finished";
/** The kind of the last event of a stream about a damaged execution. */
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

  /** Starts the execution by this request and waits for its output. */
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
      // Either there is no such execution, or the server is of an earlier version.
      return this.#resultByEvents(signal);
    }
    if (result.status === "done") return result.output as Output;
    return outputOf<Output>(await this.#describe(signal));
  }

  /** The result from a server without a route for it. */
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

  async status(): Promise<ShownStatus> {
    return (await this.describe()).status;
  }

  describe(): Promise<ExecutionView> {
    return this.#parts.requester.json<ExecutionView>(this.#path);
  }

  async why(): Promise<string> {
    return (await this.#parts.requester.json<Why>(`${this.#path}/why`)).why;
  }

  async signal(name: string, data?: unknown, options: SignalOptions = {}): Promise<SignalState> {
    checkSignalOptions(options);
    const body = { name, data: data ?? null };
    const { state = "kept" } = await this.#post<Partial<Signalled>>("signals", body, options.id);
    return state;
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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#calls.abort(closedEarly("the handle"));
  }

  async #control(kind: string, { id, ...body }: CancelOptions = {}): Promise<void> {
    await this.#post(kind, defined(body), id);
  }

  #newId(): string {
    return newMessageId(this.#parts.clock.now(), this.#parts.random);
  }

  /** Sends a request with an id that is generated here, so that the request can be repeated. */
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

  async *#events(options: EventsOptions, signal: AbortSignal): AsyncGenerator<PublicEvent> {
    const { from = 1, detail = "summary", follow = false } = options;
    let next = from;
    const stream = followStream({
      ...this.#parts,
      path: `${this.#path}/events`,
      query: { from, detail, follow: follow ? true : undefined },
      signal,
    });
    for await (const item of stream) {
      if (item === "ended") {
        const { finishedAt, revision } = await this.#describe(signal);
        if (!follow && finishedAt !== null && next > revision) return;
        continue;
      }
      if (item.kind === DAMAGED) throw await this.#damaged(item, signal);
      const event = JSON.parse(item.data) as PublicEvent;
      if (event.seq < next) continue;
      next = event.seq + 1;
      yield event;
      if (event.kind === FINISHED && !follow) return;
    }
  }

  /** The error for a stream about a damaged execution. */
  async #damaged({ data }: ServerEvent, signal: AbortSignal): Promise<Error> {
    const view = await this.#describe(signal);
    if (view.status === DAMAGED) return new ExecutionFailed(view);
    const { code, message, hint } = JSON.parse(data) as Pick<Rejection, "code" | "message" | "hint">;
    return new RondoError(reject(code, message, defined({ hint })));
  }

  async *#readLogs(from: string | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    let cursor: string | null | undefined = from;
    while (cursor !== null) {
      const page: { data: readonly ShownLine[]; next: string | null } = await this.#parts.requester.json(
        `${this.#path}/logs`,
        { query: { cursor, limit: LOG_PAGE }, signal },
      );
      yield* page.data.map(entryOf);
      cursor = page.next;
    }
  }

  async *#followLogs(cursor: string | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    const stream = followStream({ ...this.#parts, path: `${this.#path}/logs`, query: { cursor }, signal });
    for await (const item of stream) {
      if (item !== "ended") {
        if (item.kind === DAMAGED) throw await this.#damaged(item, signal);
        yield entryOf(JSON.parse(item.data) as ShownLine);
      } else if ((await this.#describe(signal)).finishedAt !== null) return;
    }
  }

  /** A signal that is aborted by the caller's signal, by its timeout, or when the handle or its client is closed. */
  #giveUp({ signal, timeout }: ResultOptions = {}): { signal: AbortSignal; stop: () => void } {
    const { calls, clock } = this.#parts;
    const ms = timeout === undefined ? null : unwrap(parseDuration(timeout, "timeout"));
    const call = new AbortController();
    const abort = (): void => call.abort(signal?.reason);
    const cancel = ms === null ? () => {} : clock.after(ms, () => call.abort(notEndedWithin(this.id, ms)));
    calls.add(call);
    this.#calls.add(call);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted === true) abort();
    const stop = (): void => {
      cancel();
      calls.delete(call);
      this.#calls.delete(call);
      signal?.removeEventListener("abort", abort);
    };
    return { signal: call.signal, stop };
  }
}

/** The error of a call that waited for an execution's end when its handle or client was closed. */
export function closedEarly(what: string): RondoError {
  return new RondoError(
    reject("not_ready", `${what} was closed before the execution ended`, { hint: "it goes on" }),
  );
}

function entryOf({ id, ...line }: ShownLine): LogEntry {
  return { order: Number.parseInt(id, 10), ...line };
}
