/** Plans by their hashes, those that were used last: what is in memory has its own, and any other is in the store. */
import type { Plan } from "../../kernel/definition/plan.ts";

/** As many as executions have work in memory: commands that are submitted once have a definition each. */
const PLANS_MAX = 1_024;

export class PlanCache {
  /** The one that was used last is last. */
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
