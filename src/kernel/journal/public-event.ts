/**
 * Public events: the form of journal events for users. Their kinds begin with `workflow.`, and their payloads are values instead of
 * JSON texts. A summary has counts and ranges of tasks; a full event has an entry for each task.
 */
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import { procErr } from "../command/command-state.ts";
import {
  type ChildEvent,
  type Created,
  type Event,
  type Finished,
  type Published,
  type Recorded,
  type TaskNoted,
  type TaskRun,
  type TaskRunCrashed,
  type TaskRunStarted,
  type TaskStep,
  type TaskStepFailed,
  type TaskStepRetrying,
  type TasksWaiting,
  type TaskWaiting,
  versionOfEvent,
} from "../event.ts";
import { viewError } from "../view.ts";

/** How events show lists of tasks: as counts and ranges, or with an entry for each task. */
export type Detail = "summary" | "full";

/**
 * An event of the journal: the fields that all events have, and those of its kind (docs/api.md lists them).
 */
export interface PublicEvent {
  /** The sequence number, from 1 without gaps. */
  readonly seq: number;
  /** When the event was recorded, in milliseconds since 1970. */
  readonly at: number;
  /** The kind, such as `workflow.phase.started`. */
  readonly kind: string;
  /** The version of the kind's fields. */
  readonly v: number;
  /** The id of the execution. */
  readonly execution: string;
  /** The other fields. Which ones there are depends on the event's `kind`. */
  readonly [field: string]: unknown;
}

/** Converts an event to its public form. */
export function publicEvent(execution: string, { seq, at, event }: Recorded, detail: Detail): PublicEvent {
  return {
    seq,
    at,
    kind: `workflow.${event.kind}`,
    v: versionOfEvent(event),
    execution,
    ...fields(event, detail),
  };
}

function finished({ status, output, error, round, unread, continuedAs }: Finished): Record<string, unknown> {
  const more = defined({ unread, continuedAs });
  return { status, output: parse(output), error: viewError(error), round, ...more };
}

/** Returns the place of an execution among those that continue one another under its id, without the ids of messages. */
function shownSuccession({ succession }: Created): Record<string, unknown> {
  if (succession === undefined) return {};
  const { seen: _, ...shown } = succession;
  return { succession: shown };
}

function retrying(
  { fatal: _, ...shown }: Record<string, unknown>,
  error: string | null,
): Record<string, unknown> {
  return { ...shown, error: parse(error) };
}

function fields(event: Event, detail: Detail): Record<string, unknown> {
  // Leaves out the text of the definition, which can be found by its hash.
  const { kind: _, definition: __, ...rest } = event as Event & Record<string, unknown>;
  switch (event.kind) {
    case "created":
      return { ...rest, input: parse(event.input), ...shownSuccession(event) };
    case "signalled":
    case "gate.taken":
      return { ...rest, data: parse(event.data) };
    case "ending":
      return { status: event.status, output: parse(event.output), error: viewError(event.error) };
    case "finished":
      return finished(event);
    case "handler.retrying":
      return retrying(rest, event.error);
    case "tasks.enumerated": {
      const { from, count, tasks, keys, identities, afters, addedBy } = event;
      const shown = { ...place(event), from, count, ...(addedBy === undefined ? {} : { added: true }) };
      if (detail === "summary") return shown;
      return { ...shown, tasks: tasks.map(parse), keys, identities, ...defined({ afters, addedBy }) };
    }
    case "tasks.accepted":
    case "tasks.started":
    case "tasks.lost":
      return {
        ...place(event),
        ...list(event.tasks, detail, (i) => ({ attempt: event.attempts[i], worker: event.workers[i] })),
      };
    case "tasks.retrying":
      return {
        ...place(event),
        // The summary shows the error of the last task only.
        ...(detail === "summary" ? { reason: event.reasons.at(-1), error: parse(event.errors.at(-1)) } : {}),
        ...list(event.tasks, detail, (i) => ({
          attempt: event.attempts[i],
          reason: event.reasons[i],
          until: event.untils[i],
          error: parse(event.errors[i]),
        })),
      };
    case "tasks.settled":
      return {
        ...place(event),
        ...(detail === "summary" ? tally(event.statuses) : {}),
        ...list(event.tasks, detail, (i) => {
          const payload = parse(event.payloads[i]);
          const status = event.statuses[i];
          return {
            attempt: event.attempts[i],
            status,
            reason: event.reasons[i],
            worker: event.workers[i],
            ms: event.ms[i],
            ...(status === "done" ? { result: payload } : { error: payload }),
          };
        }),
      };
    case "tasks.retried": {
      const { tasks, round, by, id } = event;
      const failed = event.failures.filter((seq) => seq > 0).length;
      return { ...place(event), round, by, id, failed, ...list(tasks, detail, () => ({})) };
    }
    case "tasks.late":
      return {
        ...place(event),
        ...list(event.tasks, detail, (i) => ({
          attempt: event.attempts[i],
          status: event.statuses[i],
          accepted: event.accepted[i],
        })),
      };
    case "tasks.waiting":
      return {
        ...place(event),
        ...list(event.tasks, detail, (i) => waitOf(event, i)),
      };
    case "task.waiting":
    case "task.step":
    case "task.step.retrying":
    case "task.step.failed":
    case "task.noted":
    case "published":
    case "task.run":
    case "task.run.started":
    case "task.run.crashed":
    case "child.started":
    case "child.finished":
      return ofOneTask(event, detail);
    default:
      return ofCommand(event) ?? ofSuccession(event) ?? rest;
  }
}

