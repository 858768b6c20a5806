/**
 * An independent reading of one execution's journal: a second, simpler model of the rules, fed only with durable
 * rows. It shares no code with the kernel's fold; where the two disagree, one of them is wrong.
 */
import type { Event, Recorded } from "../kernel/event.ts";
import type { Plan } from "../kernel/plan.ts";
import { must } from "./trace.ts";

interface HandlerModel {
  total: number;
  sealed: boolean;
  finished: boolean;
  settled: Map<number, { status: string; attempt: number }>;
  ended: Map<number, number>;
  started: Map<number, number>;
  /** Retry times. */
  until: Map<number, number>;
  crashes: Map<number, number>;
  identities: Set<string>;
}

interface VisitModel {
  phase: string;
  visit: number;
  open: boolean;
  status: string;
  handlers: Map<string, HandlerModel>;
}

export class Model {
  readonly id: string;
  readonly plan: Plan;
  seq = 0;
  at = 0;
  status = "running";
  project = "";
  round = 1;
  visit: VisitModel | null = null;
  readonly #origins = new Map<string, VisitModel>();
  readonly #visits = new Map<string, number>();
  readonly #timers = new Map<string, number>();
  readonly ids = new Map<string, number>();
  readonly kinds = new Set<string>();
  readonly #signals = new Map<string, string[]>();
  #next: string | null | undefined;

  constructor(id: string, plan: Plan) {
    this.id = id;
    this.plan = plan;
  }

  get ended(): boolean {
    return this.status === "done" || this.status === "failed" || this.status === "cancelled";
  }

  handler(place: { phase: string; visit: number; handler: string }): HandlerModel | undefined {
    const { visit } = this;
    if (visit === null || visit.phase !== place.phase || visit.visit !== place.visit) return undefined;
    return visit.handlers.get(place.handler);
  }

  /** Reads the next durable event. */
  read({ seq, at, event }: Recorded): void {
    must(seq === this.seq + 1, `${this.id}: sequence numbers are contiguous (${this.seq} then ${seq})`);
    must(at >= this.at, `${this.id}: time does not go back in the journal`);
    this.seq = seq;
    this.at = at;
    this.kinds.add(event.kind);
    if (this.ended)
      must(
        event.kind === "tasks.late" || event.kind === "retried",
        `${this.id}: ${event.kind} after finished`,
      );
    this.#read(event);
  }

