/**
 * Prints the result of a round, and checks that prove that no task was lost or counted twice. Each line is a check that can
 * fail.
 */
import { showCount } from "../../src/cli/progress/phase-line.ts";
import type { Screen } from "../../src/cli/progress/screen.ts";
import type { ExecutionView } from "../../src/index.ts";
import { showDuration } from "../../src/std/duration.ts";
import type { Found } from "./audit-watch.ts";
import type { Doubled } from "./harm/bad-network.ts";
import type { DemoOutput } from "./parts/fan-out.ts";
import type { JournalFacts } from "./parts/journal-facts.ts";
import { newsText } from "./parts/news.ts";
import { PRIMES_FOUND } from "./parts/primes.ts";
import type { Received } from "./receiver.ts";

export interface Evidence {
  readonly view: ExecutionView;
  readonly output: DemoOutput;
  readonly facts: JournalFacts;
  readonly tasks: number;
  /** The state that a killed demo left; null if this process did the whole round. */
  readonly kept: { readonly settled: number; readonly inFlight: number } | null;
  readonly deliveries: { readonly again: number; readonly needless: number };
  readonly received: readonly Received[];
  /** The number of primes that the script counted. */
  readonly primes: number | null;
  readonly audit: Found;
  readonly harm: { readonly killed: number; readonly frozen: number; readonly doubled: Doubled };
}

/** Prints the result and every check. Returns whether all of them hold. */
export function prove(screen: Screen, evidence: Evidence): boolean {
  const { view, output } = evidence;
  const lasted = showDuration((view.finishedAt ?? 0) - view.createdAt);
  screen.print("");
  screen.print(["Result", "bold"], ` ${JSON.stringify(output)}, ${lasted} after its start`);
  screen.print(`Checks of the journal, event by event${although(evidence.harm)}:`);
  const checks = [
    ...countChecks(evidence),
    ...killChecks(evidence),
    ...partChecks(evidence),
    ...harmChecks(evidence),
    auditCheck(evidence.audit),
  ];
  for (const { holds, text } of checks) screen.print(holds ? ["  ✓", "green"] : ["  ✗", "red"], ` ${text}`);
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
      text:
        `${showCount(facts.retried.thrown)} attempts failed on purpose and were retried` +
        `${givenBack(facts.retried.given)}; ${showCount(failed)} tasks failed`,
    },
  ];
}

/** Attempts that a stopped, killed or frozen worker did not run to their end. */
function givenBack(attempts: number): string {
  return attempts === 0 ? "" : `, ${showCount(attempts)} were given back or lost by workers and ran again`;
}

/** Checks of deliveries, if there was an earlier process. */
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

function partChecks({ received, primes, tasks }: Evidence): Check[] {
  const says = JSON.stringify(received.map(({ body }) => body));
  return [
    {
      holds: received.length === 1 && says.includes(newsText(tasks)),
      text: `${showCount(received.length)} broadcast of the commands has come, signed, with what the first of them counted`,
    },
    {
      holds: primes === PRIMES_FOUND,
      text: `the script came to ${showCount(primes ?? 0)} primes, and there are ${showCount(PRIMES_FOUND)}`,
    },
  ];
}

/** Checks of duplicated messages, if there were any. */
function harmChecks({ harm: { doubled } }: Evidence): Check[] {
  if (doubled.sent === 0) return [];
  const { sent, recognised } = doubled;
  return [
    {
      holds: recognised === sent,
      text: `${showCount(sent)} receipts were delivered twice; ${showCount(recognised)} were recognised the second time`,
    },
  ];
}

/** The harm that was done to workers, if any. */
function although({ killed, frozen }: Evidence["harm"]): string {
  const done = [
    ...(killed > 0 ? [`${showCount(killed)} ${killed === 1 ? "worker was" : "workers were"} killed`] : []),
    ...(frozen > 0 ? [`${showCount(frozen)} ${frozen === 1 ? "was" : "were"} frozen`] : []),
  ];
  return done.length === 0 ? "" : `, although ${done.join(" and ")}`;
}

function auditCheck({ executions, events, lost, countedTwice, findings }: Found): Check {
  const more = findings.length === 0 ? "" : `; it also found: ${findings.slice(0, 3).join("; ")}`;
  return {
    holds: lost === 0 && countedTwice === 0 && findings.length === 0,
    text:
      `the auditor counted ${showCount(executions)} executions again from their ${showCount(events)} events: ` +
      `${showCount(lost)} lost, ${showCount(countedTwice)} counted twice${more}`,
  };
}
