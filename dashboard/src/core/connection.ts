/**
 * Whether the node answers. While it does not, clocks stand still and no part of the page loads anything; one loop asks the node
 * until it answers again, and then everything is loaded again. A page that asks for nothing, or whose requests hang, finds out
 * too: after some silence the node is asked whether it is there.
 */
import { Cell } from "./cell.ts";
import { isVisible } from "./visible.ts";

const AGAIN_MS = 2_000;
/** How long the node may be silent before it is asked, how often that is looked at, and how long an answer may take. */
const SILENCE_MS = 10_000;
const LOOK_MS = 2_000;
const ANSWER_MS = 5_000;

/** The time of the last answer before the connection was lost; null while the node answers. */
export const lostSince = new Cell<number | null>(null);

let lastAnswerAt = Date.now();
let loss = new AbortController();

/** A signal that is aborted when the connection is lost: requests under way would wait for an answer that never comes. */
export function lossSignal(): AbortSignal {
  return loss.signal;
}

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
  loss.abort();
  loss = new AbortController();
  setTimeout(() => void askAgain(), AGAIN_MS);
}

async function askAgain(): Promise<void> {
  if (lostSince.value !== null && isVisible.value) await isThere();
  if (lostSince.value !== null) setTimeout(() => void askAgain(), AGAIN_MS);
}

/** Asks the node whether it is there, and notes its answer. */
async function isThere(): Promise<boolean> {
  try {
    await fetch("/healthz", { signal: AbortSignal.timeout(ANSWER_MS) });
    noteAnswer();
    return true;
  } catch {
    return false;
  }
}

let isAsking = false;

setInterval(() => {
  if (!isVisible.value || isAsking || lostSince.value !== null || Date.now() - lastAnswerAt < SILENCE_MS)
    return;
  isAsking = true;
  void isThere().then((answers) => {
    isAsking = false;
    if (!answers) noteLoss();
  });
}, LOOK_MS);

lostSince.watch(() => {
  if (lostSince.value === null) delete document.documentElement.dataset["lost"];
});
