/** The places of reports, beats and grants. */
import type { Grant, GrantItem, ReportedAttempt, ReportPlace } from "../../../src/protocol/work.ts";

export function placeOf({ execution, phase, visit, handler, round, epoch }: ReportPlace): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}

export function attemptOf(grant: Grant, { number, attempt, claim }: GrantItem): ReportedAttempt {
  return { ...placeOf(grant), task: number, attempt, claim };
}

/** A unique key of one claim of one attempt. */
export function keyOf(at: ReportedAttempt): string {
  const { execution, phase, visit, handler, round, epoch, task, attempt, claim } = at;
  return `${execution}/${phase}/${visit}/${handler}/${round}/${task}/${attempt}/${claim}/${epoch}`;
}
