/**
 * Sends the result of a command to a URL: a signed POST of JSON, through the guard of outgoing requests. All tries have the same id. A
 * 2xx answer is success. After 408, 425, 429, 5xx or no answer the request is retried, after `Retry-After` if it is given. All other
 * answers are final; redirects are not followed.
 */
import type { PostOpOutcome } from "../../kernel/message.ts";
import { plainHost } from "../../net/guard/allow-list.ts";
import type { GuardedAnswer, GuardedHttp } from "../../net/guard/guarded-http.ts";
import { HttpFault } from "../../net/http-fault.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { WebhookSecrets } from "./webhook-secrets.ts";

export interface BroadcastParts {
  readonly guard: Pick<GuardedHttp, "refusalOf" | "send">;
  readonly secrets: WebhookSecrets;
  readonly clock: Clock;
  /** Rondo's version, for the `User-Agent` header. */
  readonly version: string;
}

export interface Broadcast {
  readonly id: string;
  readonly url: string;
  /** The body of the request as JSON text. */
  readonly body: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const RETRYABLE = [408, 425, 429];
const RETRY_AFTER_MAX_MS = 86_400_000;
const SHOWN_CHARS = 300;

export async function sendBroadcast(
  { guard, secrets, clock, version }: BroadcastParts,
  { id, url, body, timeoutMs, signal }: Broadcast,
): Promise<PostOpOutcome> {
  const refusal = guard.refusalOf(url);
  if (refusal !== null) return refusedTarget(refusal);
  const headers = {
    "content-type": "application/json",
    "user-agent": `rondo/${version}`,
    ...secrets.headersFor(plainHost(new URL(url).hostname), { id, at: clock.now(), body }),
  };
  try {
    const answer = await guard.send({ method: "POST", url, headers, body, timeoutMs, signal });
    return isRejection(answer) ? refusedTarget(answer) : outcomeOf(answer, clock.now());
  } catch (thrown) {
    if (!(thrown instanceof HttpFault)) throw thrown;
    return { kind: "failed", error: { name: "NoAnswer", message: thrown.message, code: thrown.code } };
  }
}

function outcomeOf({ status, headers, text }: GuardedAnswer, now: number): PostOpOutcome {
  if (status >= 200 && status < 300) return { kind: "done" };
  const isRedirect = status >= 300 && status < 400;
  const says = isRedirect
    ? ` and redirects to ${String(headers.location)}; redirects are not followed: give the final address`
    : text === ""
      ? ""
      : `: ${text.slice(0, SHOWN_CHARS)}`;
  const error = { name: "Refused", message: `the target answered ${status}${says}`, code: String(status) };
  const mayHelp = status >= 500 || RETRYABLE.includes(status);
  if (!mayHelp) return { kind: "failed", error, fatal: true };
  const retryAfterMs = retryAfter(headers["retry-after"], now);
  return { kind: "failed", error, ...(retryAfterMs === null ? {} : { retryAfterMs }) };
}

/** Parses the header `Retry-After`, which has seconds or a date. */
function retryAfter(given: string | undefined, now: number): number | null {
  if (given === undefined) return null;
  const ms = /^\d+$/.test(given) ? Number(given) * 1_000 : Date.parse(given) - now;
  return Number.isNaN(ms) ? null : Math.min(Math.max(0, ms), RETRY_AFTER_MAX_MS);
}

function refusedTarget({ message, hint, code }: Rejection): PostOpOutcome {
  const text = hint === undefined ? message : `${message} (${hint})`;
  return { kind: "failed", error: { name: "ForbiddenTarget", message: text, code }, fatal: true };
}
