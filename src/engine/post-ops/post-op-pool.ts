/**
 * A pool of places for one kind of post-operation, with a maximum for the node and for each execution. One target may use at most as
 * many places as stay free for others, so targets that hang never use all places. Waiting targets take turns.
 */
import { TransientMap } from "../../std/transient-map.ts";

interface Taken {
  readonly execution: string;
  readonly target: string;
}

export class PostOpPool {
  readonly #max: number;
  readonly #each: number;
  /** Places in use, by the id of the post-operation. */
  readonly #taken = new TransientMap<string, Taken>();
  readonly #perExecution = new Map<string, number>();
  readonly #perTarget = new Map<string, number>();
  /** Executions that wait for a place, by target, oldest first. */
  readonly #waiting = new TransientMap<string, Set<string>>();
  readonly #waits = new Map<string, number>();

  constructor(max: number, each: number) {
    this.#max = max;
    this.#each = each;
  }

  /** Whether a post-operation of the execution has a place or waits for one. */
  has(execution: string): boolean {
    return this.#perExecution.has(execution) || this.#waits.has(execution);
  }

  isUnderWay(id: string): boolean {
    return this.#taken.has(id);
  }

  /** Whether the execution has as many post-operations in progress as allowed. Its other post-operations start when these end. */
  isFullFor(execution: string): boolean {
    // @plant one post-operation too many
    return (this.#perExecution.get(execution) ?? 0) >= this.#each;
  }

  /** Takes a place for a post-operation. If its target has no free place, the execution waits, and the result is false. */
  acquire(id: string, { execution, target }: Taken): boolean {
    if (!this.#hasRoom(target)) {
      this.#wait(execution, target);
      return false;
    }
    this.#taken.set(id, { execution, target });
    add(this.#perExecution, execution, 1);
    add(this.#perTarget, target, 1);
    return true;
  }

  release(id: string): void {
    const taken = this.#taken.get(id);
    if (taken === undefined) return;
    this.#taken.delete(id);
    add(this.#perExecution, taken.execution, -1);
    add(this.#perTarget, taken.target, -1);
  }

  /** Removes and returns the next waiting execution whose target has room; undefined if there is none. */
  next(): string | undefined {
    if (this.#taken.size >= this.#max) return undefined;
    for (const [target, executions] of this.#waiting) {
      if (!this.#hasRoom(target)) continue;
      const [execution] = executions;
      this.#waiting.delete(target);
      if (execution === undefined) continue;
      executions.delete(execution);
      if (executions.size > 0) this.#waiting.set(target, executions);
      add(this.#waits, execution, -1);
      return execution;
    }
    return undefined;
  }

  #hasRoom(target: string): boolean {
    return (this.#perTarget.get(target) ?? 0) < this.#max - this.#taken.size;
  }

  #wait(execution: string, target: string): void {
    let executions = this.#waiting.get(target);
    if (executions === undefined) {
      executions = new Set();
      this.#waiting.set(target, executions);
    }
    if (executions.has(execution)) return;
    executions.add(execution);
    add(this.#waits, execution, 1);
  }
}

function add(counts: Map<string, number>, key: string, n: number): void {
  const count = (counts.get(key) ?? 0) + n;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