  #read(event: Event): void {
    switch (event.kind) {
      case "created":
        this.project = event.project;
        return must(this.seq === 1, `${this.id}: created once`);
      case "phase.started":
        return this.#phaseStarted(event);
      case "handler.started":
        must(
          this.visit?.open === true && !this.visit.handlers.has(event.handler),
          `${this.id}: a handler starts once in an open visit`,
        );
        this.visit.handlers.set(event.handler, newHandler(this.plan, event));
        return;
      case "tasks.enumerated": {
        const handler = this.#at(event);
        must(
          !handler.sealed && event.from === handler.total && event.tasks.length === event.count,
          `${this.id}: pages follow one another`,
        );
        handler.total += event.count;
        for (const identity of event.identities ?? []) {
          must(!handler.identities.has(identity), `${this.id}: identity ${identity} names one task`);
          handler.identities.add(identity);
        }
        return;
      }
      case "handler.enumerated": {
        const handler = this.#at(event);
        must(
          !handler.sealed && (handler.total === event.total || handler.total === 0),
          `${this.id}: enumerated says how many there are`,
        );
        handler.total = event.total;
        handler.sealed = true;
        return;
      }
      case "handler.finished":
        return this.#handlerFinished(event);
      case "phase.finished":
        return this.#phaseFinished(event);
      case "timer.set":
        must(!this.#timers.has(event.timer), `${this.id}: timer ${event.timer} is set once`);
        this.#timers.set(event.timer, event.due);
        return;
      case "timer.fired":
        must(this.#timers.get(event.timer) === event.due, `${this.id}: a timer that fires is armed`);
        must(this.at >= event.due, `${this.id}: timer ${event.timer} fired early`);
        this.#timers.delete(event.timer);
        return;
      case "timer.cleared":
        must(this.#timers.delete(event.timer), `${this.id}: a timer that is cleared is armed`);
        return;
      default:
        return this.#readRest(event);
    }
  }

  #readRest(event: Event): void {
    switch (event.kind) {
      case "tasks.settled":
        return this.#settled(event);
      case "tasks.started":
        return event.tasks.forEach((task, i) => {
          const handler = this.#at(event);
          must(!handler.settled.has(task), `${this.id}: a settled task does not start`);
          handler.started.set(task, event.attempts[i] as number);
        });
      case "tasks.retrying":
      case "tasks.lost":
        return event.tasks.forEach((task, i) => {
          const handler = this.#at(event);
          const attempt = event.attempts[i] as number;
          must(!handler.settled.has(task), `${this.id}: a settled task is not retried`);
          must(
            attempt > (handler.ended.get(task) ?? 0),
            `${this.id}: an attempt ends once (task ${task}, attempt ${attempt})`,
          );
          handler.ended.set(task, attempt);
          handler.started.delete(task);
          handler.until.set(task, event.kind === "tasks.retrying" ? (event.untils[i] as number) : 0);
          if (event.kind === "tasks.lost" || event.reasons[i] === "crashed")
            handler.crashes.set(task, (handler.crashes.get(task) ?? 0) + 1);
        });
      case "handler.retrying":
      case "handler.lost":
        this.#at(event).ended.set(-1, event.attempt);
        return;
      case "signalled": {
        this.#once(event.id);
        const queue = this.#signals.get(event.signal) ?? [];
        queue.push(event.data);
        this.#signals.set(event.signal, queue);
        return;
      }
      case "paused":
      case "resumed":
      case "cancelling":
        this.#once(event.id);
        this.status = event.kind === "resumed" ? "running" : event.kind;
        return;
      case "retried":
        this.#once(event.id);
        return this.#retried(event);
      case "finished":
        must(this.visit === null || !this.visit.open, `${this.id}: finishes with no phase open`);
        must(
          this.#timers.size === 0,
          `${this.id}: finishes with no timer armed (${[...this.#timers.keys()].join()})`,
        );
        this.status = event.status;
        return;
      default:
        return;
    }
  }

  #once(id: string): void {
    must(!this.ids.has(id), `${this.id}: message ${id} is applied once`);
    this.ids.set(id, this.seq);
  }

