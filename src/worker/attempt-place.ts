/** The place of an attempt: execution, phase visit, handler, round and epoch. */
import { encodeAttempt, reportedAttempt } from "../protocol/attempt-id.ts";
import type { GrantItem, ReportPlace } from "../protocol/work.ts";

export function reportPlace({ execution, phase, visit, handler, round, epoch }: ReportPlace): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}

/** A log line with the names of its attempt. */
export function loggedBy(
  grant: ReportPlace & { readonly workflow: string },
  item: GrantItem,
  logged: LoggedLine,
): LoggedBy {
  const { workflow, execution, phase, handler } = grant;
  const attemptId = encodeAttempt(reportedAttempt(grant, item));
  return {
    ...{ workflow, execution, phase, handler, task: item.number, attempt: item.attempt, attemptId },
    ...logged,
  };
}

/** A log line as the code of a handler has logged it. */
export interface LoggedLine {
  readonly at: number;
  readonly level: string;
  readonly parts: readonly unknown[];
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

type LoggedBy = LoggedLine & {
  readonly workflow: string;
  readonly execution: string;
  readonly phase: string;
  readonly handler: string;
  readonly task: number;
  readonly attempt: number;
  readonly attemptId: string;
};

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
