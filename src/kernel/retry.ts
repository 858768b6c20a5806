/** When a task or an enumeration that failed is tried again. */
import { hashText } from "../std/random.ts";
import type { HandlerPlan } from "./plan.ts";

/** Milliseconds to wait after the n-th failure: exponential or constant, with full jitter from a hash of `attemptId`. */
export function backoffMs(plan: HandlerPlan, failures: number, attemptId: string): number {
  const ceiling =
    plan.backoff === "constant"
      ? plan.retryMinMs
      : Math.min(plan.retryMaxMs, plan.retryMinMs * 2 ** Math.min(failures - 1, 40));
  return Math.round((hashText(attemptId) / 4294967296) * ceiling);
}
