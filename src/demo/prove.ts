/** The end of the demo: what came out, and what that proves. Each line is a check that can fail. */
import { showCount } from "../cli/progress/phase-line.ts";
import type { Screen } from "../cli/progress/screen.ts";
import type { ExecutionView } from "../index.ts";
import { showDuration } from "../std/duration.ts";
import type { Deliveries } from "./deliveries.ts";
import type { DemoOutput } from "./demo-workflow.ts";
import type { JournalFacts } from "./journal-facts.ts";

export interface Evidence {
  readonly view: ExecutionView;
  readonly output: DemoOutput;
  readonly facts: JournalFacts;
  readonly tasks: number;
  /** What was found of a process that was killed; null if this one did it all. */
  readonly kept: { readonly settled: number; readonly inFlight: number } | null;
  readonly deliveries: Deliveries;
}

/** Tells the result and every check; answers whether all of them hold. */
export function prove(screen: Screen, evidence: Evidence): boolean {
  const { view, output } = evidence;
  const lasted = showDuration((view.finishedAt ?? 0) - view.createdAt);
  screen.say("");
  screen.say(["Result", "bold"], ` ${JSON.stringify(output)}, ${lasted} after its start`);
  screen.say("What that proves, read back from the journal, event by event:");
  const checks = [...countChecks(evidence), ...killChecks(evidence)];
  for (const { holds, text } of checks) screen.say(holds ? ["  ✓", "green"] : ["  ✗", "red"], ` ${text}`);
  return checks.every(({ holds }) => holds);
}

interface Check {
  readonly holds: boolean;
  readonly text: string;
}

function countChecks({ view, output, facts, tasks }: Evidence): Check[] {
  const { lost, once, twice } = facts.count();
  const handlers = view.phases.flatMap((phase) => phase.handlers);
  const failed = handlers.reduce((sum, handler) => sum + handler.failed, 0);
  return [
    {
      holds: output.done === tasks && once === tasks && facts.foreign === 0,
      text:
        `${showCount(once)} tasks settled, ${showCount(lost)} lost, ${showCount(twice)} counted twice: ` +
        `each of 0 to ${showCount(tasks - 1)} is in one tasks.settled`,
    },
    {
      holds: facts.sum === output.check && output.sum === output.check,
      text: `their results add up to ${showCount(facts.sum)}; the second phase came to ${showCount(output.check)}`,
    },
    {
      holds: failed === 0,
      text: `${showCount(facts.retried)} attempts failed on purpose and were retried; ${showCount(failed)} tasks failed`,
    },
  ];
}

/** What the witness of deliveries says, if there was a process before. */
function killChecks({ kept, deliveries }: Evidence): Check[] {
  if (kept === null) return [];
  const { again, needless } = deliveries;
  return [
    {
      holds: again === kept.inFlight,
      text: `of ${showCount(kept.inFlight)} tasks in flight when it was stopped, ${showCount(again)} were delivered again`,
    },
    {
      holds: needless === 0,
      text: `of ${showCount(kept.settled)} tasks settled by then, ${showCount(needless)} were delivered again`,
    },
  ];
}
