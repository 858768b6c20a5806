/** Computes the delay before a failed task or enumeration is retried. */
import { backOffMs } from "../../std/back-off.ts";
import { DURATION_MAX_MS } from "../../std/duration.ts";
import { hashText } from "../../std/random.ts";

export interface RetryPolicy {
  readonly backoff: "exponential" | "constant";
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
}

/** Returns the milliseconds before the next attempt: the delay that the code requested, within bounds, or else the back-off. */
export function delayMs(
  plan: RetryPolicy,
  failures: number,
  attempt: { readonly id: string; readonly retryAfterMs: number | undefined },
): number {
  const asked = attempt.retryAfterMs;
  if (asked === undefined || Number.isNaN(asked)) return backoffMs(plan, failures, attempt.id);
  return Math.round(Math.min(DURATION_MAX_MS, Math.max(0, asked)));
}

/** Returns the back-off in milliseconds after the n-th failure: exponential or constant, with full jitter from a hash of `attemptId`. */
export function backoffMs(plan: RetryPolicy, failures: number, attemptId: string): number {
  const ceiling =
    plan.backoff === "constant"
      ? plan.retryMinMs
      : backOffMs(failures - 1, { minMs: plan.retryMinMs, maxMs: plan.retryMaxMs });
  return Math.round((hashText(attemptId) / 4294967296) * ceiling);
}
