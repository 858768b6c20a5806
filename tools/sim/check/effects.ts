/**
 * The effects of simulated code: the results that it produced, and the steps that it ran and that were acknowledged as
 * journaled.
 */
import type { Grant } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";

type At = Pick<Grant, "execution" | "phase" | "visit" | "handler">;

interface OfExecution {
  /** Results by task. */
  readonly produced: Map<string, Set<string>>;
  /** By task and step: when a worker first got the acknowledgement that the step is journaled. */
  readonly acknowledged: Map<string, number>;
  /** By task and step: the failed tries that were acknowledged, and when. */
  readonly tried: Map<string, { readonly tries: number; readonly at: number }>;
}

export class Effects {
  readonly #executions = new Map<string, OfExecution>();

  /** Called when code succeeded with this result. */
  produced(at: At, task: number, payload: string): void {
    const { produced } = this.#of(at.execution);
    const key = taskKey(at, task);
    const payloads = produced.get(key) ?? new Set();
    payloads.add(payload);
    produced.set(key, payloads);
  }

  wasProduced(at: At, task: number, payload: string): boolean {
    return this.#of(at.execution).produced.get(taskKey(at, task))?.has(payload) === true;
  }

  /**
   * Called when code runs a step or a run of a script. The code must not do so if the step was acknowledged as journaled before
   * this attempt was granted.
   */
  executed(at: At, { task, name, since }: { task: number; name: string; since: number }): void {
    const told = this.#of(at.execution).acknowledged.get(`${taskKey(at, task)}/${name}`);
    must(
      told === undefined || told > since,
      `${at.execution}/${taskKey(at, task)}: executes ${name} again, which was acknowledged as done`,
    );
  }

  /** Called when code tries a step with a budget. Failed tries that were acknowledged before this attempt was granted count. */
  tried(
    at: At,
    { task, name, tries, since }: { task: number; name: string; tries: number; since: number },
  ): void {
    const told = this.#of(at.execution).tried.get(`${taskKey(at, task)}/${name}`);
    must(
      told === undefined || told.at > since || tries > told.tries,
      `${at.execution}/${taskKey(at, task)}: try ${tries} of ${name} again, after ${told?.tries} were acknowledged`,
    );
  }

  /** Called when a worker got the acknowledgement that a failed try is journaled. */
  triedOnce(
    at: At,
    { task, name, tries, now }: { task: number; name: string; tries: number; now: number },
  ): void {
    const { tried } = this.#of(at.execution);
    const key = `${taskKey(at, task)}/${name}`;
    if ((tried.get(key)?.tries ?? 0) < tries) tried.set(key, { tries, at: now });
  }

  /** Called when a new round begins, in which budgets are fresh. */
  freshBudgets(execution: string): void {
    this.#of(execution).tried.clear();
  }

  acknowledged(at: At, { task, name, now }: { task: number; name: string; now: number }): void {
    const { acknowledged } = this.#of(at.execution);
    const key = `${taskKey(at, task)}/${name}`;
    if (!acknowledged.has(key)) acknowledged.set(key, now);
  }

  /**
   * Called when the execution was purged and a new one may get its id. A late result of the first counts for the second too.
   */
  forget(execution: string): void {
    this.#of(execution).acknowledged.clear();
    this.#of(execution).tried.clear();
  }

  #of(execution: string): OfExecution {
    let of = this.#executions.get(execution);
    if (of === undefined) {
      of = { produced: new Map(), acknowledged: new Map(), tried: new Map() };
      this.#executions.set(execution, of);
    }
    return of;
  }
}

function taskKey({ phase, visit, handler }: Omit<At, "execution">, task: number): string {
  return `${phase}.${visit}/${handler}#${task}`;
}
