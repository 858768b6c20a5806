/** What is told when `run` has found or started its execution. */
import type { ExecutionView } from "../../kernel/view.ts";
import { phaseName, settledOf, showCount } from "../progress/phase-line.ts";
import { Progress } from "../progress/progress.ts";
import type { Screen } from "../progress/screen.ts";

/** `before` is how it was when we came; null if it was started now. */
export function printStart(screen: Screen, name: string, before: ExecutionView | null, where: string): void {
  if (before === null) return screen.say(`${name} started ${where}`);
  if (before.status === "damaged") return screen.say(`${name} is damaged`);
  if (before.finishedAt !== null) return screen.say(`${name} had ended before`);
  const { current } = Progress.of(before);
  const far =
    current === null || current.total < 2
      ? ""
      : `: ${showCount(settledOf(current))} of ${showCount(current.total)} tasks of ${phaseName(current)} are settled`;
  screen.say(`${name} goes on${far}`);
}
