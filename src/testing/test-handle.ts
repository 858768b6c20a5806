/** A handle of an execution that survives crashes: each call asks the engine that is currently up, and a wait goes on after a crash. */

import type { PublicEvent } from "../kernel/journal/public-event.ts";
import type { RetriedTasks } from "../kernel/message.ts";
import type { ExecutionView, ShownStatus } from "../kernel/view.ts";
import type { Rondo } from "../rondo/rondo.ts";
import type { Declared } from "../sdk/declared.ts";
import type {
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
import { RondoError, reject } from "../std/rejection.ts";
import { ENDED, type KillableProcess } from "./killable-process.ts";

/** One simulated process with an engine. It answers until the process ends. */
export interface Answering {
  readonly rondo: Rondo;
  readonly ended: KillableProcess["ended"];
}

export class TestHandle<Output> implements ExecutionHandle<Output> {
  readonly id: string;
  readonly #life: () => Promise<Answering>;

  constructor(id: string, life: () => Promise<Answering>) {
    this.id = id;
    this.#life = life;
  }

  async result(options: ResultOptions = {}): Promise<Output> {
    for (;;) {
      const life = await this.#life();
      const result = await Promise.race([this.#in(life).result(options), life.ended]);
      if (result !== ENDED) return result;
    }
  }

  async *events(options: EventsOptions = {}): AsyncGenerator<PublicEvent> {
    let from = options.from ?? 1;
    for (;;) {
      const life = await this.#life();
      const events = this.#in(life)
        .events({ ...options, from })
        [Symbol.asyncIterator]();
      for (;;) {
        const next = await Promise.race([events.next(), life.ended]);
        if (next === ENDED) break;
        if (next.done === true) return;
        from = next.value.seq + 1;
        yield next.value;
      }
    }
  }

  async *logs(options: LogsOptions = {}): AsyncGenerator<LogEntry> {
    let after = options.after ?? 0;
    for (;;) {
      const life = await this.#life();
      const lines = this.#in(life)
        .logs({ ...options, after })
        [Symbol.asyncIterator]();
      for (;;) {
        const next = await Promise.race([lines.next(), life.ended]);
        if (next === ENDED) break;
        if (next.done === true) return;
        after = next.value.order;
        yield next.value;
      }
    }
  }

  stream<Chunk>(name: string, options: StreamOptions = {}): ExecutionStream<Chunk> {
    return executionStream((follow) => this.#stream<Chunk>(name, { ...options, follow }), options);
  }

  async *#stream<Chunk>(name: string, options: StreamOptions): AsyncGenerator<StreamPiece<Chunk>> {
    let { after } = options;
    for (;;) {
      const life = await this.#life();
      const pieces = this.#in(life)
        .stream<Chunk>(name, { ...options, ...(after === undefined ? {} : { after }) })
        [Symbol.asyncIterator]();
      for (;;) {
        const next = await Promise.race([pieces.next(), life.ended]);
        if (next === ENDED) break;
        if (next.done === true) return;
        after = next.value.id;
        yield next.value;
      }
    }
  }

  published<Values extends object>(): Promise<Partial<Values>> {
    return this.#ask((handle) => handle.published<Values>());
  }

  async *watch(options: WatchOptions = {}): AsyncGenerator<ExecutionView> {
    let last: ExecutionView | null = null;
    for (;;) {
      const life = await this.#life();
      const views = this.#in(life).watch(options)[Symbol.asyncIterator]();
      for (;;) {
        const next = await Promise.race([views.next(), life.ended]);
        if (next === ENDED) break;
        if (next.done === true) return;
        // After a crash, the next engine begins with a view that the caller has seen already.
        if (next.value.revision !== last?.revision || next.value.status !== last.status) yield next.value;
        last = next.value;
      }
    }
  }

  status(): Promise<ShownStatus> {
    return this.#ask((handle) => handle.status());
  }

  describe(): Promise<ExecutionView> {
    return this.#ask((handle) => handle.describe());
  }

  why(): Promise<string> {
    return this.#ask((handle) => handle.why());
  }

  awaits(): Promise<readonly string[]> {
    return this.#ask((handle) => handle.awaits());
  }

  signal(signal: string | Declared, data?: unknown, options?: SignalOptions): Promise<SignalState> {
    return this.#ask((handle) => handle.signal(signal as string, data, options));
  }

  async update<Answer>(
    update: string | Declared,
    data?: unknown,
    options: SendUpdateOptions = {},
  ): Promise<Answer> {
    const send = (handle: ExecutionHandle<Output>) => handle.update<Answer>(update as string, data, options);
    if (options.id === undefined) return this.#ask(send);
    // An update that is sent again after a crash has the same id, so it counts as the same update.
    for (;;) {
      const life = await this.#life();
      const answer = await Promise.race([send(this.#in(life)), life.ended]);
      if (answer !== ENDED) return answer;
    }
  }

  pause(options?: ControlOptions): Promise<void> {
    return this.#ask((handle) => handle.pause(options));
  }

  resume(options?: ControlOptions): Promise<void> {
    return this.#ask((handle) => handle.resume(options));
  }

  cancel(options?: ControlOptions): Promise<void> {
    return this.#ask((handle) => handle.cancel(options));
  }

  retry(options?: ControlOptions): Promise<void> {
    return this.#ask((handle) => handle.retry(options));
  }

  retryTasks(choice: TaskChoice, options?: RetryTasksOptions): Promise<RetriedTasks> {
    return this.#ask((handle) => handle.retryTasks(choice, options));
  }

  move(to: MoveTarget, options?: MoveOptions): Promise<void> {
    return this.#ask((handle) => handle.move(to, options));
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #in(life: Answering): ExecutionHandle<Output> {
    return life.rondo.execution(this.id) as ExecutionHandle<Output>;
  }

  async #ask<T>(ask: (handle: ExecutionHandle<Output>) => Promise<T>): Promise<T> {
    const life = await this.#life();
    return orCrashed(ask(this.#in(life)), life);
  }
}

/** Returns the answer, or throws a `RondoError` if the engine crashes before it answers. */
export async function orCrashed<T>(answer: Promise<T>, life: Answering): Promise<T> {
  const first = await Promise.race([answer, life.ended]);
  if (first !== ENDED) return first;
  throw new RondoError(
    reject("not_ready", "the engine crashed before it answered", {
      hint: "the request may have been applied: repeat it with the same id",
    }),
  );
}
