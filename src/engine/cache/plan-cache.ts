/** An LRU cache of plans by the hashes of their definitions. An evicted plan can be made again: all definitions are in the store. */
import type { Plan } from "../../kernel/definition/plan.ts";

/** The most plans in the cache. There may be many plans, because each submitted command has a definition of its own. */
const PLANS_MAX = 1_024;
/** The most characters of all definitions in the cache. A plan takes several times the memory of its definition's text. */
const CHARS_MAX = 4_194_304;

export class PlanCache {
  readonly #plans = new Map<string, { readonly plan: Plan; readonly chars: number }>();
  #chars = 0;
  #newest: Plan | null = null;

  get(hash: string): Plan | undefined {
    const plan = this.#plans.get(hash)?.plan;
    if (plan !== undefined) this.put(plan);
    return plan;
  }

  put(plan: Plan): void {
    if (plan === this.#newest) return;
    this.#newest = plan;
    const chars = this.#plans.get(plan.hash)?.chars ?? JSON.stringify(plan.definition).length;
    this.#drop(plan.hash);
    this.#plans.set(plan.hash, { plan, chars });
    this.#chars += chars;
    for (const hash of this.#plans.keys()) {
      if (hash === plan.hash || (this.#plans.size <= PLANS_MAX && this.#chars <= CHARS_MAX)) return;
      this.#drop(hash);
    }
  }

  #drop(hash: string): void {
    this.#chars -= this.#plans.get(hash)?.chars ?? 0;
    this.#plans.delete(hash);
  }
}
