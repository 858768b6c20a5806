/**
 * The tasks of one handler as bars over time, folded from the journal: attempts, sleeps, waits for signals, back-offs before a retry,
 * steps, runs of scripts and children. A handler with too many bars has none; then only the numbers of its tasks over time are shown.
 */
import type { Event, OpenWait, Place } from "../../kernel/event.ts";

/** The kinds of bars. `step` and `run` are parts of an attempt. */
export const BAR_KINDS = ["attempt", "child", "sleep", "signal", "retry", "step", "run"] as const;
export type BarKind = (typeof BAR_KINDS)[number];

/** The states of bars. `suspended`: the attempt ended because its task waits. */
export const BAR_STATES = ["running", "waiting", "done", "failed", "cancelled", "lost", "suspended"] as const;
export type BarState = (typeof BAR_STATES)[number];

/** A bar. Times are in milliseconds since 1970. */
export interface Bar {
  readonly task: number;
  readonly kind: BarKind;
  /** The name of a step, a run or a wait; the id of a child. */
  readonly name?: string;
  /** The number of the attempt; 0 if the task has none. */
  readonly attempt: number;
  readonly from: number;
  /** When the bar ended; null while it has not ended. */
  to: number | null;
  state: BarState;
  /** When a sleep or a back-off ends. */
  readonly due?: number;
}

/** The most bars of one handler. */
const BARS_MAX = 5_000;

/** An event of a handler, and its time. */
interface Happened<E extends Event = Extract<Event, Place>> {
  readonly event: E;
  readonly at: number;
}

export class TaskBars {
  #bars: Bar[] | null = [];
  /** The bars of each task that have not ended yet. */
  readonly #open = new Map<number, Bar[]>();
  /** The number of the newest ended attempt of each task. */
  readonly #ended = new Map<number, number>();
  /** When each task last continued: after a step, a wait or an attempt. The bar of its next step begins then. */
  readonly #stepAt = new Map<number, number>();

  /** The bars in the order in which they began; null if there are too many. */
  get bars(): readonly Bar[] | null {
    return this.#bars;
  }

  /** The handler itself is a wait: a sleep, or a wait for a signal. */
  wait(kind: "sleep" | "signal", name: string | undefined, at: number): void {
    this.#begin({ task: 0, kind, ...(name === undefined ? {} : { name }), attempt: 0, state: "waiting" }, at);
  }

  apply(event: Extract<Event, Place>, at: number): void {
    if (this.#bars === null) return;
    switch (event.kind) {
      case "tasks.started":
        return event.tasks.forEach((task, i) => this.#start(task, event.attempts[i] ?? 0, at));
      case "tasks.settled":
        return event.tasks.forEach((task, i) => {
          const state = event.statuses[i] ?? "done";
          this.#end(task, { attempt: event.attempts[i] ?? 0, state, ms: event.ms[i] ?? 0, at });
        });
      case "tasks.retrying":
        return event.tasks.forEach((task, i) => {
          const attempt = event.attempts[i] ?? 0;
          const isReleased = event.reasons[i] === "released";
          this.#end(task, { attempt, state: isReleased ? "cancelled" : "failed", ms: 0, at });
          const due = event.untils[i] ?? at;
          if (!isReleased) this.#begin({ task, kind: "retry", attempt, state: "waiting", due }, at);
        });
      case "tasks.lost":
        return event.tasks.forEach((task, i) =>
          this.#end(task, { attempt: event.attempts[i] ?? 0, state: "lost", ms: 0, at }),
        );
      case "tasks.waiting":
        return event.tasks.forEach((task, i) => {
          const signal = event.signals[i] ?? null;
          const due = event.dues[i] ?? 0;
          const wait = { name: event.names[i] ?? "", ...(signal === null ? { due } : { signals: [signal] }) };
          this.#suspend(task, event.attempts[i] ?? 0, [wait], at);
        });
      case "task.waiting":
        return this.#suspend(event.task, event.attempt, event.waits, at);
      case "handler.finished":
        for (const task of this.#open.keys()) this.#close(task, "cancelled", at);
        return;
      default:
        return this.#part({ event, at });
    }
  }

  /** Applies the events of steps, runs and children. */
  #part({ event, at }: Happened): void {
    switch (event.kind) {
      case "task.step":
        // The answer to a wait: the task continues.
        if (event.reason !== "done") {
          this.#stepAt.set(event.task, at);
          return this.#close(event.task, event.error === null ? "done" : "failed", at);
        }
        return this.#step(event, "done", at);
      case "task.step.retrying":
        this.#step(event, "failed", at);
        this.#stepAt.set(event.task, event.until);
        return;
      case "task.step.failed":
        return this.#step(event, "failed", at);
      case "task.run.started": {
        const { task, attempt, name } = event;
        return this.#begin({ task, kind: "run", name, attempt, state: "running" }, at);
      }
      case "task.run":
      case "task.run.crashed": {
        const begun = this.#open
          .get(event.task)
          ?.find(({ kind, name }) => kind === "run" && name === event.name);
        if (begun !== undefined)
          return this.#finish(begun, event.kind === "task.run" ? "done" : "failed", at);
        const { task, attempt, name, stats } = event;
        const state = event.kind === "task.run" ? "done" : "failed";
        return this.#add({
          task,
          kind: "run",
          name,
          attempt,
          from: at - (stats?.durationMs ?? 0),
          to: at,
          state,
        });
      }
      case "child.started": {
        const { task, attempt, child } = event;
        this.#close(task, "done", at);
        return this.#begin({ task, kind: "child", name: child, attempt, state: "running" }, at);
      }
      case "child.finished":
        return this.#end(event.task, { attempt: event.attempt, state: event.status ?? "done", ms: 0, at });
      default:
    }
  }

