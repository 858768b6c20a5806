/**
 * Whether the node answers. While it does not, clocks stand still and no part of the page loads anything; one loop asks the node
 * until it answers again, and then everything is loaded again.
 */
import { Cell } from "./cell.ts";
import { isVisible } from "./visible.ts";

const AGAIN_MS = 2_000;

/** The time of the last answer before the connection was lost; null while the node answers. */
export const lostSince = new Cell<number | null>(null);

let lastAnswerAt = Date.now();

/** Notes an answer of the node, whatever it says. */
export function noteAnswer(): void {
  lastAnswerAt = Date.now();
  lostSince.set(null);
}

/** Notes that the node did not answer. */
export function noteLoss(): void {
  if (lostSince.value !== null) return;
  lostSince.set(lastAnswerAt);
  document.documentElement.dataset["lost"] = "true";
  setTimeout(() => void askAgain(), AGAIN_MS);
}

async function askAgain(): Promise<void> {
  if (lostSince.value !== null && isVisible.value)
    try {
      await fetch("/healthz");
      noteAnswer();
    } catch {
      // The node is still away.
    }
  if (lostSince.value !== null) setTimeout(() => void askAgain(), AGAIN_MS);
}

lostSince.watch(() => {
  if (lostSince.value === null) delete document.documentElement.dataset["lost"];
});
