import { Cell } from "./cell.ts";

/** Whether the page is visible: polling and streams pause while it is hidden. */
export const isVisible = new Cell(document.visibilityState !== "hidden");

document.addEventListener("visibilitychange", () => isVisible.set(document.visibilityState !== "hidden"));

/** Resolves once the page is visible, or when the signal is aborted. */
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

/** Waits for a time; ends early when the signal is aborted. */
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
