/**
 * Arrival times of the tasks of open handlers, as far as their journals were read. How long a task waited is measured from its
 * arrival time.
 */

import type { Place } from "../../kernel/event.ts";
import { TransientMap } from "../../std/transient-map.ts";

/** The most executions whose arrival times are kept. Beyond it the oldest are removed, and the waits of their tasks are not measured. */
const EXECUTIONS_MAX = 2_000;
/** The most pages of tasks of one handler. */
const PAGES_MAX = 4_096;

interface Times {
  readonly from: number[];
  readonly at: number[];
}

/** The times at which pages of tasks arrived, for open handlers. The engine can grant the tasks of a page from its arrival on. */
export class PageTimes {
  readonly #executions = new TransientMap<string, Map<string, Times>>();

  begin(execution: string, place: Place, at: number): void {
    const handlers = this.#executions.get(execution) ?? new Map<string, Times>();
    handlers.set(keyOf(place), { from: [0], at: [at] });
    this.#executions.set(execution, handlers);
    if (this.#executions.size <= EXECUTIONS_MAX) return;
    const [oldest] = this.#executions.keys();
    if (oldest !== undefined) this.#executions.delete(oldest);
  }

  add(execution: string, page: Place & { readonly from: number }, at: number): void {
    const times = this.#timesOf(execution, page);
    if (times === undefined || times.from.length >= PAGES_MAX) return;
    if (page.from === 0) times.at[0] = at;
    else {
      times.from.push(page.from);
      times.at.push(at);
    }
  }

  end(execution: string, place: Place): void {
    const handlers = this.#executions.get(execution);
    handlers?.delete(keyOf(place));
    if (handlers?.size === 0) this.#executions.delete(execution);
  }

  forget(execution: string): void {
    this.#executions.delete(execution);
  }

  /** When a task arrived; null if the arrival is not known. */
  find(execution: string, place: Place, task: number): number | null {
    const times = this.#timesOf(execution, place);
    if (times === undefined) return null;
    const i = times.from.findLastIndex((from) => from <= task);
    return times.at[i] ?? null;
  }

  #timesOf(execution: string, place: Place): Times | undefined {
    return this.#executions.get(execution)?.get(keyOf(place));
  }
}

function keyOf({ phase, visit, handler }: Place): string {
  return `${phase}.${visit}.${handler}`;
}
