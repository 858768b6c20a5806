/**
 * Operations on schedules: create, list, pause, run now. The runner starts their executions. In a cluster every node accepts requests,
 * and the node that owns the partition of a schedule's id runs the schedule. Changes made at other nodes are noticed a little later
 * (schedule-watch.ts).
 */
import { DamagedData } from "../kernel/journal/damage.ts";
import type { Clock } from "../std/clock.ts";
import { type Random, systemRandom } from "../std/random.ts";
import { isRejection, type Rejection, RondoError, reject } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { within } from "../std/within.ts";
import type { Store } from "../store/store.ts";
import { CronTimes } from "./cron-times.ts";
import { Lanes } from "./lanes.ts";
import {
  checkSchedule,
  executionOf,
  keyedExecutionOf,
  newState,
  type Schedule,
  type ScheduleSpec,
  type ScheduleState,
} from "./schedule.ts";
import { type ScheduledStart, type ScheduleEngine, ScheduleRunner, startOf } from "./schedule-runner.ts";
import {
  damagedFault,
  refuseDamaged,
  type ScheduleFilter,
  type SchedulePage,
  ScheduleStore,
  type ScheduleView,
  viewSchedule,
} from "./schedule-store.ts";
import { ScheduleWatch } from "./schedule-watch.ts";
import { StartChecks } from "./start-checks.ts";
import type { StoredSchedule } from "./stored-schedule.ts";

export interface SchedulesOptions extends ScheduleEngine {
  readonly clock: Clock;
  readonly store: Pick<Store, "putDocument" | "getDocument" | "listDocuments" | "getDefinition">;
  /** Checks a start in the way in which the engine would, without starting an execution. */
  readonly check?: (request: ScheduledStart) => Promise<Rejection | null>;
  /** Called when the store or the engine failed. The work is repeated. */
  readonly onFault?: (fault: Error) => void;
  /**
   * Whether this node runs the schedule with this id. If the function is left out, there are no other nodes: this node runs all
   * schedules, and nobody else changes them.
   */
  readonly isMine?: (id: string) => boolean;
  /** Calls `listener` when schedules may have moved to another node. Returns a function that stops the calls. */
  readonly onMoved?: (listener: () => void) => () => void;
  readonly random?: Random;
}

/** The most due times in the range of one backfill. */
const BACKFILL_MAX = 500;

/**
 * The result of a backfill: the number of due times in the range, how many had an execution, how many had none, and how many were
 * started.
 */
export interface Backfilled {
  readonly due: number;
  readonly existed: number;
  readonly missing: number;
  readonly started: number;
}

export class Schedules {
  readonly #options: SchedulesOptions;
  readonly #store: ScheduleStore;
  readonly #checks: StartChecks;
  readonly #lanes = new Lanes();
  readonly #runner: ScheduleRunner;
  /** Notices changes that other nodes make; null if there are no other nodes. */
  readonly #watch: ScheduleWatch | null;
  #isClosed = false;

