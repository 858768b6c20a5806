/** The place of an attempt: execution, phase visit, handler, round and epoch. */
import { encodeAttempt, reportedAttempt } from "../protocol/attempt-id.ts";
import type { GrantItem, ReportPlace } from "../protocol/work.ts";

export function reportPlace({ execution, phase, visit, handler, round, epoch }: ReportPlace): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}

/** The names of an attempt as its log lines contain them. */
export function loggedBy(
  grant: ReportPlace,
  item: GrantItem,
): { execution: string; phase: string; handler: string; task: number; attempt: number; attemptId: string } {
  const { execution, phase, handler } = grant;
  const attemptId = encodeAttempt(reportedAttempt(grant, item));
  return { execution, phase, handler, task: item.number, attempt: item.attempt, attemptId };
}

/** Whether two attempts have the same handler, visit, round and epoch. */
export function samePlace(a: ReportPlace, b: ReportPlace): boolean {
  return (
    a.execution === b.execution &&
    a.phase === b.phase &&
    a.visit === b.visit &&
    a.handler === b.handler &&
    a.round === b.round &&
    a.epoch === b.epoch
  );
}
