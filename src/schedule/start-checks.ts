/** Checks whether the engine would refuse the starts of schedules, and caches the results. */
import type { Rejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import { executionOf, type Schedule } from "./schedule.ts";
import { type ScheduledStart, startOf } from "./schedule-runner.ts";

/** Returns why the engine would refuse a start; null if it would not. */
export type Problem = Pick<Rejection, "code" | "message"> | null;

const REMEMBERED_MAX = 10_000;

interface Remembered {
  /** The schedule and the definition for which the result was computed. */
  readonly what: string;
  readonly problem: Problem;
}

export class StartChecks {
  readonly #store: Pick<Store, "getDefinition">;
  readonly #check: (request: ScheduledStart) => Promise<Rejection | null>;
  readonly #known = new Map<string, Remembered>();

  constructor(
    store: Pick<Store, "getDefinition">,
    check: ((request: ScheduledStart) => Promise<Rejection | null>) | undefined,
  ) {
    this.#store = store;
    this.#check = check ?? (async () => null);
  }

  async problemOf(schedule: Schedule): Promise<Problem> {
    const { id, workflow, updatedAt } = schedule;
    const definition = await this.#store.getDefinition({ newestOf: workflow });
    if (definition === null) return { code: "not_found", message: `there is no workflow "${workflow}"` };
    const what = `${updatedAt} ${definition.hash}`;
    const known = this.#known.get(id);
    if (known?.what === what) return known.problem;
    const wrong = await this.#check(startOf(schedule, executionOf(id, updatedAt)));
    const problem = wrong === null ? null : { code: wrong.code, message: wrong.message };
    if (this.#known.size >= REMEMBERED_MAX) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(id, { what, problem });
    return problem;
  }
}
