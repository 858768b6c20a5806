import { Cell, useCell } from "./cell.ts";
import { isVisible } from "./visible.ts";

const now = new Cell(Date.now());

setInterval(() => {
  if (isVisible.value) now.set(Date.now());
}, 1_000);

/** Returns the current time. The component is rendered again every second while the page is visible. */
export function useNow(): number {
  useCell(now);
  return Date.now();
}
