/** Waiting with the clock port: sleeps, deadlines for promises, and repeated calls. */
import type { Clock } from "./clock.ts";

type Timers = Pick<Clock, "after">;

/** Resolves after `ms`, or as soon as `signal` is aborted. */
export function sleep(clock: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted === true) end();
  });
}

/** Returned by the callback `onLate` of `within` to move the deadline. */
export class Longer {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }
}

/**
 * Settles as the promise `work` does. If that takes longer than `ms`, it calls `onLate`, which returns a value, throws, or
 * extends the deadline by returning `Longer`.
 */
export function within<T>(clock: Timers, ms: number, work: Promise<T>, onLate: () => T | Longer): Promise<T> {
  return new Promise((resolve, fail) => {
    const arm = (waitMs: number): (() => void) =>
      clock.after(waitMs, () => {
        try {
          const late = onLate();
          if (late instanceof Longer) cancel = arm(late.ms);
          else resolve(late);
        } catch (thrown) {
          fail(thrown);
        }
      });
    let cancel = arm(ms);
    work.then(resolve, fail).finally(() => cancel());
  });
}

/** Resolves when `work` resolves, and after `ms` at the latest. Rejects if `work` rejects earlier. */
export async function atMost(clock: Timers, ms: number, work: Promise<unknown>): Promise<void> {
  await within<unknown>(clock, ms, work, () => undefined);
}

/** Calls `run` every `ms`, for the first time after `ms`; the returned function stops the calls. */
export function every(clock: Timers, ms: number, run: () => void): () => void {
  let isStopped = false;
  let cancel = (): void => {};
  const arm = (): void => {
    cancel = clock.after(ms, () => {
      run();
      if (!isStopped) arm();
    });
  };
  arm();
  return () => {
    isStopped = true;
    cancel();
  };
}
