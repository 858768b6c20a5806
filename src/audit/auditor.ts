/**
 * The auditor reads the journal of one execution from its first event and counts everything again, by rules that share no code
 * with the kernel's fold. It compares the result with the totals in the journal and with the state that the node shows. It
 * needs a few bits of memory for each task.
 */
import { COMPENSATION, type Definition } from "../kernel/definition/definition.ts";
import type { Event, Place, Recorded, TasksRetried } from "../kernel/event.ts";
import { GATE_PREFIX } from "../kernel/relay/relay.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { Bitset } from "../std/bitset.ts";
import type { NewestFollower, PageBounds } from "./derived.ts";
import { RunTally, type Scripts, scriptsIn } from "./run-tally.ts";

/** Kinds of findings. `chain`: a row was changed. `differs`: the shown state differs from the counted one. */
export const CODES = [
  "lost",
  "twice",
  "order",
  "counts",
  "timer",
  "child",
  "chain",
  "differs",
  "damaged",
] as const;

/** A violation that the auditor has found. */
export interface Finding {
  readonly code: (typeof CODES)[number];
  /** The number of the event; 0 if the finding is not about an event. */
  readonly seq: number;
  readonly message: string;
  /** Whether the finding was about derived data, which was repaired. */
  readonly isRepaired?: boolean;
}

export interface Audit {
  readonly execution: string;
  readonly events: number;
  readonly tasks: number;
  readonly settled: number;
  /** The number of tasks that have no outcome although their visit ended as done. */
  readonly lost: number;
  /** The number of tasks with more than one outcome. */
  readonly countedTwice: number;
  readonly findings: readonly Finding[];
  /** The number of findings beyond the ones in the list, which has a maximum length. */
  readonly more: number;
}

const FINDINGS_MAX = 100;

interface VisitTally {
  readonly phase: string;
  readonly visit: number;
  status: string;
  readonly handlers: Map<string, HandlerTally>;
}

export class Auditor {
  readonly #execution: string;
  /** Scripts of the definition; null if the definition is not known. */
  #scripts: Scripts | null = null;
  readonly #findings: Finding[] = [];
  #more = 0;
  #seq = 0;
  #lost = 0;
  #twice = 0;
  #status = "";
  /** The status with which the execution ends after its clean-up; null if the clean-up has not begun. */
  #ending: string | null = null;
  /** Whether the clean-up was ended before it was complete. */
  #isCutShort = false;
  #isOver = false;
  #isWhole = true;
  /** The phase that must start next; null if no phase has to start. */
  #next: string | null = null;
  /** During a round that retries chosen tasks: the phase that had to start next before the round; null if there was none. */
  #nextAfterRound: string | null = null;
  #current: VisitTally | null = null;
  readonly #visits = new Map<string, VisitTally>();
  readonly #visitCounts = new Map<string, number>();
  /** Handlers that have a compensation, by phase and name; empty if the definition is not known. */
  #compensated: ReadonlySet<string> = new Set();
  readonly #timers = new Map<string, number>();
  readonly #children = new Map<string, number>();
  /** The newest execution that continues this one under the same id; null if no execution does. */
  #newest: NewestFollower | null = null;
  /** Whether this execution continues an earlier one. The journal of the first execution records all that continue it. */
  #isFollower = false;

  constructor(execution: string) {
    this.#execution = execution;
  }