  #at(place: { phase: string; visit: number; handler: string }): HandlerModel {
    const handler = this.handler(place);
    must(
      handler !== undefined && this.visit?.open === true && !handler.finished,
      `${this.id}: an event names an open handler (${place.phase}/${place.handler})`,
    );
    return handler;
  }

  #phaseStarted(event: { phase: string; visit: number }): void {
    must(this.visit === null || !this.visit.open, `${this.id}: one phase at a time`);
    must(this.status === "running", `${this.id}: a phase starts only while running, not ${this.status}`);
    must(event.visit === (this.#visits.get(event.phase) ?? 0) + 1, `${this.id}: visits are numbered`);
    const expected = this.#next === undefined ? this.plan.phases[0]?.name : this.#next;
    must(expected === event.phase, `${this.id}: ${event.phase} starts where ${expected} was due`);
    this.#visits.set(event.phase, event.visit);
    this.visit = {
      phase: event.phase,
      visit: event.visit,
      open: true,
      status: "running",
      handlers: new Map(),
    };
  }

  #settled(event: Extract<Event, { kind: "tasks.settled" }>): void {
    const handler = this.#at(event);
    const plan = this.plan.byName.get(event.phase);
    const waitFor = plan?.handlers.find(({ name }) => name === event.handler)?.definition.waitFor;
    event.tasks.forEach((task, i) => {
      const attempt = event.attempts[i] as number;
      must(task < Math.max(handler.total, 1), `${this.id}: a settled task exists`);
      must(
        !handler.settled.has(task),
        `${this.id}: task ${event.phase}/${event.handler}#${task} is counted once`,
      );
      handler.settled.set(task, { status: event.statuses[i] as string, attempt });
      handler.started.delete(task);
      if (event.reasons[i] === "signalled") {
        must(
          this.#signals.get(waitFor ?? "")?.shift() === event.payloads[i],
          `${this.id}: a wait takes the oldest signal`,
        );
      }
    });
  }

  #handlerFinished(event: Extract<Event, { kind: "handler.finished" }>): void {
    const handler = this.#at(event);
    const done = [...handler.settled.values()].filter(({ status }) => status === "done").length;
    const failed = handler.settled.size - done;
    must(
      event.done === done && event.failed === failed,
      `${this.id}: ${event.phase}/${event.handler} finished with ${event.done} done, ${done} were settled`,
    );
    if (event.cancelled === 0 && handler.sealed)
      must(
        done + failed === handler.total,
        `${this.id}: a handler finishes when all ${handler.total} tasks are settled (${done + failed})`,
      );
    handler.finished = true;
  }

  #phaseFinished(event: Extract<Event, { kind: "phase.finished" }>): void {
    const { visit } = this;
    must(
      visit?.open === true && visit.phase === event.phase && visit.visit === event.visit,
      `${this.id}: the phase that finishes is open`,
    );
    for (const [name, handler] of visit.handlers) {
      must(handler.finished, `${this.id}: ${event.phase} finishes after ${name}`);
      if (event.status === "done")
        must(
          handler.sealed && handler.settled.size === handler.total,
          `${this.id}: ${event.phase} is done only when ${name} is`,
        );
    }
    visit.open = false;
    visit.status = event.status;
    this.#next = event.next;
    if (event.status === "failed") this.#origins.set(`${event.phase}/${event.visit}`, visit);
  }

  #retried(event: { phase: string; visit: number; round: number }): void {
    must(
      this.status === "failed" || this.status === "cancelled",
      `${this.id}: only what failed or was cancelled is retried`,
    );
    must(event.round === this.round + 1, `${this.id}: rounds are numbered`);
    this.round = event.round;
    this.status = "running";
    const visit =
      this.visit?.phase === event.phase && this.visit.visit === event.visit
        ? this.visit
        : this.#origins.get(`${event.phase}/${event.visit}`);
    if (visit === undefined) {
      must(this.visit === null, `${this.id}: a retry reopens a visit that was`);
      return;
    }
    this.visit = visit;
    // A phase that was done is not opened again if the next one was due.
    visit.open = !(visit.status === "done" && typeof this.#next === "string");
    if (!visit.open) return;
    for (const handler of visit.handlers.values()) {
      handler.finished = false;
      handler.started.clear();
      handler.until.clear();
      handler.crashes.clear();
      for (const [task, { status, attempt }] of [...handler.settled]) {
        if (status === "done") continue;
        handler.settled.delete(task);
        handler.ended.set(task, Math.max(attempt, handler.ended.get(task) ?? 0));
      }
    }
  }
}

function newHandler(plan: Plan, place: { phase: string; handler: string }): HandlerModel {
  const definition = plan.byName
    .get(place.phase)
    ?.handlers.find(({ name }) => name === place.handler)?.definition;
  const isBuiltIn = definition?.sleep !== undefined || definition?.waitFor !== undefined;
  return {
    total: isBuiltIn ? 1 : 0,
    sealed: isBuiltIn,
    finished: false,
    settled: new Map(),
    ended: new Map(),
    started: new Map(),
    until: new Map(),
    crashes: new Map(),
    identities: new Set(),
  };
}
