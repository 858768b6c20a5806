/** Reads rows of tasks with results, errors, keys and identities from the journal. The task index says where they are. */
import type { Event } from "../../kernel/event.ts";
import type { Json } from "../../std/json.ts";
import type { ExecutionStore } from "../../store/store.ts";
import type { TaskRow } from "../schemas/execution.ts";
import { EventReader } from "./event-reader.ts";
import { factsOf, findTask, type RunningTasks } from "./running-tasks.ts";
import type { TaskIndex, TaskState } from "./task-index.ts";

export interface RowsOptions {
  readonly execution: string;
  readonly from: number;
  readonly limit: number;
  readonly status: TaskState | undefined;
  /** Whether rows include the results, errors and other data of the tasks. */
  readonly isFull: boolean;
  readonly running: RunningTasks;
}

/** A page ends early once its payloads have about this many characters. */
const PAGE_CHARS = 4_194_304;

/** A page of rows, and the number of the task that the next page begins with. */
export async function readTaskRows(
  store: ExecutionStore,
  index: TaskIndex,
  options: RowsOptions,
): Promise<{ data: TaskRow[]; next: number | null }> {
  const events = new EventReader(store, options.execution);
  const data: TaskRow[] = [];
  const { running, status: state } = options;
  let task = findTask(index, running, { from: options.from, state });
  while (task >= 0) {
    if (data.length === options.limit || events.chars > PAGE_CHARS) return { data, next: task };
    data.push(await row(index, task, { events, isFull: options.isFull, running }));
    task = findTask(index, running, { from: task + 1, state });
  }
  return { data, next: null };
}

async function row(
  index: TaskIndex,
  n: number,
  { events, isFull, running }: { events: EventReader; isFull: boolean; running: RunningTasks },
): Promise<TaskRow> {
  const { state, attempts, reason, worker, ms, seq, place } = factsOf(index, running, n);
  const outcome = seq === 0 ? {} : payload(await events.at(seq), place, events);
  const page = index.pageOf(n);
  const enumerated = page.seq === 0 ? null : await events.at(page.seq);
  const isSettled = state === "done" || state === "failed" || state === "cancelled";
  return {
    n,
    status: state,
    attempts,
    reason,
    worker,
    ms: isSettled && seq > 0 ? ms : null,
    // The last outcome of an open task belongs to an earlier round or attempt, so it is left out. The error of a retrying task
    // is shown.
    ...(isSettled || state === "retrying" ? outcome : {}),
    ...(enumerated?.kind === "tasks.enumerated" ? named(enumerated, n - page.from, isFull) : {}),
  };
}

function payload(event: Event | null, place: number, events: EventReader): Pick<TaskRow, "result" | "error"> {
  if (event?.kind === "tasks.retrying") return { error: events.value(event.errors[place]) };
  if (event?.kind !== "tasks.settled") return {};
  const value = events.value(event.payloads[place]);
  return event.statuses[place] === "done" ? { result: value } : { error: value };
}

function named(
  { keys, identities, tasks, afters, addedBy }: Extract<Event, { kind: "tasks.enumerated" }>,
  i: number,
  isFull: boolean,
): Pick<TaskRow, "key" | "identity" | "task" | "after" | "addedBy"> {
  const [after, by] = [afters?.[i], addedBy?.[i]];
  const [key, identity, task] = [keys?.[i], identities?.[i], isFull ? tasks[i] : undefined];
  return {
    ...(key === undefined ? {} : { key }),
    ...(identity === undefined ? {} : { identity }),
    ...(after === undefined || after.length === 0 ? {} : { after }),
    ...(by === undefined ? {} : { addedBy: by }),
    ...(task === undefined ? {} : { task: JSON.parse(task) as Json }),
  };
}
