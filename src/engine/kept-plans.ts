import type { Plan } from "../kernel/plan.ts";

/** Compiled definitions by hash, those that were used last; others are read from the store again when they are needed. */
export class KeptPlans {
  readonly #plans = new Map<string, Plan>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get(hash: string): Plan | undefined {
    const plan = this.#plans.get(hash);
    if (plan !== undefined) this.set(hash, plan);
    return plan;
  }

  set(hash: string, plan: Plan): void {
    this.#plans.delete(hash);
    this.#plans.set(hash, plan);
    const [oldest] = this.#plans.keys();
    if (this.#plans.size > this.#max && oldest !== undefined) this.#plans.delete(oldest);
  }
}
