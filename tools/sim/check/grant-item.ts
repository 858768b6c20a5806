/** Checks whether a task may be granted, judged by the journal. */
import { encodeAttempt } from "../../../src/protocol/attempt-id.ts";
import type { Checkpoint, Grant, GrantItem } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";
import type { CheckpointModel, HandlerModel } from "./handler-model.ts";

/** No two claims have the same attempt id, so that a report about one cannot concern another. */
export function checkName(names: Set<string>, grant: Grant, item: GrantItem): void {
  const name = encodeAttempt({ ...grant, ...item, task: item.number });
  must(!names.has(name), `${name}: two claims have this name`);
  names.add(name);
}

/** The task exists, is open, is due, and its grant has all checkpoints of earlier attempts. */
export function checkItem(
  key: string,
  { item, handler, clock }: { item: GrantItem; handler: HandlerModel; clock: number },
): void {
  const { number: task, attempt, checkpoints } = item;
  must(task < Math.max(1, handler.total), `${key}: a task is given out after it is durable`);
  must(!handler.settled.has(task), `${key}: a settled task is not given out`);
  const open = handler.growth.openDependency(task);
  must(task < 0 || open === null, `${key}: is given out before ${open}, for which it waits, is done`);
  checkCompensation(key, item, handler);
  if (handler.plan.isCompensated)
    must(
      handler.started.get(task) === attempt,
      `${key}: the start of a task that may be compensated is journaled before it is given out`,
    );
  must(!handler.receipted.has(task), `${key}: a command that has its result is not sent again`);
  const ended = handler.ended.get(task) ?? 0;
  must(attempt === ended + 1, `${key}: attempt ${attempt} follows ${ended}`);
  must(clock >= (handler.until.get(task) ?? 0), `${key}: is not tried again before its time`);
  checkTold(key, { told: checkpoints ?? [], known: handler.checkpoints(task), clock });
}

/** A grant of a compensation has the outcome and the result of the task that it compensates. */
function checkCompensation(
  key: string,
  { number: task, compensates }: GrantItem,
  handler: HandlerModel,
): void {
  const { origin } = handler;
  must((origin === null) === (compensates === undefined), `${key}: a compensation is given out as one`);
  if (origin === null) return;
  must(!handler.exempt.has(task), `${key}: a task that never began is compensated`);
  const result = origin.settled.get(task)?.status === "done" ? (origin.results.get(task) ?? null) : null;
  const outcome = result === null ? "unknown" : "done";
  must(
    compensates?.outcome === outcome && compensates.result === result,
    `${key}: compensates ${compensates?.outcome} ${compensates?.result}, journaled is ${outcome} ${result}`,
  );
}

/** The number by which a checkpoint is compared with the journal. */
function numberOf(one: Checkpoint): number {
  switch (one.kind) {
    case "tries":
      return one.tries;
    case "sleep":
      return one.due;
    case "time":
      return one.at;
    case "child":
      return 0;
    default:
      return one.seq;
  }
}

/** A grant has every journaled checkpoint, and for a sleep that is over, that it is over. */
function checkTold(
  key: string,
  at: { told: readonly Checkpoint[]; known: readonly CheckpointModel[]; clock: number },
): void {
  const told = at.told.map((one) => `${one.kind} ${one.name} ${numberOf(one)}`);
  const said = new Map(at.told.map((one) => [one.name, one]));
  const known = at.known.map((one) => {
    const other = said.get(one.name);
    const isOver = other?.kind === "sleep" && other.due === 0 && one.kind === "sleep" && one.at <= at.clock;
    return `${one.kind} ${one.name} ${isOver ? 0 : one.at}`;
  });
  must(
    known.sort().join() === [...told].sort().join(),
    `${key}: is told of [${told.join()}], journaled is [${known.join()}]`,
  );
}