  /** Applies the next event of the journal. */
  apply({ seq, at, event }: Recorded): void {
    if (this.#isTrimmed(seq, event)) return;
    if (seq !== this.#seq + 1) {
      this.#isWhole = false;
      this.#find(
        "order",
        seq,
        `event ${seq} follows event ${this.#seq} in the journal: events are missing or out of order`,
      );
    }
    this.#seq = seq;
    if (seq === 1 && event.kind !== "created")
      this.#find("order", seq, "the first event of the journal is not `created`");
    if (seq !== 1 && event.kind === "created") this.#find("order", seq, "created a second time");
    if (this.#isOver && !MAY_FOLLOW.test(event.kind))
      this.#find("order", seq, `event ${event.kind} was written after the execution had finished`);
    this.#noteFollower(at, event);
    this.#applyEvent(seq, event);
  }

  #noteFollower(at: number, event: Event): void {
    if (event.kind === "created") this.#isFollower = event.succession !== undefined;
    else if (event.kind === "newest") this.#newest = { isOpen: event.isOpen, at };
    else if (event.kind === "finished" && event.continuedAs !== undefined && !this.#isFollower)
      this.#newest = { isOpen: true, at };
  }

  /** The newest execution that continues this one under the same id; null if no execution does. */
  get newest(): NewestFollower | null {
    return this.#newest;
  }

  /**
   * Whether the event is older than the compaction of a gate's journal (`gate.carried`). Such events are not checked, because compaction
   * deletes them.
   */
  #isTrimmed(seq: number, event: Event): boolean {
    if (this.#seq > 0 || seq === 1 || !this.#execution.startsWith(GATE_PREFIX)) return false;
    if (event.kind !== "gate.carried") return true;
    this.#seq = seq - 1;
    for (const { timer, due } of event.timers) this.#timers.set(timer, due);
    return false;
  }

  /** Sets the stored definition. The auditor checks script runs and compensations against it. */
  addDefinition(definition: string): void {
    this.#scripts = scriptsIn(definition);
    this.#compensated = compensatedIn(definition);
  }

  /** Whether no event is missing in the journal and no row was changed. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get timers(): readonly { readonly timer: string; readonly due: number }[] {
    return [...this.#timers].map(([timer, due]) => ({ timer, due }));
  }

  /** For each mark of opened pages, by its name (derived.ts): the least and the highest value that the journal allows. */
  get pages(): ReadonlyMap<string, PageBounds> {
    const bounds = new Map<string, PageBounds>();
    for (const { phase, visit, handlers } of this.#visits.values())
      for (const [name, tally] of handlers) {
        const [least, most] = [tally.highestDone + 1, Math.max(tally.enumerated, tally.size)];
        bounds.set(`${phase}.${visit}.${name}`, { least, most });
      }
    return bounds;
  }

  /** Skips the events up to this number, because they cannot be read. */
  skipTo(seq: number): void {
    this.#seq = seq;
  }

  /** Adds a finding of the code that reads the journal and checks its chain hashes. */
  find(code: Finding["code"], seq: number, message: string, isRepaired?: boolean): void {
    if (code === "chain") this.#isWhole = false;
    this.#find(code, seq, message, isRepaired);
  }

  /** Compares the status in the stored head with the status by the journal. Both belong to the same revision. */
  compareHead({ status }: { readonly status: string }): void {
    if (status !== this.#status)
      this.#find(
        "differs",
        0,
        `execution lists show the status ${status}, but by the journal it is ${this.#status}`,
      );
  }

  /** Ends the audit and returns its result. `view` is the state that the node shows at the same revision. */
  end(view: ExecutionView | null): Audit {
    if (view !== null) this.#compare(view);
    let [tasks, settled] = [0, 0];
    for (const { handlers } of this.#visits.values())
      for (const tally of handlers.values()) {
        tasks += tally.size - tally.exempt.size;
        settled += tally.done.size + tally.failed.size + tally.cancelled.size;
      }
    return {
      execution: this.#execution,
      events: this.#seq,
      tasks,
      settled,
      lost: this.#lost,
      countedTwice: this.#twice,
      findings: this.#findings,
      more: this.#more,
    };
  }

  #applyEvent(seq: number, event: Event): void {
    switch (event.kind) {
      case "created":
        this.#status = "running";
        return;
      case "moved":
        return this.addDefinition(event.definition);
      case "phase.started":
        return this.#phaseStarted(seq, event.phase, event.visit);
      case "phase.finished":
        return this.#phaseFinished(seq, event);
      case "handler.started":
        return this.#handlerStarted(seq, event);
      case "tasks.started":
      case "tasks.retrying":
      case "tasks.lost":
      case "tasks.waiting":
        return this.#begun(seq, event, event.tasks);
      case "task.waiting":
        return this.#begun(seq, event, [event.task]);
      case "tasks.enumerated":
      case "handler.enumerated":
      case "handler.finished":
      case "tasks.settled":
      case "task.run":
        return this.#ofHandler(seq, event);
      case "timer.set":
        if (this.#timers.has(event.timer))
          this.#find("timer", seq, `timer ${event.timer} is set a second time`);
        this.#timers.set(event.timer, event.due);
        return;
      case "timer.fired":
      case "timer.cleared":
        if (!this.#timers.delete(event.timer))
          this.#find("timer", seq, `timer ${event.timer} ends, but it was not set`);
        return;
      case "child.started":
        this.#children.set(event.child, (this.#children.get(event.child) ?? 0) + 1);
        return this.#begun(seq, event, [event.task]);
      case "child.finished":
        return this.#childFinished(seq, event.child);
      case "paused":
      case "resumed":
      case "cancelling":
        this.#isCutShort ||= event.kind === "cancelling" && (this.#ending !== null || event.force === true);
        this.#status = STATUS_AFTER[event.kind];
        if (this.#ending !== null && event.kind !== "paused") this.#status = "cleaning";
        return;
      case "ending":
        if (this.#ending !== null) this.#find("order", seq, "the execution's clean-up begins a second time");
        this.#ending = event.status;
        this.#next = null;
        if (this.#status !== "paused") this.#status = "cleaning";
        return;
      case "gate.carried":
        if (!isSameTimers(this.#timers, event.timers))
          this.#find(
            "timer",
            seq,
            "the timers that `gate.carried` states differ from those that the gate's journal has set",
          );
        this.#isOver = false;
        this.#status = "running";
        return;
      case "gate.taken":
        // A gate that has ended gets a new event and opens again.
        this.#isOver = false;
        this.#status = "running";
        return;
      case "retried":
        return this.#retried(seq, event);
      case "tasks.retried":
        return this.#tasksRetried(seq, event);
      case "finished":
        return this.#finished(seq, event.status);
      default:
        return;
    }
  }

  #phaseStarted(seq: number, phase: string, visit: number): void {
    if (this.#current?.status === "running")
      this.#find("order", seq, `phase ${phase} starts while ${this.#current.phase} runs`);
    if (this.#next !== null && this.#next !== phase)
      this.#find("order", seq, `phase ${phase} starts, but ${this.#next} must start next`);
    const known = this.#visits.get(keyOf(phase, visit));
    if (this.#ending !== null && known !== undefined && known.status !== "done") {
      this.#current = reopened(known);
      return;
    }
    const due = phase.endsWith(COMPENSATION) ? visit : (this.#visitCounts.get(phase) ?? 0) + 1;
    if (visit !== due)
      this.#find("order", seq, `visit ${visit} of ${phase} starts, but the next visit has to be ${due}`);
    this.#visitCounts.set(phase, visit);
    this.#next = null;
    this.#current = { phase, visit, status: "running", handlers: new Map() };
    this.#visits.set(keyOf(phase, visit), this.#current);
  }

  #phaseFinished(seq: number, event: Extract<Event, { kind: "phase.finished" }>): void {
    const tally = this.#visitOf(seq, event);
    if (tally === null) return;
    if (tally.status !== "running") this.#find("order", seq, `phase ${event.phase} finishes a second time`);
    for (const [name, handler] of tally.handlers)
      if (!handler.isFinished)
        this.#find("order", seq, `phase ${event.phase} finishes before its handler ${name} has finished`);
    tally.status = event.status;
    this.#next = event.next;
    if (event.status !== "done") return;
    for (const [name, handler] of tally.handlers) {
      const settled = handler.done.size + handler.failed.size + handler.cancelled.size;
      const open = handler.size - handler.exempt.size - settled;
      if (open === 0) continue;
      this.#lost += Math.max(0, open);
      this.#find(
        "lost",
        seq,
        `phase ${event.phase} ended as done, but ${open} tasks of its handler ${name} have no outcome`,
      );
    }
  }

  #handlerStarted(seq: number, { phase, visit, handler }: Place): void {
    const tally = this.#visitOf(seq, { phase, visit });
    if (tally === null) return;
    if (tally.handlers.has(handler))
      this.#find("order", seq, `handler ${phase}/${handler} starts a second time`);
    if (!phase.endsWith(COMPENSATION)) {
      tally.handlers.set(handler, new HandlerTally());
      return;
    }
    const origin = this.#visits
      .get(keyOf(phase.slice(0, -COMPENSATION.length), visit))
      ?.handlers.get(handler);
    if (origin === undefined)
      this.#find("order", seq, `${phase}/${handler} compensates a visit, but the journal has no such visit`);
    tally.handlers.set(handler, origin?.compensating() ?? new HandlerTally());
  }

  /** Records that attempts at these tasks have begun. */
  #begun(seq: number, place: Place, tasks: readonly number[]): void {
    const tally = this.#visitOf(seq, place)?.handlers.get(place.handler);
    for (const task of tasks) tally?.begun.add(task);
  }

  #ofHandler(
    seq: number,
    event: Extract<
      Event,
      { kind: "tasks.enumerated" | "handler.enumerated" | "handler.finished" | "tasks.settled" | "task.run" }
    >,
  ): void {
    const book = this.#visitOf(seq, event)?.handlers.get(event.handler);
    const name = `${event.phase}/${event.handler}`;
    if (book === undefined)
      return this.#find(
        "order",
        seq,
        `event ${event.kind} is about the handler ${name}, which has not started`,
      );
    switch (event.kind) {
      case "tasks.enumerated":
        if (event.from !== book.enumerated)
          this.#find(
            "counts",
            seq,
            `${name}: a page of tasks begins at ${event.from}, but ${book.enumerated} tasks were enumerated before it`,
          );
        book.hasPages = true;
        book.enumerated = event.from + event.count;
        if (event.addedBy !== undefined && book.total !== null) book.total = book.enumerated;
        return;
      case "handler.enumerated":
        if (book.hasPages && event.total !== book.enumerated)
          this.#find(
            "counts",
            seq,
            `${name}: its enumeration reports ${event.total} tasks, but its pages have ${book.enumerated}`,
          );
        book.total = event.total;
        return;
      case "tasks.settled":
        for (let i = 0; i < event.tasks.length; i++)
          this.#settled(
            seq,
            { name, tally: book },
            {
              task: event.tasks[i] as number,
              attempt: event.attempts[i] as number,
              status: event.statuses[i] ?? "done",
            },
          );
        return;
      case "handler.finished":
        return this.#handlerFinished(seq, { name, tally: book }, event);
      case "task.run": {
        const wrong = book.runs.note(event, this.#scripts);
        if (wrong !== null) this.#find("order", seq, wrong);
      }
    }
  }

  #settled(
    seq: number,
    { name, tally }: { name: string; tally: HandlerTally },
    { task, attempt, status }: { task: number; attempt: number; status: "done" | "failed" | "cancelled" },
  ): void {
    if (tally.isFinished)
      this.#find("order", seq, `task ${task} of ${name} gets an outcome after its handler finished`);
    if (tally.exempt.has(task))
      this.#find("counts", seq, `task ${task} of ${name} is compensated, although no attempt at it began`);
    const isKnown = tally.hasPages ? task < tally.enumerated : task < (tally.total ?? 1);
    if (!isKnown)
      this.#find("counts", seq, `task ${task} of ${name} gets an outcome, but it was never enumerated`);
    if (attempt > 0) tally.begun.add(task);
    if (!tally.settle(task, status)) return;
    this.#twice++;
    this.#find("twice", seq, `task ${task} of ${name} gets an outcome a second time`);
  }

  #handlerFinished(
    seq: number,
    { name, tally }: { name: string; tally: HandlerTally },
    said: { readonly done: number; readonly failed: number },
  ): void {
    if (tally.isFinished) this.#find("order", seq, `handler ${name} finishes a second time`);
    tally.isFinished = true;
    if (said.done !== tally.done.size || said.failed !== tally.failed.size)
      this.#find(
        "counts",
        seq,
        `the event says that ${name} finished with ${said.done} tasks done and ${said.failed} failed, but by the events of its tasks ${tally.done.size} are done and ${tally.failed.size} failed`,
      );
  }

  #childFinished(seq: number, child: string): void {
    const open = this.#children.get(child) ?? 0;
    if (open <= 0) this.#find("child", seq, `child ${child} ends, but it was never started`);
    this.#children.set(child, open - 1);
  }

  #retried(seq: number, { phase, visit }: { phase: string; visit: number }): void {
    if (!this.#isOver) this.#find("order", seq, "the execution is retried, but it had not finished");
    this.#isOver = false;
    this.#isCutShort = false;
    this.#status = this.#ending === null ? "running" : "cleaning";
    if (this.#ending !== null) return;
    const tally = this.#visits.get(keyOf(phase, visit));
    // If the execution failed before its next phase started, the retry starts that phase and reopens no visit.
    if (tally === undefined || (tally.status === "done" && this.#next !== null)) return;
    this.#current = reopened(tally);
    this.#next = null;
  }

  /** Opens chosen tasks again after a retry. If the execution had ended, their visit is open again too. */
  #tasksRetried(seq: number, { phase, visit, handler, tasks }: TasksRetried): void {
    const tally = this.#visits.get(keyOf(phase, visit));
    const own = tally?.handlers.get(handler);
    if (tally === undefined || own === undefined)
      return this.#find(
        "order",
        seq,
        `tasks of ${phase}/${handler} are retried, but the handler has not begun`,
      );
    for (const task of tasks) {
      const isOpen = own.failed.delete(task) || own.cancelled.delete(task) || !own.done.has(task);
      if (!isOpen) this.#find("counts", seq, `task ${task} is retried, although it was done`);
    }
    own.isFinished = false;
    if (!this.#isOver) return;
    this.#isOver = false;
    // If the execution ended before its next phase started, that phase is next again after the round. If the execution was done, no phase
    // is next.
    this.#nextAfterRound = this.#status === "done" ? null : this.#next;
    this.#next = null;
    this.#status = "running";
    this.#current = tally;
    tally.status = "running";
  }

  #finished(seq: number, status: string): void {
    if (this.#current?.status === "running")
      this.#find("order", seq, `the execution finishes while the phase ${this.#current.phase} runs`);
    if (this.#next !== null && status === "done")
      this.#find("order", seq, `the execution finishes, but the phase ${this.#next} must start next`);
    // If an execution failed before its next phase started, a retry continues with that phase.
    this.#next = status === "done" ? null : (this.#next ?? this.#nextAfterRound);
    this.#nextAfterRound = null;
    for (const timer of this.#timers.keys())
      this.#find("timer", seq, `the execution finishes, but its timer ${timer} is still set`);
    if (this.#ending !== null && this.#ending !== status)
      this.#find(
        "order",
        seq,
        `the execution finishes as ${status}, but its clean-up began for the status ${this.#ending}`,
      );
    if (status !== "done" && !this.#isCutShort) this.#checkCompensated(seq);
    this.#status = status;
    this.#isOver = true;
  }

  /**
   * Checks that each task that needs a compensation has exactly one that ended. A task needs one if its handler has a compensation, and
   * the task is done or may have begun.
   */
  #checkCompensated(seq: number): void {
    for (const { phase, visit, handlers } of this.#visits.values())
      for (const [name, tally] of handlers) {
        if (!this.#compensated.has(`${phase}/${name}`)) continue;
        const undone = this.#visits.get(keyOf(`${phase}${COMPENSATION}`, visit))?.handlers.get(name);
        const left = tally.begun.size - (undone?.done.size ?? 0) - (undone?.failed.size ?? 0);
        if (left === 0) continue;
        this.#lost += Math.max(0, left);
        this.#find("lost", seq, `${left} tasks of visit ${visit} of ${phase}/${name} are not compensated`);
      }
  }

  /** Compares the state that the node shows with the counts. */
  #compare(view: ExecutionView): void {
    const differs = (what: string, shown: string | number, counted: string | number | undefined): void => {
      if (shown !== counted)
        this.#find(
          "differs",
          0,
          `the node shows ${what} as ${shown}, but by the journal it is ${counted ?? "nothing"}`,
        );
    };
    differs("the revision", view.revision, this.#seq);
    differs("the status", view.status, this.#status);
    for (const { name, visit, status, handlers } of view.phases) {
      if (visit === 0) continue;
      const tally = this.#visits.get(keyOf(name, visit));
      differs(`the status of ${name}`, status, tally?.status);
      for (const handler of handlers) {
        const counted = tally?.handlers.get(handler.name);
        differs(`done of ${name}/${handler.name}`, handler.done, counted?.done.size);
        differs(`failed of ${name}/${handler.name}`, handler.failed, counted?.failed.size);
      }
    }
  }

  /** Returns the counts of the visit to which an event belongs. Adds a finding if that visit is not the current one. */
  #visitOf(seq: number, { phase, visit }: { phase: string; visit: number }): VisitTally | null {
    const current = this.#current;
    if (current?.phase === phase && current.visit === visit && current.status === "running") return current;
    this.#find("order", seq, `the event belongs to visit ${visit} of ${phase}, which is not running`);
    return this.#visits.get(keyOf(phase, visit)) ?? null;
  }

  #find(code: Finding["code"], seq: number, message: string, isRepaired?: boolean): void {
    if (this.#findings.length < FINDINGS_MAX)
      this.#findings.push({ code, seq, message, ...(isRepaired === undefined ? {} : { isRepaired }) });
    else this.#more++;
  }
}

/** Returns the handlers of a stored definition that have `compensate`, each as `phase/handler`. */
function compensatedIn(definition: string): ReadonlySet<string> {
  const { phases = [] } = JSON.parse(definition) as Partial<Definition>;
  const found = phases.flatMap(({ name, handlers }) =>
    Object.entries(handlers).flatMap(([key, { compensate }]) =>
      compensate === undefined ? [] : [`${name}/${key}`],
    ),
  );
  return new Set(found);
}

/** Opens the counts of a visit again for another round. Tasks that are not done become open. */
function reopened(tally: VisitTally): VisitTally {
  tally.status = "running";
  for (const handler of tally.handlers.values()) handler.reopen();
  return tally;
}

const MAY_FOLLOW = /^(?:postop\.\w+|tasks\.(?:late|retried)|retried|gate\.(?:taken|carried)|newest)$/;
const STATUS_AFTER = { paused: "paused", resumed: "running", cancelling: "cancelling" } as const;

function keyOf(phase: string, visit: number): string {
  return `${phase}/${visit}`;
}

/** Counts the tasks of one handler in one visit: which tasks exist, and which have an outcome. */
class HandlerTally {
  /** The number of enumerated tasks. */
  enumerated = 0;
  hasPages = false;
  /** The total that the enumeration reported; null before the enumeration ended. */
  total: number | null = null;
  readonly done = new Bitset();
  readonly failed = new Bitset();
  readonly cancelled = new Bitset();
  /** Tasks of which an attempt has begun or may have begun. */
  readonly begun = new Bitset();
  /** Only for a handler that compensates another one: the tasks that never began, so that nothing is to be undone. */
  readonly exempt = new Bitset();
  isFinished = false;
  readonly runs = new RunTally();

  get size(): number {
    if (this.total !== null) return this.total;
    return this.hasPages ? this.enumerated : Math.max(1, this.#highest + 1);
  }

  #highest = -1;
  /** The highest number among the tasks that are done. */
  highestDone = -1;

  /** Counts the outcome of a task. Returns true if the task had an outcome already. */
  settle(task: number, status: "done" | "failed" | "cancelled"): boolean {
    this.#highest = Math.max(this.#highest, task);
    const isSettled = this.done.has(task) || this.failed.has(task) || this.cancelled.has(task);
    if (!isSettled) this[status].add(task);
    if (status === "done") this.highestDone = Math.max(this.highestDone, task);
    this.runs.settled(task, status === "done");
    return isSettled;
  }

  /** Makes the counts for the compensation of this handler's tasks. */
  compensating(): HandlerTally {
    const tally = new HandlerTally();
    tally.total = this.size;
    for (let task = 0; task < this.size; task++) if (!this.begun.has(task)) tally.exempt.add(task);
    return tally;
  }

  /** Begins a new round after a retry: tasks that are not done are open again. */
  reopen(): void {
    for (const set of [this.failed, this.cancelled])
      for (let task = 0; set.size > 0 && task <= this.#highest; task++) set.delete(task);
    this.isFinished = false;
    this.runs.reopen();
  }
}

function isSameTimers(
  told: ReadonlyMap<string, number>,
  carried: readonly { readonly timer: string; readonly due: number }[],
): boolean {
  return told.size === carried.length && carried.every(({ timer, due }) => told.get(timer) === due);
}
