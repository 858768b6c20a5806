/**
 * An execution of the kernel driven by hand: each call is one message, stepped at `now`. Keeps the whole journal and
 * checks after every step what must always hold.
 */
import type { Event, EventKind, Recorded } from "../../src/kernel/event.ts";
import type { Execution, HandlerState } from "../../src/kernel/execution.ts";
import type { Answer, Message, Outcome, Receipt, StartMessage, Verdict } from "../../src/kernel/message.ts";
import { parseDefinition } from "../../src/kernel/parse-definition.ts";
import { compilePlan, type Plan } from "../../src/kernel/plan.ts";
import { create, step } from "../../src/kernel/step.ts";
import { unwrap } from "../../src/std/rejection.ts";

export type StartOptions = Partial<Pick<StartMessage, "startAt" | "deadline" | "tags" | "input">>;

/** What a receipt says, with everything that is not said filled in. */
export interface GivenReceipt extends Partial<Omit<Receipt, "task" | "outcome">>, Partial<Outcome> {}

export class KernelRun {
  readonly plan: Plan;
  readonly execution: Execution;
  readonly events: Recorded[] = [];
  now: number;
  #ids = 0;

  /** Starts an execution of a definition, or of the phases of one. */
  constructor(definition: unknown, options: StartOptions & { now?: number; id?: string } = {}) {
    const whole = Array.isArray(definition) ? { name: "w", phases: definition } : definition;
    this.plan = compilePlan(unwrap(parseDefinition(whole)));
    const { now = 1_000, id = "e1", input = "null", tags = {}, ...times } = options;
    this.now = now;
    const { name: workflow } = this.plan.definition;
    const message: StartMessage = {
      kind: "start",
      execution: id,
      workflow,
      hash: this.plan.hash,
      project: "default",
      input,
      tags,
      ...times,
    };
    const created = create(message, this.plan, now);
    this.execution = created.execution;
    this.events.push(...created.events);
  }

  get status(): string {
    return this.execution.status;
  }

  get phase(): string | null {
    return this.execution.ended ? null : (this.execution.current?.plan.name ?? null);
  }

  /** Steps a message; gives its answer. The events it made are `last`. */
  send(message: Exclude<Message, StartMessage>): Answer {
    const stepped = step(this.execution, message, this.now);
    this.last = stepped.events;
    this.events.push(...stepped.events);
    return stepped.answer;
  }

  last: readonly Recorded[] = [];

  /** The kinds of all events, or of those after a sequence number. */
  kinds(after = 0): EventKind[] {
    return this.events.filter(({ seq }) => seq > after).map(({ event }) => event.kind);
  }

  /** All events of a kind. */
  of<K extends EventKind>(kind: K): Extract<Event, { kind: K }>[] {
    return this.events.map(({ event }) => event).filter((event) => event.kind === kind) as never;
  }

  handler(name = this.execution.currentVisit().plan.name): HandlerState {
    const found = this.execution.currentVisit().handler(name);
    if (found === undefined) throw new Error(`no handler ${name} in ${this.phase}`);
    return found;
  }

  receipt(handler: string, task: number, given: GivenReceipt = {}): Verdict | undefined {
    return this.receipts(handler, [{ task, ...given }])?.[0];
  }

  /** Several receipts in one message; `handler` is of the current visit unless it is given as "phase/visit/handler". */
  receipts(
    handler: string,
    given: readonly (GivenReceipt & { task: number })[],
  ): readonly Verdict[] | undefined {
    const place = this.place(handler);
    const state = this.execution.handlerAt(place);
    const receipts = given.map(({ task, attempt, round, live, worker, ms, ...outcome }) => ({
      task,
      attempt: attempt ?? state?.tasks.nextAttempt(task) ?? 1,
      round: round ?? this.execution.current?.round ?? 1,
      live: live ?? true,
      worker: worker ?? "w1",
      ms: ms ?? 5,
      outcome: { status: "done" as const, payload: "null", ...outcome },
    }));
    const answer = this.send({ kind: "receipts", ...place, receipts });
    return answer.kind === "rejection" ? undefined : answer.verdicts;
  }

