import { Cell } from "./cell.ts";

/** Whether anybody can see the page: what polls or streams rests while nobody does. */
export const isVisible = new Cell(document.visibilityState !== "hidden");

document.addEventListener("visibilitychange", () => isVisible.set(document.visibilityState !== "hidden"));

/** Resolves once the page can be seen, or when the signal says that it does not matter any more. */
export function untilVisible(signal: AbortSignal): Promise<void> {
  if (isVisible.value || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      unwatch();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const unwatch = isVisible.watch(end);
    signal.addEventListener("abort", end);
  });
}

/** Waits so long; ends early by the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
