import { Cell, useCell } from "./cell.ts";
import { isVisible } from "./visible.ts";

const now = new Cell(Date.now());

setInterval(() => {
  if (isVisible.value) now.set(Date.now());
}, 1_000);

/** The time; what shows it is drawn again every second while the page is seen, and is exact whenever it is drawn. */
export function useNow(): number {
  useCell(now);
  return Date.now();
}
