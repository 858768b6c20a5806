import type { Clock } from "../std/clock.ts";

/** Calls `run` again and again, so long after each other; the returned function stops that. */
export function every(clock: Clock, ms: number, run: () => void): () => void {
  let isOver = false;
  let stop = (): void => {};
  const again = (): void => {
    stop = clock.after(ms, () => {
      run();
      if (!isOver) again();
    });
  };
  again();
  return () => {
    isOver = true;
    stop();
  };
}
