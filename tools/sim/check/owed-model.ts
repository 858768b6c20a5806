/**
 * A model of the post-operations of an execution, read from the journal. It is simpler than the kernel's and shares no code
 * with it.
 */

import type { Plan } from "../../../src/kernel/definition/plan.ts";
import type { CommandReceipted, PostOpEvent, PostOpRef, PostOpRetried } from "../../../src/kernel/event.ts";
import { must } from "../trace.ts";

interface Owed {
  readonly ref: PostOpRef;
  readonly ended: number;
  readonly until: number;
  /** The task is open until this operation has ended. */
  readonly holds: boolean;
}

interface Written {
  readonly cmd_result_persistence?: unknown;
  readonly cmd_result_broadcasts?: readonly { readonly await?: boolean }[];
}

export class OwedModel {
  readonly #plan: Plan;
  readonly #id: string;
  readonly owed = new Map<string, Owed>();
  /** The ids of finished operations, and of those that were given up. */
  readonly done = new Set<string>();
  /** The newest result of each command, by its step, as JSON text. */
  readonly results = new Map<number, string>();
  /** Broadcasts that were given up, by id. */
  readonly undelivered = new Map<
    string,
    { readonly seq: number; readonly tasks: number[]; readonly ref: PostOpRef }
  >();

  constructor(id: string, plan: Plan) {
    this.#id = id;
    this.#plan = plan;
  }

  /** The post-operations that the definition of a command names. */
  written({ phase, handler }: { phase: string; handler: string }): Written {
    const { command } =
      this.#plan.definition.phases.find(({ name }) => name === phase)?.handlers[handler] ?? {};
    return (command?.cmd_metadata?.["cmd_post_op"] ?? {}) as Written;
  }

  /** Whether the task of a command stays open after its receipt. */
  holds(at: { phase: string; handler: string }): boolean {
    const { cmd_result_persistence: kept, cmd_result_broadcasts: told = [] } = this.written(at);
    return kept !== undefined || told.some((one) => one.await === true);
  }

  receipted(event: CommandReceipted, seq: number, at: number): void {
    if (event.result === null) return;
    this.results.set(event.step, event.result);
    const { phase, visit, handler, task, step } = event;
    this.persist({ phase, visit, handler, task, step, receipt: seq }, at);
  }

  /** Its persistence is owed; without one, its broadcasts are. */
  persist(ref: Omit<PostOpRef, "op" | "index">, at: number): void {
    if (this.written(ref).cmd_result_persistence === undefined) this.#oweBroadcasts(ref, at);
    else this.#owe({ ...ref, op: "persistence", index: 0 }, at, true);
  }

  ended(event: PostOpEvent, seq: number, at: number): void {
    const id = idOf(this.#id, event);
    const owed = this.owed.get(id);
    must(owed !== undefined, `${id}: ends though it is not owed`);
    must(event.attempt === owed.ended + 1, `${id}: try ${event.attempt} ends after ${owed.ended}`);
    must(event.receipt === owed.ref.receipt, `${id}: is about another receipt`);
    if (event.until !== null) {
      must(event.kind === "postop.failed", `${id}: is done and tried again`);
      this.owed.set(id, { ...owed, ended: event.attempt, until: event.until });
      return;
    }
    this.owed.delete(id);
    if (event.kind === "postop.done") {
      must(!this.done.has(id), `${id}: is done twice`);
      this.done.add(id);
      if (event.op === "persistence") this.#oweBroadcasts(event, at);
    } else if (event.op === "broadcast")
      this.undelivered.set(id, { seq, tasks: [event.task], ref: owed.ref });
  }

  /** A broadcast that was given up is requested again. */
  again(event: PostOpRetried, at: number): void {
    const id = idOf(this.#id, event);
    const given = this.undelivered.get(id);
    must(given !== undefined && !this.owed.has(id), `${id}: is asked for again though it was not given up`);
    must(given.ref.receipt === event.receipt, `${id}: is about another receipt`);
    this.undelivered.delete(id);
    // No task waits for it any more.
    this.#owe(given.ref, at, false);
  }

  /** Whether the result of a task may count as done. */
  isSettled(at: { phase: string; visit: number; handler: string }, task: number): boolean {
    for (const { ref, holds } of this.owed.values())
      if (
        holds &&
        ref.phase === at.phase &&
        ref.visit === at.visit &&
        ref.handler === at.handler &&
        ref.task === task
      )
        return false;
    const persistence = idOf(this.#id, { ...at, task, op: "persistence", index: 0 });
    return this.written(at).cmd_result_persistence === undefined || this.done.has(persistence);
  }

  get holdsAny(): boolean {
    for (const { holds } of this.owed.values()) if (holds) return true;
    return false;
  }

  #oweBroadcasts(ref: Omit<PostOpRef, "op" | "index">, at: number): void {
    const { phase, visit, handler, task, step, receipt } = ref;
    this.written(ref).cmd_result_broadcasts?.forEach((one, index) =>
      this.#owe(
        { phase, visit, handler, task, step, receipt, op: "broadcast", index },
        at,
        one.await === true,
      ),
    );
  }

  #owe(ref: PostOpRef, until: number, holds: boolean): void {
    this.owed.set(idOf(this.#id, ref), { ref, ended: 0, until, holds });
  }
}

/** The expected id of a post-operation. */
export function idOf(execution: string, at: Omit<PostOpRef, "step" | "receipt">): string {
  return `${execution}/${at.phase}/${at.visit}/${at.handler}/${at.task}/${at.op}/${at.index}`;
}
