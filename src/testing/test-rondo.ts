/**
 * The Rondo that `testRondo` returns, over tables that survive crashes. A test can move its time, crash it and read journals.
 */
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { type Detail, type PublicEvent, publicEvent } from "../kernel/journal/public-event.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { checkCloseOptions } from "../protocol/check-request.ts";
import type { SentEvent } from "../protocol/sent-event.ts";
import type { Rondo } from "../rondo/rondo.ts";
import { allPages } from "../sdk/all-pages.ts";
import type { EventToSend } from "../sdk/event.ts";
import type {
  CloseOptions,
  ExecutionHandle,
  ExecutionPage,
  ListOptions,
  LogEntry,
  LogsOptions,
  ResultOptions,
  RondoClient,
  SignalledExecution,
  SignalWithStartOptions,
  StartItem,
  StartOptions,
  StartOutcome,
  StartSignal,
} from "../sdk/handle.ts";
import type { Operations } from "../sdk/operations.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import type { Duration } from "../std/duration.ts";
import type { HostedTopic, HostedWorkflow } from "../worker/handler-code.ts";
import { ProcessRun, type ProcessRunOptions } from "./process-run.ts";
import { orCrashed, TestHandle } from "./test-handle.ts";
import { stateAt, type TestBroadcast } from "./test-post-ops.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** Virtual time. Handlers under test may use `after` for their own timers. */
export interface TestClock extends Clock {
  /** Moves time forward by a duration and fires due timers in order. Resolves when all is quiet. */
  advance(duration: Duration): Promise<void>;
}

/** The longest step of time in `pass`, so that a test regains control at least once a day of virtual time. */
export const PASS_MAX_MS = 86_400_000;

/** Rondo under test, as `testRondo` gives it: the test moves time, causes crashes and reads journals. */
export class TestRondo implements RondoClient {
  readonly #options: Omit<ProcessRunOptions, "clock" | "onStop">;
  readonly #workflows: readonly (HostedWorkflow | HostedTopic)[];
  readonly #clock = new VirtualClock(() => this.#current?.isAtWork === true);
  #life: Promise<ProcessRun>;
  #current: ProcessRun | null = null;
  #stopped: Error | null = null;
  readonly schedules: Operations["schedules"];
  readonly deadLetters: Operations["deadLetters"];
  readonly workers: Operations["workers"];
  readonly versions: Operations["versions"];
  readonly bulk: Operations["bulk"];
  readonly tokenFor: Operations["tokenFor"];

  /** @internal */
  constructor(
    workflows: readonly (HostedWorkflow | HostedTopic)[],
    options: Omit<ProcessRunOptions, "clock" | "onStop">,
  ) {
    this.#workflows = workflows;
    this.#options = options;
    this.#life = this.#begin();
    const inLife = async <T>(ask: (rondo: Rondo) => Promise<T>): Promise<T> => {
      const run = await this.#life;
      return orCrashed(ask(run.rondo), run);
    };
    const { schedules, deadLetters, workers } = proxied(inLife);
    this.schedules = schedules;
    this.deadLetters = deadLetters;
    this.workers = workers;
    this.versions = (workflow) => inLife((rondo) => rondo.versions(workflow));
    this.bulk = (...given) => inLife((rondo) => rondo.bulk(...given));
    this.tokenFor = (...given) => inLife((rondo) => rondo.tokenFor(...given));
  }

  /** The virtual time. */
  get clock(): TestClock {
    return this.#clock;
  }

