/** Waiting by the clock port: sleeps, deadlines for promises, and repeated calls. */
import type { Clock } from "./clock.ts";

type Timers = Pick<Clock, "after">;

/** Resolves after `ms`. */
export function sleep(clock: Timers, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

/** Settles as `work` does. After `ms` it settles as `onLate` does instead, which returns another value or throws. */
export function within<T>(clock: Timers, ms: number, work: Promise<T>, onLate: () => T): Promise<T> {
  return new Promise((resolve, fail) => {
    const cancel = clock.after(ms, () => {
      try {
        resolve(onLate());
      } catch (thrown) {
        fail(thrown);
      }
    });
    work.then(resolve, fail).finally(cancel);
  });
}

/** Resolves when `work` does, and after `ms` at the latest; fails if `work` does before. */
export async function atMost(clock: Timers, ms: number, work: Promise<unknown>): Promise<void> {
  await within<unknown>(clock, ms, work, () => undefined);
}

/** Calls `run` every `ms`, for the first time after `ms`; the returned function stops that. */
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
