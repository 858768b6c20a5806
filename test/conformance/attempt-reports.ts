/** What a worker says of an attempt that it was granted, as the reports that it would send. */
import { endsEnumeration, type Outcome } from "../../src/kernel/message.ts";
import type { Grant, GrantItem, Report, ReportedAttempt, ReportPlace } from "../../src/protocol/work.ts";
import { assert } from "../../src/std/assert.ts";

/** One item of a grant, at a worker. */
export interface Attempt {
  readonly worker: string;
  readonly grant: Grant;
  readonly item: GrantItem;
}

type ReportOf<K extends Report["kind"]> = Extract<Report, { kind: K }>;

/** Where an attempt belongs. */
export function placeOf({ execution, phase, visit, handler, round, epoch }: Grant): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}

/** Which claim of a place it is. */
export function claimOf({ number, attempt, claim }: GrantItem): Omit<ReportedAttempt, keyof ReportPlace> {
  return { task: number, attempt, claim };
}

/** Its receipt: done unless it is said otherwise. */
export function receiptOf({ grant, item }: Attempt, outcome: Partial<Outcome> = {}): ReportOf<"receipts"> {
  return {
    kind: "receipts",
    ...placeOf(grant),
    receipts: [{ ...claimOf(item), ms: 1, outcome: doneOr(outcome) }],
  };
}

export function startOf({ grant, item }: Attempt): ReportOf<"started"> {
  return { kind: "started", ...placeOf(grant), attempts: [claimOf(item)] };
}

export function stepDone(attempt: Attempt, name: string, result: unknown): ReportOf<"step"> {
  return { kind: "step", ...attemptOf(attempt), name, result: JSON.stringify(result) };
}

export function runDone(attempt: Attempt, index: number, state: unknown): ReportOf<"run"> {
  return {
    kind: "run",
    ...attemptOf(attempt),
    name: attempt.grant.script?.runs[index]?.name ?? `r${index}`,
    index,
    state: JSON.stringify(state),
    oversized: false,
    stats: { durationMs: 1, memoryBytes: 1 },
  };
}

export function logLines(attempt: Attempt, lines: ReportOf<"logs">["lines"]): ReportOf<"logs"> {
  return { kind: "logs", ...attemptOf(attempt), lines };
}

/** A page of an enumeration. */
export function pageOf(
  { grant, item }: Attempt,
  page: {
    readonly from: number;
    readonly tasks: readonly unknown[];
    readonly keys: readonly string[] | undefined;
  },
): ReportOf<"page"> {
  return {
    kind: "page",
    ...placeOf(grant),
    attempt: item.attempt,
    claim: item.claim,
    from: page.from,
    tasks: page.tasks.map((task) => JSON.stringify(task)),
    keys: page.keys ?? null,
    identities: null,
  };
}

/** The end of an enumeration: done, with no tasks but those of `resume`, unless it is said otherwise. */
export function sealOf({ grant, item }: Attempt, outcome: Partial<Outcome>): ReportOf<"enumeration"> {
  const { attempt, claim } = item;
  const ended = doneOr({ total: grant.resume?.count ?? 0, ...outcome });
  assert(endsEnumeration(ended), "the total is there");
  return { kind: "enumeration", ...placeOf(grant), attempt, claim, ms: 1, outcome: ended };
}

function attemptOf({ grant, item }: Attempt): ReportedAttempt {
  return { ...placeOf(grant), ...claimOf(item) };
}

function doneOr(outcome: Partial<Outcome>): Outcome {
  return { status: "done", payload: "null", ...outcome };
}