  async start<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions,
  ): Promise<ExecutionHandle<WorkflowOutput<W>>> {
    const run = await this.#life;
    const { id } = await orCrashed(run.rondo.start<W>(workflow, input, options), run);
    return this.execution<W>(id);
  }

  async signalWithStart<W extends AnyWorkflow = AnyWorkflow, Data = unknown>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    signal: StartSignal<Data>,
    options: SignalWithStartOptions,
  ): Promise<SignalledExecution<WorkflowOutput<W>>> {
    const run = await this.#life;
    const signalled = await orCrashed(
      run.rondo.signalWithStart<W, Data>(workflow, input, signal, options),
      run,
    );
    return { ...signalled, execution: this.execution<W>(signalled.execution.id) };
  }

  async startMany<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    starts: readonly StartItem<WorkflowInput<NoInfer<W>>>[],
  ): Promise<readonly StartOutcome<WorkflowOutput<W>>[]> {
    const run = await this.#life;
    const outcomes = await orCrashed(run.rondo.startMany<W>(workflow, starts), run);
    return outcomes.map((one) =>
      one.execution === null ? one : { ...one, execution: this.execution<W>(one.execution.id) },
    );
  }

  async send(event: EventToSend): Promise<SentEvent> {
    const run = await this.#life;
    return orCrashed(run.rondo.send(event), run);
  }

  /** Starts an execution and waits for its output; time does not move by itself, see `testRondo`. */
  async run<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions & ResultOptions,
  ): Promise<WorkflowOutput<W>> {
    const { signal, timeout, ...start } = options ?? {};
    return (await this.start<W>(workflow, input, start)).result(defined({ signal, timeout }));
  }

  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>> {
    return new TestHandle<WorkflowOutput<W>>(id, () => this.#life);
  }

  async list(options?: ListOptions): Promise<ExecutionPage> {
    const run = await this.#life;
    return orCrashed(run.rondo.list(options), run);
  }

  listAll(options?: Omit<ListOptions, "cursor">): AsyncIterable<ExecutionView> {
    return allPages((page) => this.list({ ...options, ...page }));
  }

  /** Reads the execution as it was after the event with this sequence number. */
  async stateAt(id: string, seq: number): Promise<ExecutionView> {
    const run = await this.#life;
    return orCrashed(run.rondo.stateAt(id, seq), run);
  }

  /** Reads the journal as committed so far, by default with every task in it. */
  events(id: string, detail: Detail = "full"): PublicEvent[] {
    return this.#options.tables
      .readJournal({ execution: id, from: 1 })
      .flatMap(decodeEntry)
      .map((recorded) => publicEvent(id, recorded, detail));
  }

  /** The broadcasts of commands in order. Each try is an entry of its own. Nothing is really sent. */
  get broadcasts(): readonly TestBroadcast[] {
    return this.#options.postOps.broadcasts;
  }

  /** Reads a result that a command stored under a key of a state store; undefined if there is none. */
  async state(store: string, key: string, partition?: string): Promise<unknown> {
    const run = await this.#life;
    return orCrashed(
      stateAt(run.postOps, { store, key, ...(partition === undefined ? {} : { partition }) }),
      run,
    );
  }

  /** Moves time to the next timer, by a day at most. Gives false if there is no timer. */
  async pass(): Promise<boolean> {
    const ms = this.#clock.nextAt - this.#clock.now();
    await this.#clock.advance(Math.max(1, Math.min(ms, PASS_MAX_MS)));
    return ms !== Number.POSITIVE_INFINITY;
  }

  /** Resolves when nothing more happens unless time moves. */
  async settle(): Promise<void> {
    await this.#life;
    await this.#clock.settle();
    if (this.#stopped !== null) throw new Error("the engine stopped", { cause: this.#stopped });
  }

  /** Ends engine and worker as `kill -9` would, and opens the store again. */
  async crash(): Promise<void> {
    (await this.#life).kill();
    this.#life = this.#begin();
    await this.#life;
  }

  logs(id: string, options?: LogsOptions): AsyncIterable<LogEntry> {
    return this.execution(id).logs(options);
  }

  /**
   * Closes the engine and the worker. Handlers that still run after `graceMs` of virtual time are aborted.
   *
   * @default { graceMs: 0 }
   */
  async close(options: CloseOptions = {}): Promise<void> {
    checkCloseOptions(options);
    const { graceMs = 0 } = options;
    const run = await this.#life;
    const closed = run.rondo.close({ graceMs });
    await this.#clock.advance(graceMs);
    await closed;
    run.kill();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #begin(): Promise<ProcessRun> {
    const run = await ProcessRun.begin(
      {
        ...this.#options,
        clock: this.#clock,
        onStop: (reason) => {
          this.#stopped ??= reason;
        },
      },
      this.#workflows,
    );
    this.#current = run;
    return run;
  }
}

type Grouped = Pick<Operations, "schedules" | "deadLetters" | "workers">;

/** Schedules, dead letters and workers, as proxies that forward each call to the process that runs now. */
function proxied(inLife: <T>(ask: (rondo: Rondo) => Promise<T>) => Promise<T>): Grouped {
  const groupOf = <G extends keyof Grouped>(group: G): Grouped[G] =>
    new Proxy({} as Grouped[G], {
      get:
        (_, name) =>
        (...given: unknown[]) =>
          inLife((rondo) => {
            const members = rondo[group] as unknown as Record<
              PropertyKey,
              (...given: unknown[]) => Promise<unknown>
            >;
            return (members[name] as (...given: unknown[]) => Promise<unknown>)(...given);
          }),
    });
  return {
    schedules: groupOf("schedules"),
    deadLetters: groupOf("deadLetters"),
    workers: groupOf("workers"),
  };
}
