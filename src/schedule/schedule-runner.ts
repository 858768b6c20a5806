/**
 * Fires schedules: the driver around `decide`. It reads a schedule when its alarm rings, does what is decided, and
 * sets the next alarm; in memory are the alarms, and little about those that have fired.
 *
 * A firing is a start under an id made of the schedule and the due time; only once that is acknowledged is the state
 * stored as fired. So a firing that is repeated, after a crash or a fault, finds the execution that it made before.
 */

import { DamagedData } from "../kernel/journal/damage.ts";
import { Bug } from "../std/assert.ts";
import { backOffMs } from "../std/back-off.ts";
import type { Clock } from "../std/clock.ts";
import type { Json } from "../std/json.ts";
import { hashText } from "../std/random.ts";
import { isRejection, type Rejection, type RejectionCode, RondoError } from "../std/rejection.ts";
import { Alarms } from "./alarms.ts";
import { type Decision, decide, type Fire, refused } from "./decide.ts";
import type { Lanes } from "./lanes.ts";
import type { Schedule, ScheduleState } from "./schedule.ts";
import { damagedFault, damagedSchedule, type ScheduleStore, viewSchedule } from "./schedule-store.ts";
import type { StoredSchedule } from "./stored-schedule.ts";

/** What a firing asks for: like any start, under an id that only the engine makes. */
export interface ScheduledStart {
  readonly id: string;
  readonly workflow: string;
  readonly input: Json;
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** What a runner needs from the engine around it. */
export interface ScheduleEngine {
  /** Starts an execution, or finds the one with this id; resolves once that is durable. Throws faults. */
  start(request: ScheduledStart): Promise<Rejection | { readonly id: string }>;
  /** Whether an execution exists and is not over. */
  isOpen(execution: string): Promise<boolean>;
  /** Whether an execution exists. */
  exists(execution: string): Promise<boolean>;
  /** Calls back when an execution ends; the returned function stops that. */
  onEnd(execution: string, ended: () => void): () => void;
}

export interface ScheduleRunnerOptions {
  readonly clock: Clock;
  readonly engine: ScheduleEngine;
  readonly schedules: ScheduleStore;
  /** What is done about one schedule is done in its lane. */
  readonly lanes: Lanes;
  /** The world failed: it is tried again. */
  readonly onFault: (fault: Error) => void;
  /** Other nodes fire schedules too. */
  readonly isShared: boolean;
  /** Whether this node fires the schedule of an id. */
  readonly isMine: (id: string) => boolean;
}

/** Firings under way at a time. */
const FIRING_MAX = 32;
/** How often it is asked whether an execution that is waited for has ended, in case nobody says so. */
const LOOK_MS = 60_000;
const RETRY = { minMs: 200, maxMs: 30_000 } as const;
/** Refusals that are about the moment, not about the start. */
const PASSING: readonly RejectionCode[] = [
  "not_ready",
  "store_unavailable",
  "rate_limited",
  "timeout",
  "not_owner",
];

/** What is known of a schedule besides its document. */
interface Memory {
  /** A firing that has begun and must be finished before anything else is decided. */
  begun: Fire | null;
  firedAt: number | null;
  failures: number;
  /** The execution whose end is waited for, and how to stop that. */
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
    // Where another node may have watched before, how late it is says whether a due time was missed.
    this.#openedAt = options.isShared ? 0 : options.clock.now();
    this.#alarms = new Alarms(options.clock, (id) => {
      this.#ready.push(id);
      this.#fireReady();
    });
  }

  /** Watches the due times of a schedule as it was just read. */
  watch(schedule: Schedule): void {
    const { state } = schedule;
    if (state.paused) return;
    const isWaiting = state.queued !== null || state.starting !== null;
    const at = isWaiting ? this.#now : viewSchedule(schedule, state.after, 1).next[0];
    if (at !== undefined) this.#alarms.set(schedule.id, at);
  }

  /** The schedule was changed, or is this node's from now on: what had begun is decided anew. */
  changed(id: string): void {
    if (!this.#options.isMine(id)) return this.drop(id);
    const memory = this.#memories.get(id);
    if (memory !== undefined) memory.begun = null;
    this.#alarms.set(id, this.#now);
  }

  /** The schedule is gone, or another node's. */
  drop(id: string): void {
    const memory = this.#memories.get(id);
    if (memory !== undefined) this.#unwatch(memory);
    this.#memories.delete(id);
    this.#alarms.clear(id);
  }

  /** Begins nothing more. */
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

  /** Does what is decided about a schedule until it rests. Faults are caught here and tried again later. */
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
        // Whoever has it now finds what was started, and says so itself.
        if (!this.#options.isMine(id)) break;
        await this.#options.schedules.writeProgress(stored);
        memory.begun = null;
      }
      memory.failures = 0;
      if (stored === null || !this.#options.isMine(id)) this.drop(id);
    } catch (thrown) {
      if (thrown instanceof Bug) throw thrown;
      this.#options.onFault(thrown instanceof Error ? thrown : new Error(String(thrown)));
      this.#alarms.set(id, this.#now + retryMs(id, memory.failures++));
    }
  }

  /** A schedule; null: there is none, or it is damaged, which is told. It is read again when somebody changes it. */
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
    // Watched before it is asked, so that an end in between is not missed.
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
    this.#tellRefusal(schedule, answer);
    return refused(fire, answer, this.#now);
  }

  /** Once, until a start succeeds or is refused for another reason. */
  #tellRefusal({ id, workflow, state }: Schedule, { code, message }: Rejection): void {
    if (state.lastError?.code === code && state.lastError.message === message) return;
    this.#options.onFault(new Error(`schedule ${id} could not start ${workflow}: ${message} (${code})`));
  }

  #rest(id: string, { until, untilEnd }: Decision & { kind: "rest" }, memory: Memory): void {
    const atLatest = untilEnd ? this.#now + LOOK_MS : Number.POSITIVE_INFINITY;
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

/** The start that a schedule asks for, under an id. */
export function startOf(spec: Omit<ScheduledStart, "id">, id: string): ScheduledStart {
  const { workflow, input, project, tags } = spec;
  return { id, workflow, input, project, tags };
}

function newMemory(): Memory {
  return { begun: null, firedAt: null, failures: 0, awaited: null, unwatch: null };
}

/** The wait before a schedule is tried again, with jitter from its id. */
function retryMs(id: string, failures: number): number {
  return backOffMs(failures, { ...RETRY, random: { u32: () => hashText(`${id}/${failures}`) } });
}
