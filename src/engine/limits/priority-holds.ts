/**
 * Holds for work of higher priority that waits only for the commit of its execution. While a hold exists, workers that serve
 * this work get no work of lower priority of the same project.
 */

import type { Wanted } from "../../kernel/definition/plan.ts";
import { TransientMap } from "../../std/transient-map.ts";

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
  /** Executions whose commits hold back tasks of lower priority, by project, then by priority and wanted code. */
  readonly #holds = new TransientMap<string, Map<string, Hold>>();
  /** The holds of each execution with a commit in progress. */
  readonly #byExecution = new TransientMap<string, readonly Held[]>();

  /** Adds the holds of an execution that waits for its commit. */
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

  /** Removes the holds of an execution after its commit. */
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

  /** Returns the lowest priority whose tasks a worker may get now in this project. */
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
