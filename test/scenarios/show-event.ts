/** An event on one line, for transcripts: its number, its kind, and what a reader wants to know. */
import type { Event, Recorded } from "../../src/kernel/event.ts";

export function showEvent({ seq, event }: Recorded): string {
  return `${String(seq).padStart(3)} ${event.kind} ${details(event)}`.trimEnd();
}

function details(event: Event): string {
  switch (event.kind) {
    case "created":
      return `${event.workflow} input=${event.input}`;
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
    case "timer.set":
    case "timer.fired":
    case "timer.cleared":
      return `${event.timer} (${event.purpose}) at ${event.due}`;
    case "signalled":
      return `${event.signal} ${event.data}`;
    case "paused":
    case "resumed":
    case "cancelling":
      return `by ${event.by}${event.reason === null ? "" : `: ${event.reason}`}`;
    case "retried":
      return `${event.phase}/${event.visit} round ${event.round}`;
    case "finished":
      return `${event.status}${event.output === null ? "" : ` output=${event.output}`}${event.error === null ? "" : ` ${event.error.code}: ${event.error.message}`}`;
  }
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
