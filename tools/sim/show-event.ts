/** Shows commits as lines of the trace. */
import type { Event } from "../../src/kernel/event.ts";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import type { Commit } from "../../src/store/store.ts";
import type { World } from "./world.ts";

/** Traces a commit. Its content is for people only and not part of the hash. */
export function showWrite({ trace, timeline }: World, what: string, { writes, mailTaken }: Commit): void {
  const rows = writes.map((write) => `${write.execution}+${write.entries.length}`).join(" ");
  trace.note(timeline.now, `${what} ${rows}`);
  for (const write of writes)
    trace.detail(() => {
      const events = write.entries.flatMap((entry) =>
        decodeEntry(entry).map(({ event }) => showEvent(event)),
      );
      const letters = (write.mail ?? []).map(
        ({ id, to, body }) => `mail ${id} to ${to}: ${body.slice(0, 60)}`,
      );
      return `  ${write.execution} ${[...events, ...letters].join("; ")}`;
    });
  if (mailTaken !== undefined) trace.detail(() => `  mail taken: ${mailTaken.join(" ")}`);
}

function showEvent(event: Event): string {
  const list =
    "tasks" in event && "attempts" in event
      ? ` ${event.tasks.map((task, i) => `${task}.${event.attempts[i]}`).join(" ")}`
      : "task" in event
        ? ` ${event.task}${"attempt" in event ? `.${event.attempt}` : ""}`
        : "";
  const place =
    "handler" in event
      ? ` ${event.phase}.${event.visit}/${event.handler}`
      : "phase" in event
        ? ` ${event.phase}.${event.visit}`
        : "";
  const what =
    event.kind === "tasks.settled"
      ? ` ${event.statuses.join()}`
      : event.kind === "task.step"
        ? ` ${event.name} ${event.reason}`
        : event.kind === "tasks.waiting"
          ? ` ${event.names.join()} ${event.dues.join()}`
          : event.kind === "task.waiting"
            ? ` ${event.waits.map(({ name, due, signals }) => `${name} ${due ?? signals?.join("|")}`).join()}`
            : event.kind === "task.step.retrying" || event.kind === "task.step.failed"
              ? ` ${event.name} ${event.tries}`
              : "status" in event
                ? ` ${event.status}`
                : "timer" in event
                  ? ` ${event.timer} ${event.due}`
                  : "";
  return `${event.kind}${place}${list}${what}`;
}
