/** What simulated code did to the outside: results it produced, steps it executed and was told are journaled. */
import type { Grant } from "../../protocol/work.ts";
import { must } from "../trace.ts";

type At = Pick<Grant, "execution" | "phase" | "visit" | "handler">;

interface OfExecution {
  /** Results by task. */
  readonly produced: Map<string, Set<string>>;
  /** By task and step: the oldest attempt that was told that it is journaled. */
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

  /** Code executes a step or a run: not if an earlier attempt was told that it is journaled. */
  executed(at: At, { task, attempt, name }: { task: number; attempt: number; name: string }): void {
    const by = this.#of(at.execution).acknowledged.get(`${taskKey(at, task)}/${name}`);
    must(
      by === undefined || by >= attempt,
      `${at.execution}/${taskKey(at, task)}: attempt ${attempt} executes ${name} again, which attempt ${by} has done`,
    );
  }

  acknowledged(at: At, { task, attempt, name }: { task: number; attempt: number; name: string }): void {
    const { acknowledged } = this.#of(at.execution);
    const key = `${taskKey(at, task)}/${name}`;
    acknowledged.set(key, Math.min(attempt, acknowledged.get(key) ?? attempt));
  }

  /** The execution is gone; another one may have its id. */
  forget(execution: string): void {
    this.#executions.delete(execution);
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
