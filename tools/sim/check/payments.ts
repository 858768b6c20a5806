/**
 * A payment service with its own ledger. Code of tasks that may be compensated charges, and code that compensates refunds, both
 * under the idempotency key of the task. A refund of a key that has no charge voids the key, so that no charge comes later.
 */
import { must } from "../trace.ts";
import type { Model } from "./model.ts";

interface Payment {
  readonly place: { readonly phase: string; readonly visit: number; readonly handler: string };
  readonly task: number;
  isCharged: boolean;
  isVoid: boolean;
}

export class Payments {
  readonly #executions = new Map<string, Map<string, Payment>>();
  /** Charges, refunds of charges, and refunds of keys without a charge. */
  readonly counts = { charged: 0, refunded: 0, voided: 0 };

  charge(execution: string, key: string, { place, task }: Pick<Payment, "place" | "task">): void {
    const payments = this.#of(execution);
    const known = payments.get(key) ?? { place, task, isCharged: false, isVoid: false };
    payments.set(key, known);
    if (known.isVoid || known.isCharged) return;
    known.isCharged = true;
    this.counts.charged++;
  }

  refund(execution: string, key: string, { place, task }: Pick<Payment, "place" | "task">): void {
    const payments = this.#of(execution);
    const known = payments.get(key) ?? { place, task, isCharged: false, isVoid: false };
    payments.set(key, known);
    if (known.isVoid) return;
    known.isVoid = true;
    if (known.isCharged) this.counts.refunded++;
    else this.counts.voided++;
  }

  /** Every charge of an execution that has ended is refunded or delivered. */
  check({ id, status, ended, cleanup }: Model): void {
    if (!ended) return;
    for (const [key, { place, task, isCharged, isVoid }] of this.#of(id)) {
      if (status === "done") must(!isVoid, `${key}: is refunded, though ${id} is done`);
      if (status === "done" || !isCharged || isVoid) continue;
      const isGivenUp = cleanup.outcomeOf(place, task) === "failed" || cleanup.isCutShort;
      must(isGivenUp, `${key}: is charged and not refunded, and ${id} is ${status}`);
    }
  }

  forget(execution: string): void {
    this.#executions.delete(execution);
  }

  #of(execution: string): Map<string, Payment> {
    const payments = this.#executions.get(execution) ?? new Map<string, Payment>();
    this.#executions.set(execution, payments);
    return payments;
  }
}
