import { Cell, useCell } from "./cell.ts";
import { lostSince } from "./connection.ts";
import { isVisible } from "./visible.ts";

const now = new Cell(Date.now());

setInterval(() => {
  if (isVisible.value && lostSince.value === null) now.set(Date.now());
}, 1_000);

/**
 * Returns the current time. The component is rendered again every second while the page is visible. While the node does not
 * answer, the time stands still at its last answer.
 */
export function useNow(): number {
  useCell(now);
  return useCell(lostSince) ?? Date.now();
}
