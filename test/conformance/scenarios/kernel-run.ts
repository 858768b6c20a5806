/**
 * An execution of the kernel driven by hand: each call is one message, stepped at `now`. Keeps the whole journal and
 * checks after every step what must always hold.
 */

import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import type { Event, EventKind, PostOpKind, Recorded } from "../../../src/kernel/event.ts";
import type { Execution, HandlerState } from "../../../src/kernel/execution.ts";
import type {
  Answer,
  CheckpointMessage,
  ChildMessage,
  EnumerationOutcome,
  Message,
  Outcome,
  PostOpOutcome,
  Receipt,
  Sent,
  StartMessage,
  TaskWait,
  Verdict,
} from "../../../src/kernel/message.ts";
import { create, step } from "../../../src/kernel/step.ts";
import { childId } from "../../../src/kernel/tasks/children.ts";
import { defined } from "../../../src/std/defined.ts";
import { unwrap } from "../../../src/std/rejection.ts";

export type StartOptions = Partial<
  Pick<StartMessage, "startAt" | "deadline" | "tags" | "input" | "parent" | "trace">
>;

/** What a receipt says, with everything that is not said filled in. */
export interface GivenReceipt extends Partial<Omit<Receipt, "task" | "outcome">>, Partial<Outcome> {}

/** Whose word a checkpoint is: the live attempt's, unless it is said otherwise. */
export type GivenAttempt = Partial<Pick<CheckpointMessage, "attempt" | "round" | "live">>;

/** The event of a kind, also where one shape serves several kinds. */
export type EventOf<K extends EventKind> = Event extends infer E
  ? E extends { kind: infer Kinds }
    ? K extends Kinds
      ? E
      : never
    : never
  : never;

