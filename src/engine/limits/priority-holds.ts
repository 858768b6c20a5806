/**
 * Work of higher priority that only waits for its execution's commit. While it does, workers that serve it are given
 * nothing of lower priority in its project: it would be first if the commit were made.
 */
import type { Wanted } from "../../kernel/definition/plan.ts";

interface Hold {
  readonly priority: number;
  readonly wanted: Wanted;
  count: number;
}

export interface Held {
  readonly project: string;
  readonly priority: number;
  readonly wanted: Wanted;
}

export class PriorityHolds {
  /** By project, then by priority and what is wanted. */
  readonly #holds = new Map<string, Map<string, Hold>>();
  /** What each execution with a commit under way holds. */
  readonly #byExecution = new Map<string, readonly Held[]>();

  /** An execution waits for its commit, and has this to give out after it. */
  add(execution: string, held: readonly Held[]): void {
    this.remove(execution);
    if (held.length === 0) return;
    this.#byExecution.set(execution, held);
    for (const { project, priority, wanted } of held) {
      const ofProject = this.#holds.get(project) ?? new Map<string, Hold>();
      this.#holds.set(project, ofProject);
      const key = `${priority} ${wanted.key}`;
      const hold = ofProject.get(key) ?? { priority, wanted, count: 0 };
      hold.count++;
      ofProject.set(key, hold);
    }
  }

  /** The commit has a verdict. */
  remove(execution: string): void {
    for (const { project, priority, wanted } of this.#byExecution.get(execution) ?? []) {
      const ofProject = this.#holds.get(project);
      const hold = ofProject?.get(`${priority} ${wanted.key}`);
      if (ofProject === undefined || hold === undefined) continue;
      hold.count--;
      if (hold.count === 0) ofProject.delete(`${priority} ${wanted.key}`);
      if (ofProject.size === 0) this.#holds.delete(project);
    }
    this.#byExecution.delete(execution);
  }

  /** The priority below which a worker is given nothing of the project now. */
  floor(project: string, serves: (wanted: Wanted) => boolean): number {
    let floor = Number.NEGATIVE_INFINITY;
    for (const { priority, wanted } of this.#holds.get(project)?.values() ?? [])
      if (priority > floor && serves(wanted)) floor = priority;
    return floor;
  }

  get isEmpty(): boolean {
    return this.#holds.size === 0;
  }
}
