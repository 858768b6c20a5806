/**
 * Runs schedules, by the decisions of `decide`. When the alarm of a schedule is due, the runner reads the schedule, carries out the
 * decision, and sets the next alarm. It keeps little more than the alarms in memory. To fire means to start an execution, whose id
 * contains the schedule's id and the due time. After the start was acknowledged, the due time is stored as fired. If a crash prevents
 * that, the start is repeated and finds the execution of the first try.
 */
import { DamagedData } from "../kernel/journal/damage.ts";
import { Bug } from "../std/assert.ts";
import { backOffMs } from "../std/back-off.ts";
import type { Clock } from "../std/clock.ts";
import { hashText } from "../std/random.ts";
import { isRejection, type Rejection, type RejectionCode, RondoError } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { Alarms } from "./alarms.ts";
import { type Decision, decide, type Fire, refused } from "./decide.ts";
import type { Lanes } from "./lanes.ts";
import type { Schedule, ScheduleSpec, ScheduleState } from "./schedule.ts";
import { damagedFault, damagedSchedule, type ScheduleStore, viewSchedule } from "./schedule-store.ts";
import type { StoredSchedule } from "./stored-schedule.ts";

/** The execution that a schedule starts at a due time. */
export type ScheduledStart = Pick<ScheduleSpec, "id" | "workflow" | "input" | "project" | "tags">;

/** The methods of the engine that the runner uses. */
export interface ScheduleEngine {
  /** Starts an execution, or finds the one with this id. Resolves when the execution is stored. Throws if the store or the engine fails. */
  start(request: ScheduledStart): Promise<Rejection | { readonly id: string }>;
  /** Whether an execution exists and has not ended. */
  isOpen(execution: string): Promise<boolean>;
  exists(execution: string): Promise<boolean>;
  /** Calls `ended` when an execution ends. Returns a function that stops the watch. */
  onEnd(execution: string, ended: () => void): () => void;
}

export interface ScheduleRunnerOptions {
  readonly clock: Clock;
  readonly engine: ScheduleEngine;
  readonly schedules: ScheduleStore;
  /** Runs the work on each schedule one after the other. */
  readonly lanes: Lanes;
  /** Called when the store or the engine failed. The work is repeated. */
  readonly onFault: (fault: Error) => void;
  /** Whether other nodes run schedules too. */
  readonly isShared: boolean;
  /** Whether this node runs the schedule with this id. */
  readonly isMine: (id: string) => boolean;
}

/** The most executions that are being started at a time. */
const FIRING_MAX = 32;
/** How often the runner checks whether an awaited execution has ended, in case its end is not reported. */
const CHECK_MS = 60_000;
const RETRY = { minMs: 200, maxMs: 30_000 } as const;
/** Codes of temporary refusals. The start is repeated after them. */
const PASSING: readonly RejectionCode[] = [
  "not_ready",
  "store_unavailable",
  "rate_limited",
  "timeout",
  "not_owner",
];

/** The state of a schedule that is kept in memory. */
interface Memory {
  /** A start that must be completed before the next decision; null if there is none. */
  begun: Fire | null;
  firedAt: number | null;
  failures: number;
  /** The execution for whose end the schedule waits, and a function that stops the watch. */
  awaited: string | null;
  unwatch: (() => void) | null;
}

export class ScheduleRunner {
  readonly #options: ScheduleRunnerOptions;
  readonly #alarms: Alarms;
  readonly #memories = new Map<string, Memory>();
  readonly #ready: string[] = [];
  readonly #openedAt: number;
  #firing = 0;
  #isClosed = false;