export class KernelRun {
  readonly plan: Plan;
  readonly execution: Execution;
  readonly events: Recorded[] = [];
  /** Everything it owes to other executions, in order. */
  readonly sent: Sent[] = [];
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
    this.sent.push(...created.sent);
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
    this.sent.push(...stepped.sent);
    return stepped.answer;
  }

  last: readonly Recorded[] = [];

  /** The kinds of all events, or of those after a sequence number. */
  kinds(after = 0): EventKind[] {
    return this.events.filter(({ seq }) => seq > after).map(({ event }) => event.kind);
  }

  /** All events of a kind. */
  of<K extends EventKind>(kind: K): EventOf<K>[] {
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

  /** The attempt ends as suspended: the task waits. */
  suspend(
    handler: string,
    task: number,
    given: Partial<TaskWait> & Omit<GivenReceipt, "wait"> = {},
  ): Verdict | undefined {
    const { name = "s", untilMs, forMs, signal, timeoutMs, ...rest } = given;
    const wait = { name, ...defined({ untilMs, forMs, signal, timeoutMs }) };
    return this.receipt(handler, task, { status: "suspended", wait, ...rest });
  }

  /** A step of the live attempt is done. */
  stepDone(
    handler: string,
    task: number,
    given: GivenAttempt & { name?: string; result?: unknown } = {},
  ): Verdict | undefined {
    const { name = "s", result = null, ...attempt } = given;
    const done = { kind: "step" as const, name, result: JSON.stringify(result) };
    return this.#checkpoint(handler, { task, ...attempt }, done);
  }

  /** A run of the live attempt is finished. */
  runDone(
    handler: string,
    task: number,
    given: GivenAttempt & { index?: number | null; name?: string; state?: unknown; oversized?: boolean } = {},
  ): Verdict | undefined {
    const { index = 0, name = `r${index}`, state = null, oversized = false, ...attempt } = given;
    const stats = { durationMs: 3, memoryBytes: 1_000 };
    const done = { kind: "run" as const, name, index, state: JSON.stringify(state), oversized, stats };
    return this.#checkpoint(handler, { task, ...attempt }, done);
  }

  /** The owner asks for the children of these tasks. */
  children(
    handler: string,
    tasks: readonly number[],
    given: { round?: number; input?: string; workflow?: string } = {},
  ): Answer {
    const { round = this.execution.current?.round ?? 1, input = "null", workflow = "kid" } = given;
    return this.send({
      kind: "children",
      ...this.place(handler),
      round,
      workflow,
      hash: "hash-of-kid",
      tasks: tasks.map((task) => ({ task, input })),
    });
  }

  /** The id of the child of a task. */
  childOf(handler: string, task: number): string {
    return childId(this.execution.id, this.place(handler), task);
  }

  /** A child's word that it has ended. */
  childEnded(
    handler: string,
    task: number,
    given: { status?: ChildMessage["status"]; child?: string; payload?: string } = {},
  ): Answer {
    const { status = "done" } = given;
    const payload = status === "done" ? "null" : JSON.stringify({ code: "failed", message: "boom" });
    return this.send({
      kind: "child",
      ...this.place(handler),
      task,
      child: this.childOf(handler, task),
      status,
      payload,
      ...given,
    });
  }

  /** The performer's word on what is owed: the first such operation, done unless it is said otherwise. */
  postOp(
    kind: PostOpKind,
    given: {
      index?: number;
      task?: number;
      attempt?: number;
      error?: string;
      fatal?: true;
      retryAfterMs?: number;
    } = {},
  ): Answer {
    const { index = 0, task, error, fatal, retryAfterMs } = given;
    const owed = [...this.execution.postops.values()].find(
      (op) => op.op === kind && op.index === index && (task === undefined || op.task === task),
    );
    const outcome: PostOpOutcome =
      error === undefined
        ? { kind: "done" }
        : { kind: "failed", error: { name: "Error", message: error }, ...defined({ fatal, retryAfterMs }) };
    return this.send({
      kind: "postop",
      op: owed?.id ?? `nothing/${kind}`,
      attempt: given.attempt ?? (owed?.ended ?? 0) + 1,
      outcome,
    });
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

  /** The receipt of the enumeration: done, with all tasks that are journaled, unless it is said otherwise. */
  seal(handler: string, given: Partial<Outcome> & { attempt?: number; round?: number } = {}): Answer {
    const { attempt, round, ...outcome } = given;
    const state = this.execution.handlerAt(this.place(handler));
    return this.send({
      kind: "enumeration",
      ...this.place(handler),
      attempt: attempt ?? (state?.enumeration.ended ?? 0) + 1,
      round: round ?? this.execution.current?.round ?? 1,
      worker: "w1",
      outcome: {
        status: "done",
        payload: "null",
        total: state?.paged ? state.total : 0,
        ...outcome,
      } as EnumerationOutcome,
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

  control(
    kind: "pause" | "resume" | "cancel" | "retry",
    id = `auto-${++this.#ids}`,
    given: { fromParent?: boolean; by?: string; reason?: string | null } = {},
  ): Answer {
    return this.send({ kind, id, by: "ann", reason: null, ...given });
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

  #checkpoint(
    handler: string,
    given: GivenAttempt & { task: number },
    done: CheckpointMessage["done"],
  ): Verdict | undefined {
    const place = this.place(handler);
    const attempt = this.execution.handlerAt(place)?.tasks.nextAttempt(given.task) ?? 1;
    const round = this.execution.current?.round ?? 1;
    const answer = this.send({ kind: "checkpoint", ...place, attempt, round, live: true, ...given, done });
    return answer.kind === "rejection" ? undefined : answer.verdicts?.[0];
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

/** A phase with one command that is named like it. */
export function command(name: string, postOps: object = {}, handler: object = {}): object {
  const cmd = { cmd_type: name.toUpperCase(), cmd_data: {}, cmd_metadata: { cmd_post_op: postOps } };
  return { name, handlers: { [name]: { command: cmd, topic: `CMD_${name.toUpperCase()}`, ...handler } } };
}

/** A phase with one handler that is named like it. */
export function phase(name: string, handler: object = {}, options: object = {}): object {
  return { name, handlers: { [name]: { use: `w.${name}`, ...handler } }, ...options };
}
