/** Tasks that go to workers one at a time, in a queue of their own: what comes back there has taken its worker down. */
import type { TaskCopy } from "../write-message.ts";

export interface LoneTasksParts {
  readonly publish: (task: TaskCopy) => void;
  /** Makes the queue, then calls `made`. */
  readonly make: () => void;
}

export class LoneTasks {
  readonly #parts: LoneTasksParts;
  #waiting: TaskCopy[] = [];
  #underWay: string | null = null;
  #isMaking = false;
  isMade = false;

  constructor(parts: LoneTasksParts) {
    this.#parts = parts;
  }

  add(task: TaskCopy): void {
    if (task.id === this.#underWay || this.#waiting.some(({ id }) => id === task.id)) return;
    this.#waiting.push(task);
    this.#next();
  }

  /** The attempt has ended, one way or the other. */
  ended(id: string): void {
    if (id !== this.#underWay) return;
    this.#underWay = null;
    this.#next();
  }

  /** The queue is there. */
  made(): void {
    this.isMade = true;
    this.#isMaking = false;
    this.#next();
  }

  /** There is a broker again. */
  attach(): void {
    this.#next();
  }

  /** The queue has to be made again. */
  detach(): void {
    this.isMade = false;
    this.#isMaking = false;
  }

  /** Forgets all; gives those that were not published. */
  clear(): readonly TaskCopy[] {
    this.#underWay = null;
    return this.#waiting.splice(0);
  }

  #next(): void {
    if (this.#waiting.length === 0 || this.#underWay !== null) return;
    if (!this.isMade) {
      if (this.#isMaking) return;
      this.#isMaking = true;
      return this.#parts.make();
    }
    const task = this.#waiting.shift() as TaskCopy;
    this.#underWay = task.id;
    this.#parts.publish(task);
  }
}