  constructor(options: ScheduleRunnerOptions) {
    this.#options = options;
    // If another node may have run the schedules before, a due time counts as missed only by its lateness, not because it was before this
    // runner started.
    this.#openedAt = options.isShared ? 0 : options.clock.now();
    this.#alarms = new Alarms(options.clock, (id) => {
      this.#ready.push(id);
      this.#fireReady();
    });
  }

  /** Sets the alarm for the next due time of a schedule that was just read. */
  watch(schedule: Schedule): void {
    const { state } = schedule;
    if (state.paused) return;
    const isWaiting = state.queued !== null || state.starting !== null;
    const at = isWaiting ? this.#now : viewSchedule(schedule, state.after, 1).next[0];
    if (at !== undefined) this.#alarms.set(schedule.id, at);
  }

  /** Called when the schedule was changed, or belongs to this node from now on. A start that has begun is decided again. */
  changed(id: string): void {
    if (!this.#options.isMine(id)) return this.drop(id);
    const memory = this.#memories.get(id);
    if (memory !== undefined) memory.begun = null;
    this.#alarms.set(id, this.#now);
  }

  /** Called when the schedule was removed, or belongs to another node from now on. */
  drop(id: string): void {
    const memory = this.#memories.get(id);
    if (memory !== undefined) this.#unwatch(memory);
    this.#memories.delete(id);
    this.#alarms.clear(id);
  }

  /** Stops the runner: no more executions are started. */
  close(): void {
    this.#isClosed = true;
    this.#alarms.close();
    this.#ready.length = 0;
    for (const memory of this.#memories.values()) this.#unwatch(memory);
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  #fireReady(): void {
    while (this.#firing < FIRING_MAX) {
      const id = this.#ready.shift();
      if (id === undefined) return;
      this.#firing++;
      void this.#options.lanes
        .run(id, () => this.#work(id))
        .finally(() => {
          this.#firing--;
          this.#fireReady();
        });
    }
  }

  /** Works on a schedule until nothing is due. If the store or the engine fails, the work is repeated later. */
  async #work(id: string): Promise<void> {
    const memory = this.#memories.get(id) ?? newMemory();
    this.#memories.set(id, memory);
    try {
      let stored = await this.#read(id);
      while (stored !== null && !this.#isClosed && this.#options.isMine(id)) {
        const { schedule, run }: StoredSchedule = stored;
        const decision: Decision = memory.begun ?? (await this.#decide(schedule, memory));
        if (decision.kind === "rest") {
          this.#rest(id, decision, memory);
          break;
        }
        const state: ScheduleState =
          decision.kind === "note" ? decision.state : await this.#fire(stored, decision, memory);
        stored = { schedule: { ...schedule, state }, run };
        // This node no longer owns the schedule. The new owner repeats the start, finds the execution, and stores the progress.
        if (!this.#options.isMine(id)) break;
        await this.#options.schedules.writeProgress(stored);
        memory.begun = null;
      }
      memory.failures = 0;
      if (stored === null || !this.#options.isMine(id)) this.drop(id);
    } catch (thrown) {
      if (thrown instanceof Bug) throw thrown;
      this.#options.onFault(toError(thrown));
      this.#alarms.set(id, this.#now + retryMs(id, memory.failures++));
    }
  }

  /** Reads a schedule. Returns null if it was removed or is damaged; damage is reported. */
  async #read(id: string): Promise<StoredSchedule | null> {
    try {
      return await this.#options.schedules.read(id);
    } catch (thrown) {
      if (!(thrown instanceof DamagedData)) throw thrown;
      this.#options.onFault(damagedFault(damagedSchedule(id, thrown)));
      return null;
    }
  }

  async #decide(schedule: Schedule, memory: Memory): Promise<Decision> {
    const { lastExecution } = schedule.state;
    const isAsked = schedule.overlap !== "allow" && lastExecution !== null;
    // The watch begins before `isOpen` is called, so that an end in between is not missed.
    if (isAsked && schedule.overlap === "queue") this.#awaitEnd(schedule.id, lastExecution, memory);
    const isLastOpen = isAsked && (await this.#options.engine.isOpen(lastExecution));
    return decide(schedule, {
      now: this.#now,
      openedAt: this.#openedAt,
      firedAt: memory.firedAt,
      isLastOpen,
    });
  }

  async #fire({ schedule, run }: StoredSchedule, fire: Fire, memory: Memory): Promise<ScheduleState> {
    memory.begun = fire;
    if (schedule.overlap !== "allow" && schedule.state.starting === null)
      await this.#options.schedules.writeProgress({ schedule: { ...schedule, state: fire.begun }, run });
    const answer = await this.#options.engine.start(startOf(schedule, fire.execution));
    if (isRejection(answer) && PASSING.includes(answer.code)) throw new RondoError(answer);
    memory.firedAt = this.#now;
    if (!isRejection(answer)) return fire.started;
    this.#logRefusal(schedule, answer);
    return refused(fire, answer, this.#now);
  }

  /** Logs a refusal once. It is logged again after a start has succeeded, or if the reason changes. */
  #logRefusal({ id, workflow, state }: Schedule, { code, message }: Rejection): void {
    if (state.lastError?.code === code && state.lastError.message === message) return;
    this.#options.onFault(new Error(`schedule ${id} could not start ${workflow}: ${message} (${code})`));
  }

  #rest(id: string, { until, untilEnd }: Decision & { kind: "rest" }, memory: Memory): void {
    const atLatest = untilEnd ? this.#now + CHECK_MS : Number.POSITIVE_INFINITY;
    const at = Math.min(until ?? Number.POSITIVE_INFINITY, atLatest);
    if (at !== Number.POSITIVE_INFINITY) this.#alarms.set(id, at);
    if (!untilEnd) this.#unwatch(memory);
  }

  #awaitEnd(id: string, execution: string, memory: Memory): void {
    if (memory.awaited === execution || this.#isClosed) return;
    this.#unwatch(memory);
    memory.awaited = execution;
    memory.unwatch = this.#options.engine.onEnd(execution, () => {
      if (memory.awaited !== execution) return;
      this.#unwatch(memory);
      this.#alarms.set(id, this.#now);
    });
  }

  #unwatch(memory: Memory): void {
    memory.unwatch?.();
    memory.unwatch = null;
    memory.awaited = null;
  }
}

export function startOf(spec: Omit<ScheduledStart, "id">, id: string): ScheduledStart {
  const { workflow, input, project, tags } = spec;
  return { id, workflow, input, project, tags };
}

function newMemory(): Memory {
  return { begun: null, firedAt: null, failures: 0, awaited: null, unwatch: null };
}

/** Returns the delay before the work on a schedule is repeated: exponential back-off, with jitter from the schedule's id. */
function retryMs(id: string, failures: number): number {
  return backOffMs(failures, { ...RETRY, random: { u32: () => hashText(`${id}/${failures}`) } });
}
