/**
 * Lone tasks: workers get them one at a time, from a separate queue. If a lone task is redelivered too often, it counts as the cause of
 * its worker's crash.
 */
import type { TaskCopy } from "../write-message.ts";

export interface LoneTasksParts {
  readonly publish: (task: TaskCopy) => void;
  /** Declares the queue of lone tasks, then calls `onDeclared`. */
  readonly declare: () => void;
}

export class LoneTasks {
  readonly #parts: LoneTasksParts;
  #waiting: TaskCopy[] = [];
  #underWay: string | null = null;
  #isDeclaring = false;
  isDeclared = false;

  constructor(parts: LoneTasksParts) {
    this.#parts = parts;
  }

  add(task: TaskCopy): void {
    if (task.id === this.#underWay || this.#waiting.some(({ id }) => id === task.id)) return;
    this.#waiting.push(task);
    this.#next();
  }

  onEnded(id: string): void {
    if (id !== this.#underWay) return;
    this.#underWay = null;
    this.#next();
  }

  onDeclared(): void {
    this.isDeclared = true;
    this.#isDeclaring = false;
    this.#next();
  }

  attach(): void {
    this.#next();
  }

  /** Called when the connection is lost: the queue has to be declared again. */
  detach(): void {
    this.isDeclared = false;
    this.#isDeclaring = false;
  }

  /** Drops all lone tasks. Returns those that were not published yet. */
  clear(): readonly TaskCopy[] {
    this.#underWay = null;
    return this.#waiting.splice(0);
  }

  #next(): void {
    if (this.#waiting.length === 0 || this.#underWay !== null) return;
    if (!this.isDeclared) {
      if (this.#isDeclaring) return;
      this.#isDeclaring = true;
      return this.#parts.declare();
    }
    const task = this.#waiting.shift() as TaskCopy;
    this.#underWay = task.id;
    this.#parts.publish(task);
  }
}