/** Returns the wait of one of the tasks, for a time or a signal. */
function waitOf({ attempts, names, dues, signals }: TasksWaiting, i: number): Record<string, unknown> {
  const [name, signal] = [names[i], signals[i]];
  return { attempt: attempts[i], name, ...(signal === null ? { timer: name, due: dues[i] } : { signal }) };
}

/** Returns the public fields of an event about one task, whose number is `n`. */
function ofOneTask(
  event:
    | TaskWaiting
    | TaskStep
    | TaskStepRetrying
    | TaskStepFailed
    | TaskNoted
    | Published
    | TaskRun
    | TaskRunStarted
    | TaskRunCrashed
    | ChildEvent,
  detail: Detail,
): Record<string, unknown> {
  const { task: n, attempt } = event;
  switch (event.kind) {
    case "task.step": {
      const { name, reason, result, error, takes, map, answers } = event;
      const answer = error === null ? { result: parse(result) } : { error: parse(error) };
      const signal = takes === undefined ? {} : { signal: takes.signal };
      return {
        ...place(event),
        n,
        attempt,
        name,
        reason,
        ...signal,
        ...defined({ map, answers }),
        ...answer,
      };
    }
    case "task.step.retrying":
    case "task.step.failed": {
      const { name, tries, error } = event;
      const until = event.kind === "task.step.failed" ? {} : { until: event.until };
      return { ...place(event), n, attempt, name, tries, ...until, error: parse(error) };
    }
    case "task.waiting":
      return {
        ...place(event),
        n,
        attempt,
        waits: event.waits.map(({ match, ...wait }) =>
          match === undefined ? wait : { ...wait, match: parse(match) },
        ),
      };
    case "task.run": {
      const { name, index, oversized, stats } = event;
      // In a summary, a state over the size limit is left out, and only marked as too large.
      const state = oversized && detail === "summary" ? {} : { state: parse(event.state) };
      return { ...place(event), n, attempt, name, index, oversized, stats, ...state };
    }
    default: {
      const { kind: _, task: __, ...fields } = event;
      return { ...fields, n };
    }
  }
}

/** Returns the public fields of an event about executions that continue one another under an id; null for any other event. */
function ofSuccession(event: Event): Record<string, unknown> | null {
  if (event.kind === "continuing") {
    const { input, cancel } = event;
    return { input: parse(input), ...(cancel === undefined ? {} : { cancel }) };
  }
  if (event.kind !== "newest") return null;
  return { newest: event.execution, number: event.number, isOpen: event.isOpen };
}

/** Returns the public fields of an event about a command or its post-operations; null for any other event. */
function ofCommand(event: Event): Record<string, unknown> | null {
  switch (event.kind) {
    case "command.receipted": {
      const { task: n, attempt, attemptId, procStatus: proc_status, result, error } = event;
      const answer = error === null ? { cmd_result: parse(result) } : { proc_err: procErr(error) };
      const id = attemptId === undefined ? {} : { attemptId };
      return { ...place(event), n, attempt, ...id, proc_status, ...answer };
    }
    case "postop.done":
    case "postop.failed": {
      const { step, op, target, attempt, error } = event;
      return { step, op, target, attempt, ...(error === null ? {} : { error: parse(error) }) };
    }
    case "postop.retried": {
      const { step, op, target, by } = event;
      return { step, op, target, by };
    }
    default:
      return null;
  }
}

function place(event: { phase: string; visit: number; handler: string }): Record<string, unknown> {
  return { phase: event.phase, visit: event.visit, handler: event.handler };
}

function list(
  tasks: readonly number[],
  detail: Detail,
  row: (i: number) => Record<string, unknown>,
): Record<string, unknown> {
  if (detail === "summary") return { count: tasks.length, ranges: ranges(tasks) };
  return { count: tasks.length, tasks: tasks.map((n, i) => ({ n, ...row(i) })) };
}

/**
 * Converts task numbers to sorted ranges [first, last]. If there are more than 100 ranges, returns one range from the lowest to the
 * highest number.
 */
function ranges(tasks: readonly number[]): [number, number][] {
  const sorted = [...tasks].sort((a, b) => a - b);
  const found: [number, number][] = [];
  for (const n of sorted) {
    const last = found.at(-1);
    if (last !== undefined && n <= last[1] + 1) last[1] = n;
    else found.push([n, n]);
  }
  return found.length <= 100 ? found : [[sorted[0] as number, sorted.at(-1) as number]];
}

function tally(statuses: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function parse(text: string | null | undefined): Json {
  return text === null || text === undefined ? null : (JSON.parse(text) as Json);
}
