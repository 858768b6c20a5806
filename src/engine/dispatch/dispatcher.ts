/** Decides which handler gets a free worker next: fair across projects, then by priority, then round robin over handlers. */
import type { Wanted } from "../../kernel/definition/plan.ts";
import type { Slot } from "../cache/slot.ts";
import { PriorityHolds } from "../limits/priority-holds.ts";
import type { HandlerQueue } from "./handler-queue.ts";
import type { RosterEntry, WorkerRoster } from "./worker-roster.ts";

/** A handler of an execution with tasks for workers that serve the code `wanted`. */
export interface Ready {
  readonly slot: Slot;
  readonly queue: HandlerQueue;
  readonly wanted: Wanted;
}

/** A queue with cheap removal at the front. */
class Ring {
  readonly wanted: Wanted;
  #items: Ready[] = [];
  #head = 0;

  constructor(wanted: Wanted) {
    this.wanted = wanted;
  }

  /** The number of entries whose executions have left memory; they are skipped. */
  #gone = 0;

  get size(): number {
    return this.#items.length - this.#head - this.#gone;
  }

  push(ready: Ready): void {
    this.#items.push(ready);
  }

  shift(): Ready | undefined {
    for (;;) {
      const ready = this.#items[this.#head];
      if (ready === undefined) {
        this.#gone = 0;
        return undefined;
      }
      this.#head++;
      if (this.#head > 256 && this.#head * 2 > this.#items.length) {
        this.#items = this.#items.slice(this.#head);
        this.#head = 0;
      }
      if (ready.queue.queued.includes(this.wanted.key)) return ready;
      // A withdrawn entry is removed from the ring. It may not be in the count of such entries, if its execution was being loaded
      // again.
      this.#gone = Math.max(0, this.#gone - 1);
    }
  }

  /** Counts an entry whose execution has left memory. Removes all such entries once they are many. */
  leave(): void {
    this.#gone++;
    if (this.#gone < 64 || this.#gone * 2 < this.#items.length - this.#head) return;
    this.#items = this.#items.slice(this.#head).filter(({ queue }) => queue.queued.includes(this.wanted.key));
    this.#head = 0;
    this.#gone = 0;
  }
}

interface Level {
  readonly priority: number;
  readonly rings: Map<string, Ring>;
}

export class Dispatcher {
  /** Projects with ready work, in the order of their turns. */
  readonly #projects = new Map<string, Level[]>();
  size = 0;
  /** Holds for work of higher priority that waits for a commit. */
  readonly holds = new PriorityHolds();

  /** Puts a handler at the end of its ring, unless it is in the ring already. */
  offer(ready: Ready): void {
    const { slot, queue, wanted } = ready;
    const { key } = wanted;
    if (queue.queued.includes(key) || slot.execution === null) return;
    queue.queued.push(key);
    this.#ring(slot.execution.project, queue.state.plan.priority, wanted).push(ready);
    this.size++;
  }

  /** Removes the handlers of an execution that leaves memory. */
  withdraw(slot: Slot): void {
    for (const queue of slot.queues) {
      for (const key of queue.queued.splice(0)) {
        this.size--;
        this.#find(slot.execution?.project ?? "", queue.state.plan.priority, key)?.leave();
      }
    }
  }

  #find(project: string, priority: number, key: string): Ring | undefined {
    const level = this.#projects.get(project)?.find((candidate) => candidate.priority === priority);
    return level?.rings.get(key);
  }

  /** Removes and returns the next handler that this worker can serve, from the project whose turn it is. */
  next(worker: RosterEntry, roster: WorkerRoster): Ready | undefined {
    for (const [project, levels] of this.#projects) {
      if (!worker.isFor(project)) continue;
      const floor = this.holds.isEmpty
        ? Number.NEGATIVE_INFINITY
        : this.holds.floor(project, (wanted) => roster.servedBy(worker, wanted, project) !== undefined);
      for (const level of levels) {
        if (level.priority < floor) break;
        const ready = this.#fromLevel(level, project, { worker, roster });
        if (ready === undefined) continue;
        // A project keeps its turn if no other project has work.
        if (this.#projects.size === 1 && level.rings.size > 0) return ready;
        this.#projects.delete(project);
        const left = level.rings.size > 0 ? levels : levels.filter((other) => other !== level);
        if (left.length > 0) this.#projects.set(project, left);
        return ready;
      }
    }
    return undefined;
  }

  #fromLevel(
    { rings }: Level,
    project: string,
    { worker, roster }: { worker: RosterEntry; roster: WorkerRoster },
  ): Ready | undefined {
    for (const [key, ring] of rings) {
      if (roster.servedBy(worker, ring.wanted, project) === undefined) continue;
      const ready = ring.shift();
      if (ring.size === 0) rings.delete(key);
      else if (rings.size > 1) {
        rings.delete(key);
        rings.set(key, ring);
      }
      if (ready === undefined) continue;
      const { queued } = ready.queue;
      if (queued.length === 1) queued.pop();
      else queued.splice(queued.indexOf(key), 1);
      this.size--;
      return ready;
    }
    return undefined;
  }

  #ring(project: string, priority: number, wanted: Wanted): Ring {
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
    const { key } = wanted;
    let ring = level.rings.get(key);
    if (ring === undefined) {
      ring = new Ring(wanted);
      level.rings.set(key, ring);
    }
    return ring;
  }
}
