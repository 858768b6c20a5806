import { PlanCache } from "../../engine/cache/plan-cache.ts";
import { compilePlan, type Plan } from "../../kernel/definition/plan.ts";
import { readDefinition } from "../../kernel/definition/read-definition.ts";
import { isRejection } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";

/** Reads plans from the store by the hash of their definition. Starts that other nodes pass on have only the hash, not the plan. */
export class PlanLoader {
  readonly #store: Pick<Store, "getDefinition">;
  readonly #plans = new PlanCache();

  constructor(store: Pick<Store, "getDefinition">) {
    this.#store = store;
  }

  /** Reads a plan; null if there is no such definition, or this version cannot read it. */
  async plan(hash: string): Promise<Plan | null> {
    const known = this.#plans.get(hash) ?? (await this.#read(hash));
    if (known !== null) this.#plans.put(known);
    return known;
  }

  async #read(hash: string): Promise<Plan | null> {
    const found = await this.#store.getDefinition({ hash });
    if (found === null) return null;
    const definition = readDefinition(found.body, hash);
    return definition === null || isRejection(definition) ? null : compilePlan(definition);
  }
}
