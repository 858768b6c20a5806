/** Rondo in memory for a test: whatever would end the process fails the test instead. */
import { type LocalRondo, type OpenOptions, openRondo } from "rondo";
import { onTestFinished } from "vitest";
import type { HostedWorkflow } from "../../../src/worker/handler-code.ts";

export async function open(
  workflows: readonly HostedWorkflow[],
  options: OpenOptions = {},
): Promise<LocalRondo> {
  const stops: Error[] = [];
  const rondo = await openRondo({
    store: "memory:",
    ...options,
    onStop: (reason) => void stops.push(reason),
  });
  rondo.serve(...workflows);
  onTestFinished(async () => {
    await rondo.close({ graceMs: 0 });
    if (stops.length > 0) throw new Error("the engine stopped", { cause: stops[0] });
  });
  return rondo;
}

/** All that an iterable gives. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** What a promise is rejected with. */
export async function failure(promise: Promise<unknown>): Promise<Error & { code?: string; path?: string }> {
  const outcome = await promise.then(
    () => new Error("it was not rejected"),
    (thrown: unknown) => thrown,
  );
  return outcome as Error;
}