  private constructor(options: SchedulesOptions) {
    const { clock, onFault = () => undefined, isMine, onMoved = () => () => undefined } = options;
    this.#options = { ...options, ...boundedEngine(options) };
    this.#store = new ScheduleStore(options.store);
    this.#checks = new StartChecks(options.store, options.check);
    this.#runner = new ScheduleRunner({
      clock,
      engine: this.#options,
      schedules: this.#store,
      lanes: this.#lanes,
      onFault,
      isShared: isMine !== undefined,
      isMine: isMine ?? (() => true),
    });
    const { schedules, runner } = { schedules: this.#store, runner: this.#runner };
    this.#watch =
      isMine === undefined ? null : new ScheduleWatch({ clock, schedules, runner, isMine, onMoved, onFault });
  }

  /** Reads all schedules and sets alarms for their due times. */
  static async open(options: SchedulesOptions): Promise<Schedules> {
    const schedules = new Schedules(options);
    if (schedules.#watch !== null) await schedules.#watch.begin();
    else
      for await (const schedule of schedules.#store.all())
        if ("damage" in schedule) options.onFault?.(damagedFault(schedule));
        else schedules.#runner.watch(schedule);
    return schedules;
  }

  /** Creates or changes a schedule. If the schedule is new or its times change, nothing is started for due times before now. */
  async put(data: unknown): Promise<{ schedule: ScheduleView; created: boolean } | Rejection> {
    const spec = checkSchedule(data);
    if (isRejection(spec)) return spec;
    const wrong = await this.#checkStart(spec);
    if (wrong !== null) return wrong;
    return this.#changeAny(spec.id, async (stored) => {
      // If the schedule is damaged, its other documents are removed first, and it begins as a new schedule.
      if (stored instanceof DamagedData) await this.#store.forgetParts(spec.id);
      const now = this.#now;
      const old = stored === null || stored instanceof DamagedData ? null : stored.schedule;
      const state = old?.state ?? newState(now);
      const isTimedAsBefore = old?.cron === spec.cron && old.timeZone === spec.timeZone;
      const schedule: Schedule = {
        ...spec,
        createdAt: old?.createdAt ?? now,
        updatedAt: now,
        ...timedSince(old, isTimedAsBefore ? null : now),
        state: {
          ...state,
          ...(isTimedAsBefore ? {} : { after: Math.max(state.after, now), queued: null }),
          lastError: null,
        },
      };
      await this.#store.write(schedule);
      return { schedule: viewSchedule(schedule, now), created: old === null };
    });
  }

  async get(id: string): Promise<ScheduleView | Rejection> {
    const stored = await this.#read(id);
    if (stored instanceof DamagedData) return refuseDamaged(id, stored);
    return stored === null ? unknown(id) : this.#checked(viewSchedule(stored.schedule, this.#now));
  }

  async list(filter: ScheduleFilter = {}): Promise<SchedulePage | Rejection> {
    const page = await this.#store.list(filter, this.#now);
    if (isRejection(page)) return page;
    return { ...page, data: await Promise.all(page.data.map((schedule) => this.#checked(schedule))) };
  }

  /** Removes a schedule, even a damaged one. Executions that it has started continue. */
  async remove(id: string): Promise<Rejection | null> {
    return this.#changeAny(id, async (old) => {
      if (old === null) return unknown(id);
      await this.#store.remove(id);
      return null;
    });
  }

  async pause(id: string): Promise<ScheduleView | Rejection> {
    return this.#changeState(id, (state) => (state.paused ? state : { ...state, paused: true }));
  }

  /** Resumes a schedule. Nothing is started for due times during the pause. */
  async resume(id: string): Promise<ScheduleView | Rejection> {
    return this.#changeState(id, (state) =>
      state.paused ? { ...state, paused: false, after: Math.max(state.after, this.#now) } : state,
    );
  }

  /** Starts an execution now, regardless of due times, policies and pause. Requests with the same key start one execution. */
  async runNow(
    id: string,
    key: string | null = null,
  ): Promise<{ readonly execution: string; readonly existed: boolean } | Rejection> {
    return this.#change(id, async (stored) => {
      if (stored === null) return unknown(id);
      const { schedule, run: before } = stored;
      const execution = key === null ? this.#idNow(schedule) : keyedExecutionOf(id, key);
      if (key !== null && (await this.#options.exists(execution))) return { execution, existed: true };
      // The manual run is stored before the start, so that the overlap policy takes it into account. If the start fails, the stored entry
      // does no harm.
      if (schedule.overlap !== "allow") await this.#store.writeRun(schedule, { execution, isStarted: false });
      const answer = await this.#options.start(startOf(schedule, execution));
      if (isRejection(answer)) {
        if (schedule.overlap !== "allow") await this.#store.writeRun(schedule, before);
        return answer;
      }
      await this.#store.writeRun(schedule, { execution, isStarted: true });
      return { execution, existed: false };
    });
  }

  /**
   * Starts an execution for each due time of a past range that has none yet. The executions have the ids that they would have had at
   * their due times, so a repeated backfill starts nothing twice. They all start at once, regardless of `overlap`.
   */
  async backfill(
    id: string,
    { from, to, dryRun }: { readonly from: number; readonly to: number; readonly dryRun: boolean },
  ): Promise<Backfilled | Rejection> {
    const stored = await this.#read(id);
    if (stored instanceof DamagedData) return refuseDamaged(id, stored);
    if (stored === null) return unknown(id);
    if (to > this.#now || from > to)
      return reject("invalid_input", "from and to: must be a range in the past", { path: "to" });
    const { schedule } = stored;
    const times = CronTimes.parse(schedule.cron, schedule.timeZone);
    if (isRejection(times)) return times;
    const dues: number[] = [];
    for (let due = times.next(from - 1); due !== null && due <= to; due = times.next(due)) {
      if (dues.length === BACKFILL_MAX)
        return reject("too_large", `the range has more than ${BACKFILL_MAX} due times`, {
          path: "from",
          hint: "choose a shorter range",
        });
      dues.push(due);
    }
    const missing: string[] = [];
    for (const due of dues) {
      const execution = executionOf(id, due);
      if (!(await this.#options.exists(execution))) missing.push(execution);
    }
    const found = { due: dues.length, existed: dues.length - missing.length };
    if (dryRun) return { ...found, started: 0, missing: missing.length };
    let started = 0;
    for (const execution of missing) {
      const answer = await this.#options.start(startOf(schedule, execution));
      if (isRejection(answer)) return answer;
      started++;
    }
    return { ...found, started, missing: missing.length };
  }

  /** Returns the id for an execution that is started by hand. It has the form of an id for a due time, with a time later than the last. */
  #idNow({ id, state }: Schedule): string {
    const last = Number(/~(\d+)(?:-|$)/.exec(state.lastExecution ?? "")?.[1] ?? 0);
    const at = Math.max(this.#now, last + 1);
    // Due times are whole seconds, so no due time has this id.
    const execution = executionOf(id, at % 1_000 === 0 ? at + 1 : at);
    // Another node may handle the same request at the same time, so the id gets a random part.
    return this.#watch === null ? execution : `${execution}-${this.#draw()}`;
  }

  /** Stops all schedules. Resolves when no work is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.close();
    this.#runner.close();
    await this.#lanes.idle();
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  async #checkStart(spec: ScheduleSpec): Promise<Rejection | null> {
    const { store, check } = this.#options;
    if ((await store.getDefinition({ newestOf: spec.workflow })) === null) {
      return reject("not_found", `workflow: there is no workflow "${spec.workflow}"`, {
        path: "workflow",
        hint: "store its definition first (POST /v1/workflows), or run a worker that serves it",
      });
    }
    return (await check?.(startOf(spec, executionOf(spec.id, this.#now)))) ?? null;
  }

  /** Adds to a schedule the reason why its start would be refused, because its workflow may have changed. */
  async #checked(schedule: ScheduleView): Promise<ScheduleView> {
    return { ...schedule, problem: await this.#checks.problemOf(schedule) };
  }

  #changeState(id: string, change: (old: ScheduleState) => ScheduleState): Promise<ScheduleView | Rejection> {
    return this.#change(id, async (stored) => {
      if (stored === null) return unknown(id);
      const { schedule } = stored;
      const changed = { ...schedule, state: change(schedule.state) };
      if (changed.state !== schedule.state) await this.#store.write(changed);
      return viewSchedule(changed, this.#now);
    });
  }

  /** Changes a schedule. Refuses if the schedule is damaged. */
  #change<T>(
    id: string,
    change: (old: StoredSchedule | null) => Promise<T | Rejection>,
  ): Promise<T | Rejection> {
    return this.#changeAny(id, async (old) =>
      old instanceof DamagedData ? refuseDamaged(id, old) : change(old),
    );
  }

  async #read(id: string): Promise<StoredSchedule | DamagedData | null> {
    try {
      return await this.#store.read(id);
    } catch (thrown) {
      if (thrown instanceof DamagedData) return thrown;
      throw thrown;
    }
  }

  /** Changes a schedule after all earlier work on it, then lets the runner decide about it again. */
  #changeAny<T>(
    id: string,
    change: (old: StoredSchedule | DamagedData | null) => Promise<T | Rejection>,
  ): Promise<T | Rejection> {
    if (this.#isClosed) {
      const hint = "try again when the server has started";
      return Promise.resolve(
        reject("not_ready", "schedules are closed, because the server is stopping", { hint }),
      );
    }
    return this.#lanes.run(id, async () => {
      try {
        return await change(await this.#read(id));
      } finally {
        this.#runner.changed(id);
        await this.#mark(id);
      }
    });
  }

  /** Notifies other nodes of a change by the mark. If that fails, they notice the change within a minute. */
  async #mark(id: string): Promise<void> {
    if (this.#watch === null) return;
    try {
      await this.#store.putMark(`${id} ${this.#now} ${this.#draw()}`);
    } catch (thrown) {
      this.#options.onFault?.(toError(thrown));
    }
  }

  #draw(): string {
    return (this.#options.random ?? systemRandom).u32().toString(36);
  }
}

