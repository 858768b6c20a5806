/** How the worker protocol answers: what is stored, verdicts, and what is refused. */
import type { EventsAnswer, RefusedEvent } from "../../protocol/worker-wire.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import type { EventBatch } from "./event-batch.ts";

/** What was stored of each attempt that a request named, and what became of it; `named` has the numbers of its events. */
export function answerOf(
  named: ReadonlyMap<AttemptRecord, readonly number[]>,
  batch: EventBatch,
  gaps: ReadonlySet<AttemptRecord>,
): EventsAnswer {
  const stored: Record<string, number> = {};
  const verdicts: Record<string, EventsAnswer["verdicts"][string]> = {};
  const refused: Record<string, RefusedEvent> = {};
  for (const [record, numbers] of named) {
    stored[record.id] = record.stored;
    const isRepeat = record.hasReceipt && !batch.newest.has(record);
    const { verdict } = record;
    const refusal = batch.refused.get(record) ?? lastRefusal(record, numbers);
    if (refusal !== undefined) refused[record.id] = refusal;
    if (isRepeat) verdicts[record.id] = "duplicate";
    else if (verdict === "elsewhere") verdicts[record.id] = "not_owner";
    else if (refusal !== undefined && !record.hasReceipt) verdicts[record.id] = "stale";
    // Not everything is stored: an earlier event is missing.
    else if (gaps.has(record) && (verdict ?? "accepted") === "accepted") verdicts[record.id] = "gap";
    else verdicts[record.id] = verdict ?? "accepted";
  }
  return { stored, verdicts, ...(Object.keys(refused).length === 0 ? {} : { refused }) };
}

/** Why the last of these events that was refused was: also one that an earlier request brought. */
function lastRefusal(record: AttemptRecord, numbers: readonly number[]): RefusedEvent | undefined {
  const last = numbers.findLast((n) => record.refusalOf(n) !== undefined);
  return last === undefined ? undefined : record.refusalOf(last);
}

/** Nobody is registered under this id. */
export function unknownWorker(worker: string): Rejection {
  return reject("not_found", `no worker ${worker.slice(0, 100)} is registered here`, {
    hint: "register again, with the same id",
  });
}

/** What was said about an attempt does not come with its token. */
export function wrongToken(id: string): Rejection {
  return reject("stale_attempt", `no valid token for the attempt ${id.slice(0, 200)}`, {
    path: `tokens.${id.slice(0, 200)}`,
    hint: "send the token that came with the attempt",
  });
}

/** The attempt has no right to be heard any more. */
export function staleAttempt(id: string): Rejection {
  return reject("stale_attempt", `the attempt ${id} does not hold its lease any more`, {
    hint: "its receipt can still be sent; nothing else",
  });
}
