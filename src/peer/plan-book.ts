import { parseDefinition } from "../kernel/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/plan.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";

const PLANS_MAX = 200;

/** Plans by the hash of their definition, read from the store: starts come from other nodes without theirs. */
export class PlanBook {
  readonly #store: Pick<Store, "getDefinition">;
  readonly #plans = new Map<string, Plan>();

  constructor(store: Pick<Store, "getDefinition">) {
    this.#store = store;
  }

  /** Null: there is no such definition, or this version cannot read it. */
  async plan(hash: string): Promise<Plan | null> {
    const known = this.#plans.get(hash) ?? (await this.#read(hash));
    if (known === null) return null;
    this.#plans.delete(hash);
    this.#plans.set(hash, known);
    for (const oldest of this.#plans.keys()) {
      if (this.#plans.size <= PLANS_MAX) break;
      this.#plans.delete(oldest);
    }
    return known;
  }

  async #read(hash: string): Promise<Plan | null> {
    const found = await this.#store.getDefinition({ hash });
    if (found === null) return null;
    const definition = parseDefinition(JSON.parse(found.body));
    return isRejection(definition) ? null : compilePlan(definition);
  }
}
