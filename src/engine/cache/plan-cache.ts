/** An LRU cache of plans by their hashes. Slots have references to their own plans, and all definitions are in the store. */
import type { Plan } from "../../kernel/definition/plan.ts";

/** The most plans in the cache: each submitted command has a definition of its own. */
const PLANS_MAX = 1_024;

export class PlanCache {
  readonly #plans = new Map<string, Plan>();
  #newest: Plan | null = null;

  get(hash: string): Plan | undefined {
    const plan = this.#plans.get(hash);
    if (plan !== undefined) this.put(plan);
    return plan;
  }

  put(plan: Plan): void {
    if (plan === this.#newest) return;
    this.#newest = plan;
    this.#plans.delete(plan.hash);
    this.#plans.set(plan.hash, plan);
    if (this.#plans.size <= PLANS_MAX) return;
    const [oldest] = this.#plans.keys();
    if (oldest !== undefined) this.#plans.delete(oldest);
  }
}
