/** What simulated code did to the outside: results it produced, steps it executed and was told are journaled. */
import type { Grant } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";

type At = Pick<Grant, "execution" | "phase" | "visit" | "handler">;

interface OfExecution {
  /** Results by task. */
  readonly produced: Map<string, Set<string>>;
  /** By task and step: when a worker was first told that it is journaled. */
  readonly acknowledged: Map<string, number>;
}

export class Effects {
  readonly #executions = new Map<string, OfExecution>();

  /** Code ended well with this result. */
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

  /** Code executes a step or a run: not if that was told to be journaled before this attempt was given out. */
  executed(at: At, { task, name, since }: { task: number; name: string; since: number }): void {
    const told = this.#of(at.execution).acknowledged.get(`${taskKey(at, task)}/${name}`);
    must(
      told === undefined || told > since,
      `${at.execution}/${taskKey(at, task)}: executes ${name} again, which was acknowledged as done`,
    );
  }

  acknowledged(at: At, { task, name, now }: { task: number; name: string; now: number }): void {
    const { acknowledged } = this.#of(at.execution);
    const key = `${taskKey(at, task)}/${name}`;
    if (!acknowledged.has(key)) acknowledged.set(key, now);
  }

  /** The execution is gone, and another one may get its id. A late result of the first counts for that one too. */
  forget(execution: string): void {
    this.#of(execution).acknowledged.clear();
  }

  #of(execution: string): OfExecution {
    let of = this.#executions.get(execution);
    if (of === undefined) {
      of = { produced: new Map(), acknowledged: new Map() };
      this.#executions.set(execution, of);
    }
    return of;
  }
}

function taskKey({ phase, visit, handler }: Omit<At, "execution">, task: number): string {
  return `${phase}.${visit}/${handler}#${task}`;
}