  #start(task: number, attempt: number, at: number): void {
    // The start of an attempt is recorded again when another node adopts the attempt. The second start is ignored.
    if (this.#open.get(task)?.some((bar) => bar.kind === "attempt" && bar.attempt === attempt) === true)
      return;
    this.#close(task, "done", at);
    this.#stepAt.set(task, at);
    this.#begin({ task, kind: "attempt", attempt, state: "running" }, at);
  }

  /** Ends an attempt. If its start is not in the journal, its bar is as long as the attempt took, as far as that is known. */
  #end(
    task: number,
    { attempt, state, ms, at }: { attempt: number; state: BarState; ms: number; at: number },
  ): void {
    const isOpen = this.#open.get(task)?.some(({ kind }) => kind === "attempt" || kind === "child") ?? false;
    const isKnown = isOpen || attempt <= (this.#ended.get(task) ?? 0);
    this.#close(task, state, at);
    if (!isKnown) this.#add({ task, kind: "attempt", attempt, from: at - ms, to: at, state });
    this.#ended.set(task, Math.max(attempt, this.#ended.get(task) ?? 0));
    this.#stepAt.set(task, at);
  }

  /**
   * The start of an attempt can be recorded in the commit of its first step, after it. The attempt began when its task could go
   * on: at the end of a sleep, a back-off or an answered wait.
   */
  #resume(task: number, attempt: number, at: number): void {
    const open = this.#open.get(task) ?? [];
    if (open.some(({ kind }) => kind === "attempt")) return;
    const ready = open.reduce((last, { due }) => Math.max(last, due ?? 0), this.#stepAt.get(task) ?? at);
    this.#start(task, attempt, Math.min(at, ready));
  }

  #suspend(task: number, attempt: number, waits: readonly OpenWait[], at: number): void {
    this.#end(task, { attempt, state: "suspended", ms: 0, at });
    for (const { name, due, retry, signals } of waits)
      this.#begin(
        {
          ...{ task, attempt, name, state: "waiting" },
          kind: retry === true ? "retry" : signals === undefined ? "sleep" : "signal",
          ...(due === undefined ? {} : { due }),
        },
        at,
      );
  }

  #step(
    { task, attempt, name }: { task: number; attempt: number; name: string },
    state: BarState,
    at: number,
  ): void {
    this.#resume(task, attempt, at);
    const from = Math.min(at, this.#stepAt.get(task) ?? at);
    this.#add({ task, kind: "step", name, attempt, from, to: at, state });
    this.#stepAt.set(task, at);
  }

  #begin(bar: Omit<Bar, "from" | "to">, at: number): void {
    const begun = { ...bar, from: at, to: null };
    const open = this.#open.get(bar.task);
    if (open === undefined) this.#open.set(bar.task, [begun]);
    else open.push(begun);
    this.#add(begun);
  }

  /** Ends all bars of a task. Sleeps and back-offs end as done, whatever the outcome of the attempt is, unless the task is cancelled. */
  #close(task: number, state: BarState, at: number): void {
    for (const bar of this.#open.get(task) ?? []) {
      const isPause = bar.kind === "sleep" || bar.kind === "retry";
      bar.to = at;
      bar.state = isPause && state !== "cancelled" ? "done" : state;
    }
    this.#open.delete(task);
  }

  #finish(bar: Bar, state: BarState, at: number): void {
    bar.to = at;
    bar.state = state;
    this.#open.set(bar.task, this.#open.get(bar.task)?.filter((one) => one !== bar) ?? []);
  }

  #add(bar: Bar): void {
    if (this.#bars === null) return;
    this.#bars.push(bar);
    if (this.#bars.length <= BARS_MAX) return;
    this.#bars = null;
    this.#open.clear();
    this.#ended.clear();
    this.#stepAt.clear();
  }
}
