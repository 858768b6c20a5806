/**
 * Requests that the server answers only after an execution has ended. A request is repeated if its connection breaks, and after a time
 * limit.
 */
import type { ExecutionView } from "../kernel/view.ts";
import type { RefusedUpdate, UpdateAnswer } from "../protocol/update-answer.ts";
import type { Result } from "../server/schemas/execution.ts";
import type { Updated } from "../server/schemas/stream.ts";
import { backOffMs } from "../std/back-off.ts";
import type { Json } from "../std/json.ts";
import { RondoError } from "../std/rejection.ts";
import { sleep } from "../std/within.ts";
import { PASSING, RETRY } from "./follow-stream.ts";
import { unreachable } from "./problem.ts";
import type { RemoteParts } from "./remote-handle.ts";
import { type RequestOptions, wasRefused } from "./requester.ts";

/** How long the server holds a request that waits for an end. */
const WAIT_MS = 30_000;
/** How long the answer may take beyond that time before the connection counts as broken. */
const ANSWER_MS = 15_000;
const QUERY = { wait: `${WAIT_MS}ms` };

/** Waits for the end of the execution at this path, and returns its result. */
export async function awaitResult(parts: RemoteParts, path: string, signal: AbortSignal): Promise<Result> {
  for (;;) {
    try {
      return await patiently<Result>(parts, `${path}/result`, { query: QUERY, signal });
    } catch (thrown) {
      if (codeOf(thrown) !== "timeout" || signal.aborted) throw thrown;
    }
  }
}

/** Sends an update and waits for its answer. The request is repeated with the same id until there is an answer. */
export async function awaitAnswer(
  parts: RemoteParts,
  path: string,
  { body, signal }: { readonly body: object; readonly signal: AbortSignal },
): Promise<UpdateAnswer> {
  const request = { method: "POST", body, query: QUERY, signal, isRepeatable: true } as const;
  for (;;) {
    try {
      const { answer, error } = await patiently<Updated>(parts, path, request);
      return error === undefined ? { value: answer as Json } : { error: error as RefusedUpdate };
    } catch (thrown) {
      if (codeOf(thrown) !== "timeout" || signal.aborted) throw thrown;
    }
  }
}

/**
 * Starts an execution and waits for its end, or for some time if it does not end. If the server cannot be reached, the start fails at
 * once. If the connection breaks while the server waits for the end, the request is repeated.
 */
export async function startAndAwait(
  parts: RemoteParts,
  start: RequestOptions & { readonly signal: AbortSignal },
): Promise<ExecutionView> {
  const path = "/v1/executions";
  try {
    return await patiently<ExecutionView>(parts, path, { ...start, query: QUERY }, mayHaveArrived);
  } catch (thrown) {
    // A server of an earlier version ignores `wait` and answers at once.
    const isUnknown = codeOf(thrown) === "unknown_field" && (thrown as RondoError).path === "wait";
    if (!isUnknown) throw thrown;
    return parts.requester.json<ExecutionView>(path, start);
  }
}

/**
 * Sends a request. If it fails for a temporary reason, sends it again for at most `reconnectMs`. `isPassing` decides whether the first
 * failure is temporary.
 */
export async function patiently<T>(
  { requester, clock, random, reconnectMs }: RemoteParts,
  path: string,
  request: RequestOptions & { readonly signal: AbortSignal },
  isPassing: (thrown: unknown) => boolean = () => true,
): Promise<T> {
  const { signal } = request;
  let failures = 0;
  let failingSince: number | null = null;
  for (;;) {
    signal.throwIfAborted();
    const attempt = new AbortController();
    const abort = (): void => attempt.abort(signal.reason);
    const cancel = clock.after(WAIT_MS + ANSWER_MS, () => attempt.abort(new Error("the server is silent")));
    signal.addEventListener("abort", abort);
    try {
      return await requester.json<T>(path, { ...request, signal: attempt.signal });
    } catch (thrown) {
      signal.throwIfAborted();
      const code = codeOf(thrown);
      if (code !== null && !PASSING.has(code)) throw thrown;
      if (failingSince === null && !isPassing(thrown)) throw thrown;
      failingSince ??= clock.now();
      if (clock.now() - failingSince >= reconnectMs)
        throw code === null ? unreachable(requester.urls, thrown) : thrown;
      requester.passOver();
    } finally {
      cancel();
      signal.removeEventListener("abort", abort);
    }
    await sleep(clock, backOffMs(failures++, { ...RETRY, random }), signal);
  }
}

function codeOf(thrown: unknown): string | null {
  return thrown instanceof RondoError ? thrown.code : null;
}

/** Whether a connection was made and then broke or was silent. The error of a refusal by the server has no cause. */
function mayHaveArrived(thrown: unknown): boolean {
  if (!(thrown instanceof RondoError)) return true;
  return thrown.cause !== undefined && !wasRefused(thrown.cause);
}
