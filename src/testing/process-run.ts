/** One run of a Rondo under test: an engine and its worker, as a simulated process of their own (killable-process.ts). */
import type { Performer } from "../commands/post-ops/post-op-performer.ts";
import { Engine } from "../engine/driver.ts";
import type { Settings } from "../engine/settings.ts";
import { Rondo } from "../rondo/rondo.ts";
import type { AttachedApi } from "../rondo/rondo-parts.ts";
import type { LogLine } from "../sdk/log-line.ts";
import type { Clock } from "../std/clock.ts";
import { decorate } from "../std/decorate.ts";
import type { Random } from "../std/random.ts";
import { toError } from "../std/to-error.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import type { ExecutionStore } from "../store/store.ts";
import { withTriggerIndex } from "../triggers/trigger-index.ts";
import type { HostedTopic, HostedWorkflow, Middleware } from "../worker/handler-code.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";
import { KillableProcess } from "./killable-process.ts";
import type { TestPostOps } from "./test-post-ops.ts";

export interface ProcessRunOptions {
  readonly tables: MemoryTables;
  readonly clock: Clock;
  readonly random: Random;
  readonly capacity: number;
  readonly settings: Partial<Settings>;
  readonly onLog: (line: LogLine) => void;
  /** Middleware around all code. */
  readonly middleware?: readonly Middleware[];
  /** Makes some commits fail; by default no commit fails. */
  readonly faults?: { commit<T>(write: () => Promise<T>): Promise<T> };
  /** The options of scripts. Scripts run for real, in their sandbox. */
  readonly scripts: ScriptOptions;
  /** Performs post-operations of commands. */
  readonly postOps: TestPostOps;
  /** Called with the reason if the engine stops by itself, which is always a bug. */
  readonly onStop: (reason: Error) => void;
  /** Opens the API of a run, for schedules, dead letters, workers and changes of many executions. */
  readonly openApi?: (parts: TestApiParts) => Promise<AttachedApi>;
}

/** The parts of a simulated process that its API uses. */
export interface TestApiParts {
  readonly engine: Engine;
  readonly store: MemoryStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly postOps: Performer;
  readonly rondo: Rondo;
}

export class ProcessRun {
  readonly rondo: Rondo;
  readonly postOps: Performer;
  readonly #engine: Engine;
  readonly #process: KillableProcess;

  private constructor(parts: {
    engine: Engine;
    rondo: Rondo;
    process: KillableProcess;
    postOps: Performer;
  }) {
    this.postOps = parts.postOps;
    this.#engine = parts.engine;
    this.rondo = parts.rondo;
    this.#process = parts.process;
  }

  /** Resolves when this run of the process has ended. */
  get ended(): KillableProcess["ended"] {
    return this.#process.ended;
  }

  static async begin(
    options: ProcessRunOptions,
    workflows: readonly (HostedWorkflow | HostedTopic)[],
  ): Promise<ProcessRun> {
    const { tables, random, capacity, settings, scripts, onLog, onStop, openApi } = options;
    const process = new KillableProcess(options.clock);
    const clock = process.clock(options.clock);
    const store = process.store(withFaults(new MemoryStore(tables), options.faults));
    const postOps = options.postOps.performer(store, clock);
    const engine = await Engine.open({ store, clock, settings, postOps, onStop });
    const rondo = new Rondo({
      engine,
      store: withTriggerIndex(store),
      clock,
      random,
      capacity,
      scripts,
      middleware: [...(options.middleware ?? [])],
      onLog,
      onBug: (thrown) => onStop(toError(thrown)),
      ...(openApi === undefined
        ? {}
        : { openApi: (opened) => openApi({ engine, store, clock, random, postOps, rondo: opened }) }),
    });
    rondo.serve(...workflows);
    // Continues the schedules that the run before this one has stored.
    if (openApi !== undefined && tables.listDocuments("schedule", { max: 1 }).length > 0) await rondo.api();
    return new ProcessRun({ engine, rondo, process, postOps });
  }

  /** Whether attempts are running, so that user code may be running. */
  get isAtWork(): boolean {
    return this.#engine.openLeases > 0;
  }

  /** Kills the process, as `kill -9` does. */
  kill(): void {
    this.#process.kill();
  }
}

/** Decorates a store so that its commits can fail. */
export function withFaults<S extends ExecutionStore>(store: S, faults: ProcessRunOptions["faults"]): S {
  if (faults === undefined) return store;
  return decorate<ExecutionStore>(store, {
    commit: (content) => faults.commit(() => store.commit(content)),
  }) as S;
}