  done(handler: string, ...tasks: number[]): readonly Verdict[] | undefined {
    return this.receipts(
      handler,
      tasks.map((task) => ({ task })),
    );
  }

  fail(handler: string, task: number, given: GivenReceipt = {}): Verdict | undefined {
    const error = JSON.stringify({ name: "Error", message: "boom" });
    return this.receipt(handler, task, { status: "failed", payload: error, ...given });
  }

  lost(handler: string, ...tasks: number[]): Answer {
    return this.#attempts("lost", handler, tasks);
  }

  started(handler: string, ...tasks: number[]): Answer {
    return this.#attempts("started", handler, tasks);
  }

  page(
    handler: string,
    tasks: readonly unknown[],
    given: { from?: number; attempt?: number; round?: number; keys?: string[]; identities?: string[] } = {},
  ): Answer {
    const state = this.execution.handlerAt(this.place(handler));
    return this.send({
      kind: "page",
      ...this.place(handler),
      attempt: given.attempt ?? (state?.enumeration.ended ?? 0) + 1,
      round: given.round ?? this.execution.current?.round ?? 1,
      from: given.from ?? (state?.paged ? state.total : 0),
      tasks: tasks.map((task) => JSON.stringify(task)),
      keys: given.keys ?? null,
      identities: given.identities ?? null,
    });
  }

  /** The receipt of the enumeration: done unless it is said otherwise. */
  seal(handler: string, given: Partial<Outcome> & { attempt?: number; round?: number } = {}): Answer {
    const { attempt, round, ...outcome } = given;
    const state = this.execution.handlerAt(this.place(handler));
    return this.send({
      kind: "enumeration",
      ...this.place(handler),
      attempt: attempt ?? (state?.enumeration.ended ?? 0) + 1,
      round: round ?? this.execution.current?.round ?? 1,
      worker: "w1",
      outcome: { status: "done", payload: "null", ...outcome },
    });
  }

  enumerationLost(handler: string): Answer {
    const state = this.handler(this.place(handler).handler);
    return this.send({
      kind: "enumeration.lost",
      ...this.place(handler),
      attempt: state.enumeration.ended + 1,
      round: this.execution.current?.round ?? 1,
      worker: "w1",
    });
  }

  signal(name: string, data: unknown = null, id = `auto-${++this.#ids}`): Answer {
    return this.send({ kind: "signal", id, signal: name, data: JSON.stringify(data) });
  }

  control(kind: "pause" | "resume" | "cancel" | "retry", id = `auto-${++this.#ids}`): Answer {
    return this.send({ kind, id, by: "ann", reason: null });
  }

  timer(timer: string): Answer {
    return this.send({ kind: "timer", timer });
  }

  /** The owner's word that nothing of the closing visit is open. */
  drained(): Answer {
    const { current, round } = this.execution;
    return this.send({
      kind: "drained",
      phase: current?.plan.name ?? "",
      visit: current?.visit ?? 0,
      round,
    });
  }

  place(handler: string): { phase: string; visit: number; handler: string } {
    const [phase, visit, name] = handler.split("/");
    if (phase !== undefined && name !== undefined) return { phase, visit: Number(visit), handler: name };
    const { current } = this.execution;
    return { phase: current?.plan.name ?? "", visit: current?.visit ?? 0, handler };
  }

  #attempts(kind: "lost" | "started", handler: string, tasks: readonly number[]): Answer {
    const { tasks: table } = this.handler(this.place(handler).handler);
    return this.send({
      kind,
      ...this.place(handler),
      round: this.execution.current?.round ?? 1,
      attempts: tasks.map((task) => ({ task, attempt: table.nextAttempt(task), worker: "w1" })),
    });
  }
}

/** A phase with one handler that is named like it. */
export function phase(name: string, handler: object = {}, options: object = {}): object {
  return { name, handlers: { [name]: { use: `w.${name}`, ...handler } }, ...options };
}
