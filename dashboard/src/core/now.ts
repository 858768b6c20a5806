import { Cell, useCell } from "./cell.ts";
import { isVisible } from "./visible.ts";

const now = new Cell(Date.now());

setInterval(() => {
  if (isVisible.value) now.set(Date.now());
}, 1_000);

/** The time, told anew every second while the page is seen. */
export function useNow(): number {
  return useCell(now);
}
