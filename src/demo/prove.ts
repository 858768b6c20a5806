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
  const { view, output, facts, tasks, kept, deliveries } = evidence;
  const { lost, once, twice } = facts.count();
  screen.say("");
  screen.say(
    ["Result", "bold"],
    ` ${JSON.stringify(output)}, ${showDuration((view.finishedAt ?? 0) - view.createdAt)} after its start`,
  );
  screen.say("What that proves, read back from the journal:");
  const last = showCount(tasks - 1);
  const failed = view.phases
    .flatMap(({ handlers }) => handlers)
    .reduce((sum, handler) => sum + handler.failed, 0);
  const checks: [holds: boolean, text: string][] = [
    [
      output.done === tasks && once === tasks && facts.foreign === 0,
      `each number from 0 to ${last} occurs exactly once among the tasks.settled events: ${showCount(once)} tasks, ${showCount(lost)} lost, ${showCount(twice)} counted twice`,
    ],
    [
      facts.sum === output.check && output.sum === output.check,
      `the results add up to ${showCount(facts.sum)}, and so does the second phase, which did not look at them (${showCount(output.check)})`,
    ],
    [
      failed === 0,
      `${showCount(facts.retried)} attempts failed on purpose and were retried; ${showCount(failed)} tasks failed`,
    ],
  ];
  if (kept !== null)
    checks.push(
      [
        deliveries.again === kept.inFlight,
        `${showCount(kept.inFlight)} tasks were in flight when the process was killed: ${showCount(deliveries.again)} were delivered again`,
      ],
      [
        deliveries.needless === 0,
        `${showCount(kept.settled)} tasks were settled before: ${showCount(deliveries.needless)} of them ran again`,
      ],
    );
  for (const [holds, text] of checks) screen.say(holds ? ["  ✓", "green"] : ["  ✗", "red"], ` ${text}`);
  return checks.every(([holds]) => holds);
}
