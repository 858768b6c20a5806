/**
 * A model of one execution, read only from durable rows: phases, controls, timers and signals. HandlerModel has the part inside
 * handlers.
 */

import { planOfText } from "../../../src/kernel/apply-moved.ts";
import { NEXT, type Plan, RETURNS } from "../../../src/kernel/definition/plan.ts";
import type {
  Event,
  Finished,
  Parent,
  Published,
  Recorded,
  TaskStep,
  TasksRetried,
} from "../../../src/kernel/event.ts";
import { isUpdate, updateSignal } from "../../../src/kernel/updates.ts";
import { assert } from "../../../src/std/assert.ts";
import type { Json } from "../../../src/std/json.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import { must } from "../trace.ts";
import { ANSWER } from "../workload/program.ts";
import { CleanupModel } from "./cleanup-model.ts";
import { HandlerModel } from "./handler-model.ts";
import { OwedModel } from "./owed-model.ts";
import { SuccessionModel } from "./succession-model.ts";

export interface VisitModel {
  phase: string;
  visit: number;
  firstSeq: number;
  open: boolean;
  status: string;
  /** The round in which it was last open. */
  round: number;
  handlers: Map<string, HandlerModel>;
}

export class Model {
  readonly id: string;
  /** The plan with which the execution was created, and the one that it has now. */
  readonly created: Plan;
  plan: Plan;
  readonly #seed: number;
  seq = 0;
  at = 0;
  status = "running";
  project = "";
  createdAt = 0;
  parent: Parent | null = null;
  output: string | null = null;
  round = 1;
  visit: VisitModel | null = null;
  /** The origin of the pause. */
  pausedBy = "";
  readonly #origins = new Map<string, VisitModel>();
  readonly #visits = new Map<string, number>();
  readonly #timers = new Map<string, number>();
  readonly ids = new Map<string, number>();
  readonly kinds = new Set<string>();
  readonly #signals = new Map<string, { readonly id: string; readonly data: string }[]>();
  /** Tasks that failed for good and that a retry leaves out, by the event that failed them. */
  /** Updates that a wait has taken and that are not answered: names by id. */
  readonly #unanswered = new Map<string, string>();
  /** The values that the code has published, by key. */
  readonly published = new Map<string, Json>();
  deadLetters: { seq: number; tasks: number[]; since: number; isBroadcast?: true }[] = [];
  #next: string | null | undefined;
  /** Visits that have ended. */
  readonly #ended: VisitModel[] = [];
  /** Set in a round of chosen tasks after the end: how it had ended, the visit that was last open, and the phase that was next. */
  #former: {
    readonly status: string;
    readonly visit: VisitModel | null;
    readonly next: string | null | undefined;
  } | null = null;
  /** Whether the last visit that ended did so because all of its tasks were settled, also if it failed: nothing drained. */
  isSettledEnd = false;
  /** The executions before and after this one under its id. */
  readonly chain: SuccessionModel;
  /** The clean-up after the work. */
  readonly cleanup: CleanupModel;

  /** The post-operations of its commands. */
  readonly owes: OwedModel;

  constructor(id: string, plan: Plan, seed: number) {
    this.owes = new OwedModel(id, plan);
    this.cleanup = new CleanupModel(id, plan);
    this.chain = new SuccessionModel(id);
    this.id = id;
    this.created = plan;
    this.plan = plan;
    this.#seed = seed;
  }

  get ended(): boolean {
    return this.status === "done" || this.status === "failed" || this.status === "cancelled";
  }

  /** Whether it has ended and owes no post-operation. */
  get isOver(): boolean {
    return this.ended && this.owes.owed.size === 0;
  }

  /** Whether it only waits for open attempts to end. */
  get isDraining(): boolean {
    if (this.status === "cancelling") return true;
    if (this.ended || this.visit?.open !== true || this.cleanup.ending !== null) return false;
    if (this.#former !== null) return false;
    for (const handler of this.visit.handlers.values()) if (handler.isFailing) return true;
    return false;
  }

  handler(place: { phase: string; visit: number; handler: string }): HandlerModel | undefined {
    const { visit } = this;
    if (visit === null || visit.phase !== place.phase || visit.visit !== place.visit) return undefined;
    return visit.handlers.get(place.handler);
  }

  /** Tasks that a retry can choose, by their places: failed ones, after the end also cancelled ones. */
  get retriable(): { phase: string; visit: number; handler: string; numbers: number[] }[] {
    const found = [];
    for (const { phase, visit, handlers } of this.#ended.length === 0 && this.visit !== null
      ? [this.visit]
      : this.#ended)
      for (const [handler, { settled, total }] of handlers) {
        const numbers = Array.from({ length: total }, (_, task) => task).filter((task) =>
          settled.has(task) ? settled.get(task)?.status === "failed" : this.ended,
        );
        if (numbers.length > 0) found.push({ phase, visit, handler, numbers });
      }
    return found;
  }

  /** The signals that are awaited without a time limit. */
  get awaited(): Set<string> {
    const names = new Set<string>();
    if (this.visit?.open !== true) return names;
    for (const handler of this.visit.handlers.values()) {
      const { mode, definition } = handler.plan;
      if (mode === "waitFor" && handler.settled.size === 0 && definition.timeout === undefined)
        names.add(definition.waitFor as string);
      for (const signal of handler.awaited) names.add(signal);
    }
    return names;
  }

  read({ seq, at, event }: Recorded): void {
    must(seq === this.seq + 1, `${this.id}: sequence numbers are contiguous (${this.seq} then ${seq})`);
    must(at >= this.at, `${this.id}: time does not go back in the journal`);
    this.seq = seq;
    this.at = at;
    this.kinds.add(event.kind);
    if (this.ended)
      must(
        event.kind === "tasks.late" ||
          event.kind === "retried" ||
          event.kind === "tasks.retried" ||
          event.kind === "gate.taken" ||
          event.kind === "gate.carried" ||
          event.kind === "newest" ||
          event.kind.startsWith("postop."),
        `${this.id}: ${event.kind} after finished`,
      );
    this.#read(event);
  }

  #read(event: Event): void {
    switch (event.kind) {
      case "created":
        this.project = event.project;
        this.createdAt = this.at;
        this.parent = event.parent ?? null;
        this.chain.created(event);
        return must(this.seq === 1, `${this.id}: created once`);
      case "phase.started":
        return this.#phaseStarted(event);
      case "handler.started": {
        must(
          this.visit?.open === true && !this.visit.handlers.has(event.handler),
          `${this.id}: a handler starts once in an open visit`,
        );
        const at = `${this.id}: ${event.phase}/${event.handler}`;
        const place = { ...event, execution: this.id };
        const handler = new HandlerModel(planAt(this.plan, event), at, { seed: this.#seed, place });
        const compensated = this.cleanup.compensated(event);
        if (compensated !== null) handler.compensate(compensated);
        this.visit.handlers.set(event.handler, handler);
        return;
      }
      case "tasks.enumerated": {
        const handler = this.#at(event);
        must(
          (!handler.sealed || event.addedBy !== undefined) &&
            event.from === handler.total &&
            event.tasks.length === event.count,
          `${this.id}: pages follow one another`,
        );
        must(
          event.addedBy === undefined || handler.plan.adds,
          `${this.id}: tasks are added where none may be`,
        );
        handler.growth.page(event);
        // In a retry of chosen tasks, the tasks that a chosen one adds run too.
        for (let i = 0; i < event.count; i++) handler.chosen?.add(event.from + i);
        handler.total += event.count;
        handler.keys.push(...(event.keys ?? event.tasks.map(() => undefined)));
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
      case "timer.fired":
      case "timer.cleared":
        return this.#timer(event);
      default:
        return this.#readTasks(event);
    }
  }

  #readStep(event: TaskStep, takeSignal: (name: string, id?: string) => string | undefined): void {
    this.#readUpdate(event);
    this.chain.step(event, this.plan);
    this.#at(event).step(event, { seq: this.seq, now: this.at }, takeSignal);
  }

  /** An update that a wait has taken is answered once, by the step that its code has for it. */
  #readUpdate({ task, name, answers, takes, result, reason }: TaskStep): void {
    if (takes !== undefined && isUpdate(takes.signal)) this.#unanswered.set(takes.id, takes.signal);
    if (answers === undefined)
      return must(
        reason !== "done" || !name.endsWith(ANSWER),
        `${this.id}: the answer ${name} of #${task} names its update`,
      );
    must(this.#unanswered.delete(answers), `${this.id}: update ${answers} is answered once`);
    must(
      result?.includes(`"${answers} by `) === true,
      `${this.id}: update ${answers} has the answer of another`,
    );
  }

  #publish({ values }: Published): void {
    for (const [key, value] of Object.entries(values)) {
      this.published.delete(key);
      if (value !== null) this.published.set(key, value);
    }
  }

  #readTasks(event: Event): void {
    const takeSignal = (name: string, id?: string) => this.#takeSignal(name, id);
    switch (event.kind) {
      case "tasks.settled": {
        const handler = this.#at(event);
        handler.settle(event, takeSignal);
        if (handler.plan.mode === "command")
          event.tasks.forEach((task, i) =>
            must(
              event.statuses[i] !== "done" || this.owes.isSettled(event, task),
              `${this.id}: ${event.phase}/${event.handler}#${task} is done before what it waits for`,
            ),
          );
        const tasks = event.tasks.filter((_, i) => event.statuses[i] === "failed");
        if (tasks.length > 0)
          this.deadLetters.push({ seq: this.seq, tasks, since: this.visit?.firstSeq ?? 0 });
        return;
      }
      case "tasks.started":
        return event.tasks.forEach((task, i) => this.#at(event).start(task, event.attempts[i] as number));
      case "tasks.retrying":
      case "tasks.lost":
        return event.tasks.forEach((task, i) => {
          const reason = event.kind === "tasks.lost" ? "crashed" : event.reasons[i];
          if (event.kind === "tasks.lost") this.#at(event).checkLost(task, event.attempts[i] as number);
          this.#at(event).end(task, event.attempts[i] as number, {
            until: event.kind === "tasks.lost" ? 0 : (event.untils[i] as number),
            burns: reason === "released" ? "nothing" : reason === "crashed" ? "crash" : "attempt",
          });
        });
      case "command.receipted":
        this.#at(event).receipt(event, this.seq, this.owes.holds(event));
        return this.owes.receipted(event, this.seq, this.at);
      case "postop.done":
      case "postop.failed": {
        this.owes.ended(event, this.seq, this.at);
        const isGivenUp = event.kind === "postop.failed" && event.until === null && event.op === "broadcast";
        if (isGivenUp)
          this.deadLetters.push({ seq: this.seq, tasks: [event.task], since: this.seq, isBroadcast: true });
        return;
      }
      case "postop.retried":
        this.#once(event.id);
        return this.owes.again(event, this.at);
      case "tasks.late":
        return this.handler(event)?.late(event);
      case "tasks.retried":
        return this.#tasksRetried(event);
      case "tasks.waiting":
        must(!this.isDraining, `${this.id}: nothing begins to wait while it drains`);
        return this.#at(event).wait(event, this.at);
      case "task.waiting":
        must(!this.isDraining, `${this.id}: nothing begins to wait while it drains`);
        return this.#at(event).waitAll(event, this.at);
      case "task.step":
        return this.#readStep(event, takeSignal);
      case "task.step.retrying":
      case "task.step.failed":
        return this.#at(event).stepFailed(event, this.seq);
      case "task.noted":
        return this.#at(event).noted(event);
      case "task.run":
        return this.#at(event).run(event, this.seq);
      case "task.run.started":
      case "task.run.crashed":
        return this.#at(event).runNotice(event);
      case "tasks.accepted":
        return event.tasks.forEach((task) =>
          must(!this.#at(event).isClosed(task), `${this.id}: a settled task is not accepted`),
        );
      case "child.started":
      case "child.finished":
        if (event.kind === "child.started")
          must(
            (this.status === "running" || (this.status === "paused" && event.name !== undefined)) &&
              !this.isDraining,
            `${this.id}: a child starts only while it runs, not ${this.status}`,
          );
        return this.#at(event).child(event);
      case "handler.retrying":
      case "handler.lost": {
        const handler = this.#at(event);
        handler.ended.set(-1, event.attempt);
        if (event.kind === "handler.retrying" && event.until === null) handler.isHopeless = true;
        return;
      }
      default:
        return this.#readControl(event);
    }
  }

  /** Takes the oldest kept signal of a name, or the one with this id. */
  #takeSignal(name: string, id: string | undefined): string | undefined {
    const queue = this.#signals.get(name) ?? [];
    const at = id === undefined ? 0 : queue.findIndex((kept) => kept.id === id);
    return queue.splice(Math.max(0, at), 1)[0]?.data;
  }

  /** Everything that has begun stays; the plans are those of the new definition. */
  #moved({ id, hash, definition }: Extract<Event, { kind: "moved" }>): void {
    this.#once(id);
    const plan = unwrap(planOfText(definition));
    must(plan.hash === hash, `${this.id}: a move names the definition that it contains`);
    must(this.cleanup.ending === null && !this.ended, `${this.id}: only an open execution is moved`);
    for (const { phase } of [...this.#ended, ...(this.visit === null ? [] : [this.visit])])
      must(plan.byName.has(phase), `${this.id}: is moved to a definition without ${phase}, which has begun`);
    this.plan = plan;
    this.cleanup.moved(plan);
    for (const [name, handler] of this.visit?.handlers ?? []) {
      const after = planAt(plan, { phase: this.visit?.phase ?? "", handler: name });
      handler.moved(after);
    }
  }

  #readControl(event: Event): void {
    switch (event.kind) {
      case "published":
        return this.#publish(event);
      case "signalled": {
        this.#once(event.id);
        const queue = this.#signals.get(event.signal) ?? [];
        queue.push({ id: event.id, data: event.data });
        this.#signals.set(event.signal, queue);
        return;
      }
      case "paused":
      case "resumed":
      case "cancelling":
        this.#once(event.id);
        if (event.kind === "cancelling") this.cleanup.cancelled({ ...event, isDraining: this.isDraining });
        this.status = event.kind === "resumed" ? "running" : event.kind;
        this.pausedBy = event.by;
        return;
      case "moved":
        return this.#moved(event);
      case "continuing":
        if (event.cancel !== undefined) this.#once(event.cancel.id);
        return this.chain.continues(event);
      case "newest":
        return this.chain.told(event);
      case "gate.taken":
      case "gate.carried":
        this.status = "running";
        return;
      case "ending":
        must(this.visit === null || !this.visit.open, `${this.id}: its work ends with no phase open`);
        this.cleanup.begin(event, { seq: this.seq, hasBegun: this.#visits.size > 0 });
        if (this.status === "cancelling") this.status = "running";
        this.#former = null;
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
        this.cleanup.finish(event, { round: this.round, hasBegun: this.#visits.size > 0 });
        if (event.continuedAs === undefined) this.#readUnread(event);
        else this.#signals.clear();
        this.chain.finished(event, this.status === "paused");
        this.#endAgain(event);
        this.status = event.status;
        this.output = event.output;
        return;
      default:
        return;
    }
  }

  #readUnread({ status, unread = [] }: Finished): void {
    const kept = [...this.#signals].filter(([, queue]) => queue.length > 0);
    const unanswered = [...this.#unanswered.values()];
    const names = new Set([...kept.map(([signal]) => signal), ...unanswered]);
    const countOf = (name: string) =>
      (this.#signals.get(name)?.length ?? 0) + unanswered.filter((one) => one === name).length;
    const counts = Array.from(names, (name) => `${countOf(name)} ${name}`).sort();
    const told = unread
      .map(({ signal, count, update }) => `${count} ${update === true ? updateSignal(signal) : signal}`)
      .sort();
    must(told.join() === counts.join(), `${this.id}: says that it kept ${told.join()}, not ${counts.join()}`);
    for (const [signal] of kept)
      must(
        status !== "done" || !this.plan.unread.has(signal),
        `${this.id}: is done with the signal ${signal} unread`,
      );
  }

  #timer(event: Extract<Event, { kind: "timer.set" | "timer.fired" | "timer.cleared" }>): void {
    if (event.kind === "timer.cleared") {
      must(this.#timers.delete(event.timer), `${this.id}: a timer that is cleared is armed`);
    } else if (event.kind === "timer.fired") {
      must(this.#timers.get(event.timer) === event.due, `${this.id}: a timer that fires is armed`);
      must(this.at >= event.due, `${this.id}: timer ${event.timer} fired early`);
      this.#timers.delete(event.timer);
    } else {
      must(!this.#timers.has(event.timer), `${this.id}: timer ${event.timer} is set once`);
      this.#timers.set(event.timer, event.due);
      if (event.purpose !== "task") return;
      const [place = "", wait] = event.timer.split("/");
      const [phase = "", visit = "", handler = "", task = ""] = place.split(".");
      this.#at({ phase, visit: Number(visit), handler }).armed(
        { task: Number(task), wait },
        event.due,
        this.at,
      );
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
    if (this.cleanup.ending !== null) {
      const again = this.cleanup.enter(event, this.round);
      const { phase, visit } = event;
      const fresh = { firstSeq: this.seq, handlers: new Map() };
      this.visit = { ...(again ?? fresh), phase, visit, open: true, status: "running", round: this.round };
      for (const handler of again?.handlers.values() ?? []) handler.reopen();
      return;
    }
    must(event.visit === (this.#visits.get(event.phase) ?? 0) + 1, `${this.id}: visits are numbered`);
    const expected = this.#next === undefined ? this.plan.phases[this.plan.first]?.name : this.#next;
    must(expected === event.phase, `${this.id}: ${event.phase} starts where ${expected} was due`);
    this.#visits.set(event.phase, event.visit);
    const { phase, visit } = event;
    const { round } = this;
    this.visit = {
      phase,
      visit,
      round,
      firstSeq: this.seq,
      open: true,
      status: "running",
      handlers: new Map(),
    };
  }

  /** Forgets dead letters from this event on, because their work is done again. Failed broadcasts stay. */
  #forgetDeadLetters(from: number): void {
    this.deadLetters = this.deadLetters.filter(
      ({ seq, since, isBroadcast }) => seq < from || (since < from && isBroadcast !== true),
    );
    for (const { seq, tasks } of this.owes.undelivered.values())
      if (seq >= from) this.deadLetters.push({ seq, tasks, since: seq, isBroadcast: true });
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
        done + failed === handler.needed,
        `${this.id}: a handler finishes when all ${handler.needed} tasks are settled (${done + failed})`,
      );
    handler.growth.checkComplete();
    must(handler.openRuns.size === 0, `${this.id}: ${event.phase}/${event.handler} ends with a run open`);
    const isOneOpen = [...handler.eachChild()].some(({ isOpen }) => isOpen);
    must(!isOneOpen, `${this.id}: ${event.phase}/${event.handler} ends with a child open`);
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
          handler.sealed && handler.settled.size === handler.needed,
          `${this.id}: ${event.phase} is done only when ${name} is`,
        );
    }
    must(!this.owes.holdsAny, `${this.id}: ${event.phase} ends while post-operations hold tasks open`);
    visit.open = false;
    visit.status = event.status;
    this.isSettledEnd =
      this.status !== "cancelling" && (this.#former !== null || this.cleanup.ending !== null);
    this.#endChosenRound(visit, event);
    if (!this.#ended.includes(visit)) this.#ended.push(visit);
    this.#next = event.next;
    this.cleanup.ended(visit);
    if (event.status === "failed") this.#origins.set(`${event.phase}/${event.visit}`, visit);
  }

  /** After a round of chosen tasks no later phase runs again; one that has not run may, if this visit was the last one. */
  #endChosenRound(visit: VisitModel, { next }: { readonly next: string | null }): void {
    const former = this.#former;
    if (former === null) return;
    if (former.status === "done")
      must(
        next === null || next === RETURNS || this.plan.unread.size > 0,
        `${this.id}: ${next} would run again after a retry of chosen tasks`,
      );
    else if (next !== null)
      must(
        visit.status === "done" &&
          (visit === former.visit || this.#origins.has(`${visit.phase}/${visit.visit}`)),
        `${this.id}: goes on to ${next} after a retry of chosen tasks of another visit`,
      );
    if (next !== null || former.status === "done") this.#former = null;
  }

  /** Without a next phase, an execution ends after a round of chosen tasks as it had ended, or as its last visit did. */
  #endAgain({ status }: Finished): void {
    const former = this.#former;
    const { visit } = this;
    this.#former = null;
    if (former === null || visit === null) return;
    const isLast = visit === former.visit || this.#origins.has(`${visit.phase}/${visit.visit}`);
    must(
      status === former.status ||
        (status === "cancelled" && this.status === "cancelling") ||
        (isLast && status === visit.status),
      `${this.id}: is ${status} after a retry of chosen tasks, and was ${former.status}`,
    );
    // A visit that was done, with the next one due, stays done: a later retry starts the next visit.
    const isDue = former.visit?.status === "done" && typeof former.next === "string";
    if (visit === former.visit && !isDue) return;
    this.visit = former.visit;
    this.#next = former.next;
  }

  #tasksRetried(event: TasksRetried): void {
    if (!this.ids.has(event.id)) this.ids.set(event.id, this.seq);
    const { phase, visit: number, tasks, failures } = event;
    const visit = [this.visit, ...this.#ended].find(
      (one) => one !== null && one.phase === phase && one.visit === number,
    );
    const handler = visit?.handlers.get(event.handler);
    must(
      visit !== undefined && visit !== null && handler !== undefined,
      `${this.id}: retried tasks belong to a visit that began`,
    );
    if (this.ended) {
      must(this.cleanup.ending === null, `${this.id}: chosen tasks are retried after a clean-up`);
      must(event.round === this.round + 1, `${this.id}: rounds are numbered`);
      this.round = event.round;
      this.cleanup.isCutShort = false;
      this.#former = { status: this.status, visit: this.visit, next: this.#next };
      this.status = "running";
      this.visit = visit;
      visit.open = true;
      visit.round = event.round;
      for (const one of visit.handlers.values()) one.leaveOut();
    } else
      must(visit === this.visit && visit.open, `${this.id}: only an open visit is retried while it runs`);
    handler.retry(tasks, this.at);
    for (const task of tasks) {
      const receipt = handler.receipted.get(task)?.seq;
      const step = handler.plan.command?.step ?? 0;
      const at = { phase, visit: number, handler: event.handler };
      if (receipt !== undefined) this.owes.persist({ ...at, step, task, receipt }, this.at);
    }
    tasks.forEach((task, i) => {
      for (const letter of this.deadLetters)
        if (letter.seq === failures[i]) letter.tasks = letter.tasks.filter((one) => one !== task);
    });
    // The rest is written again from the first failure on, with the broadcasts that are still undelivered.
    const from = Math.min(...failures.filter((seq) => seq > 0));
    const undelivered = [...this.owes.undelivered.values()].map(({ seq }) => seq);
    this.deadLetters = this.deadLetters.filter(
      ({ seq, tasks: left, isBroadcast }) =>
        left.length > 0 && (isBroadcast !== true || seq < from || undelivered.includes(seq)),
    );
  }

  #retried(event: { phase: string; visit: number; round: number }): void {
    const { ending } = this.cleanup;
    must(
      this.status === "failed" || this.status === "cancelled" || ending !== null,
      `${this.id}: only what failed or was cancelled is retried`,
    );
    must(event.round === this.round + 1, `${this.id}: rounds are numbered`);
    this.round = event.round;
    this.status = "running";
    this.cleanup.isCutShort = false;
    if (ending !== null) {
      this.#forgetDeadLetters(ending.seq);
      return;
    }
    const visit =
      this.visit?.phase === event.phase && this.visit.visit === event.visit
        ? this.visit
        : this.#origins.get(`${event.phase}/${event.visit}`);
    if (visit === undefined) {
      must(this.visit === null, `${this.id}: a retry reopens a visit that was`);
      return;
    }
    this.visit = visit;
    // A visit that was done is not reopened if the next visit was due.
    visit.open = !(visit.status === "done" && typeof this.#next === "string");
    if (!visit.open) return;
    visit.round = this.round;
    this.#forgetDeadLetters(visit.firstSeq);
    for (const handler of visit.handlers.values()) {
      handler.reopen();
      const { name, command } = handler.plan;
      const at = { phase: visit.phase, visit: visit.visit, handler: name, step: command?.step ?? 0 };
      for (const [task, { seq }] of handler.receipted)
        this.owes.persist({ ...at, task, receipt: seq }, this.at);
    }
  }
}

function planAt(plan: Plan, place: { phase: string; handler: string }) {
  const phase = plan.byName.get(place.phase);
  const found =
    place.handler === NEXT ? phase?.decision : phase?.handlers.find(({ name }) => name === place.handler);
  assert(found, `handler ${place.phase}/${place.handler} is in the plan`);
  return found;
}
