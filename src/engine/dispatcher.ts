/**
 * Who is next: fair across projects, then (within a project, higher priority first) across handlers and the
 * executions that wait in them, in rings. Holds only who is ready; what to give is decided at the desk.
 */
import type { HandlerDesk } from "./handler-desk.ts";
import type { Slot } from "./slot.ts";
import type { RosterEntry } from "./worker-roster.ts";

/** A handler of an execution with something to give out under `use`. */
export interface Ready {
  readonly slot: Slot;
  readonly desk: HandlerDesk;
  readonly use: string;
}

/** A queue with cheap removal at the front. */
class Ring {
  #items: Ready[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(ready: Ready): void {
    this.#items.push(ready);
  }

  shift(): Ready | undefined {
    const ready = this.#items[this.#head];
    if (ready === undefined) return undefined;
    this.#head++;
    if (this.#head > 256 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return ready;
  }
}

interface Level {
  readonly priority: number;
  readonly rings: Map<string, Ring>;
}

export class Dispatcher {
  /** Only what has something ready is here; the order of the map is the order of turns. */
  readonly #projects = new Map<string, Level[]>();
  /** Handlers in the rings. */
  size = 0;

  /** Puts a handler at the end of its ring, once. */
  offer(ready: Ready): void {
    const { slot, desk, use } = ready;
    if (desk.queued.includes(use) || slot.execution === null) return;
    desk.queued.push(use);
    this.#ring(slot.execution.project, desk.state.plan.priority, use).push(ready);
    this.size++;
  }

  /** The next handler this worker can serve, taken out of its ring: from the project whose turn it is. */
  next(worker: RosterEntry): Ready | undefined {
    for (const [project, levels] of this.#projects) {
      for (const level of levels) {
        const ready = this.#fromLevel(level, worker);
        if (ready === undefined) continue;
        this.#projects.delete(project);
        const left = level.rings.size > 0 ? levels : levels.filter((other) => other !== level);
        if (left.length > 0) this.#projects.set(project, left);
        return ready;
      }
    }
    return undefined;
  }

  #fromLevel({ rings }: Level, worker: RosterEntry): Ready | undefined {
    for (const [use, ring] of rings) {
      if (!worker.serves.has(use)) continue;
      const ready = ring.shift();
      rings.delete(use);
      if (ring.size > 0) rings.set(use, ring);
      if (ready === undefined) continue;
      ready.desk.queued.splice(ready.desk.queued.indexOf(use), 1);
      this.size--;
      return ready;
    }
    return undefined;
  }

  #ring(project: string, priority: number, use: string): Ring {
    let levels = this.#projects.get(project);
    if (levels === undefined) {
      levels = [];
      this.#projects.set(project, levels);
    }
    let level = levels.find((candidate) => candidate.priority === priority);
    if (level === undefined) {
      level = { priority, rings: new Map() };
      levels.push(level);
      levels.sort((a, b) => b.priority - a.priority);
    }
    let ring = level.rings.get(use);
    if (ring === undefined) {
      ring = new Ring();
      level.rings.set(use, ring);
    }
    return ring;
  }
}
