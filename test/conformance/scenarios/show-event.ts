/** Events and letters on one line each, for transcripts: what a reader wants to know of them. */
import type { Event, Recorded } from "../../../src/kernel/event.ts";
import type { Sent } from "../../../src/kernel/message.ts";

/** An event with its number. */
export function showEvent({ seq, event }: Recorded): string {
  return `${String(seq).padStart(3)} ${event.kind} ${details(event)}`.trimEnd();
}

function details(event: Event): string {
  switch (event.kind) {
    case "created":
      return `${event.workflow} input=${event.input}${event.parent === undefined ? "" : `, child of ${showId(event.parent.execution)}`}`;
    case "phase.started":
      return `${event.phase}/${event.visit}`;
    case "phase.finished":
      return `${event.phase}/${event.visit} ${event.status}, next ${event.next ?? "none"}`;
    case "handler.started":
      return place(event);
    case "handler.enumerated":
      return `${place(event)} total ${event.total}`;
    case "handler.finished":
      return `${place(event)} done ${event.done}, failed ${event.failed}, cancelled ${event.cancelled}`;
    case "handler.retrying":
      return `${place(event)} attempt ${event.attempt} ${event.reason}, ${event.until === null ? "given up" : `again at ${event.until}`}: ${error(event.error)}`;
    case "handler.lost":
      return `${place(event)} attempt ${event.attempt}`;
    case "tasks.enumerated":
      return `${place(event)} from ${event.from}: ${event.tasks.join(" ")}`;
    case "tasks.started":
    case "tasks.lost":
      return `${place(event)} ${rows(event, () => "")}`;
    case "tasks.retrying":
      return `${place(event)} ${rows(event, (i) => ` ${event.reasons[i]}, again at ${event.untils[i]}`)}`;
    case "tasks.settled":
      return `${place(event)} ${rows(event, (i) => ` ${event.statuses[i]}${event.reasons[i] === null ? "" : ` (${event.reasons[i]})`} ${event.payloads[i]}`)}`;
    case "tasks.late":
      return `${place(event)} ${rows(event, (i) => ` ${event.statuses[i]} ${event.accepted[i] ? "accepted" : "noted"}`)}`;
    case "tasks.waiting":
      return `${place(event)} ${rows(event, (i) => ` "${event.names[i]}" ${event.signals[i] === null ? `until ${event.dues[i]}` : `for the signal ${event.signals[i]}`}`)}`;
    case "task.step":
      return `${place(event)} ${event.task}#${event.attempt} "${event.name}" (${event.reason}) ${event.error === null ? event.result : error(event.error)}`;
    case "task.run":
      return `${place(event)} ${event.task}#${event.attempt} ${event.index} "${event.name}" state ${event.state}${event.oversized ? ", over the limit" : ""}`;
    case "child.started":
    case "child.finished":
      return `${place(event)} ${event.task}#${event.attempt} ${showId(event.child)}${event.status === undefined ? "" : ` ${event.status}`}`;
    case "command.receipted":
      return `${place(event)} ${event.task}#${event.attempt} ${event.procStatus} ${event.result ?? error(event.error)}`;
    case "postop.done":
    case "postop.failed":
      return `${place(event)} ${event.task} ${event.op} ${event.index}#${event.attempt} to ${event.target}${event.error === null ? "" : `: ${error(event.error)}, ${event.until === null ? "given up" : `again at ${event.until}`}`}`;
    case "postop.retried":
      return `${place(event)} ${event.task} ${event.op} ${event.index} by ${event.by}`;
    case "timer.set":
    case "timer.fired":
    case "timer.cleared":
      return `${event.timer} (${event.purpose}) at ${event.due}`;
    case "signalled":
      return `${event.signal} ${event.data}`;
    case "paused":
    case "resumed":
    case "cancelling":
      return `by ${showId(event.by)}${event.reason === null ? "" : `: ${event.reason}`}`;
    case "retried":
      return `${event.phase}/${event.visit} round ${event.round}`;
    case "finished":
      return `${event.status}${event.output === null ? "" : ` output=${event.output}`}${event.error === null ? "" : ` ${event.error.code}: ${event.error.message}`}`;
  }
}

/** An id with its hash cut short. */
export function showId(id: string): string {
  return id.replace(/(~[0-9a-f]{6})[0-9a-f]+$/, "$1");
}

/** A message to another execution on one line. */
export function showSent({ to, message }: Sent): string {
  const more =
    message.kind === "start"
      ? ` ${message.workflow} input=${message.input}`
      : message.kind === "child"
        ? ` ${showId(message.child)} ${message.status} ${message.payload}`
        : ` by ${message.by}${message.reason === null ? "" : `: ${message.reason}`}`;
  return `~> ${showId(to)} ${message.kind}${more}`;
}

function place({ phase, visit, handler }: { phase: string; visit: number; handler: string }): string {
  return `${phase}/${visit}/${handler}`;
}

/** Each task as number#attempt. */
function rows(
  event: { tasks: readonly number[]; attempts: readonly number[] },
  more: (i: number) => string,
): string {
  return event.tasks.map((task, i) => `${task}#${event.attempts[i]}${more(i)}`).join("; ");
}

function error(text: string | null): string {
  if (text === null) return "";
  return (JSON.parse(text) as { message?: string }).message ?? "";
}