/** How long the work on a schedule waits for an answer of the engine. */
const ENGINE_MS = 30_000;

/**
 * Calls the engine with a time limit. Work on one schedule runs one after the other, so a call without an answer would delay all later
 * requests about that schedule.
 */
function boundedEngine(engine: SchedulesOptions): Pick<ScheduleEngine, "start" | "isOpen" | "exists"> {
  const bounded = <T>(execution: string, work: Promise<T>): Promise<T> =>
    within(engine.clock, ENGINE_MS, work, () => {
      const message = `the engine did not answer the start of execution ${execution} within ${ENGINE_MS / 1_000} s`;
      const hint = "repeat the request with the same Idempotency-Key: it does not start a second execution";
      throw new RondoError(reject("timeout", message, { hint }));
    });
  return {
    start: (request) => bounded(request.id, engine.start(request)),
    isOpen: (execution) => bounded(execution, engine.isOpen(execution)),
    exists: (execution) => bounded(execution, engine.exists(execution)),
  };
}

/** Returns since when a schedule has its present times; null if the times are unchanged. */
function timedSince(old: Schedule | null, now: number | null): { readonly timedSince?: number } {
  const since = old === null ? undefined : (now ?? old.timedSince);
  return since === undefined ? {} : { timedSince: since };
}

function unknown(id: string): Rejection {
  return reject("not_found", `there is no schedule "${id.slice(0, 100)}"`, {
    path: "id",
    hint: "`rondo schedules` lists them",
  });
}
