import type { JournalEvent } from "../../api/shapes.ts";
import { count, duration, plural } from "../../core/format.ts";

/** Describes an event in a few words. */
export function describeEvent(event: JournalEvent): string {
  const kind = event.kind.replace(/^workflow\./, "");
  const where = [event["phase"], event["handler"]].filter((text) => typeof text === "string");
  const place = where.length === 2 && where[0] === where[1] ? where[0] : where.join("/");
  const parts = [kind];
  if (place !== "") parts.push(String(place));
  parts.push(...details(event));
  return parts.join(" · ");
}

function details(event: JournalEvent): string[] {
  const text = (name: string): string[] => (typeof event[name] === "string" ? [event[name]] : []);
  const number = (name: string): string[] =>
    typeof event[name] === "number" && event[name] > 0 ? [`${count(event[name])} ${name}`] : [];
  const tasks = (name: string): string[] =>
    typeof event[name] === "number" && event[name] > 0 ? [plural(event[name], "task")] : [];
  const one = (name: string): string[] => (typeof event[name] === "number" ? [`task ${event[name]}`] : []);
  switch (event.kind.replace(/^workflow\./, "")) {
    case "created":
      return text("workflow");
    case "tasks.enumerated":
      return tasks("count");
    case "tasks.settled":
      return [...number("done"), ...number("failed"), ...number("cancelled")];
    case "tasks.retrying":
    case "tasks.accepted":
    case "tasks.started":
    case "tasks.lost":
    case "tasks.late":
    case "tasks.waiting":
      return [...tasks("count"), ...text("reason")];
    case "task.step":
    case "task.run":
    case "task.run.started":
    case "task.run.crashed":
      return [...one("n"), ...text("name")];
    case "timer.set":
      return [
        ...text("purpose"),
        ...(typeof event["due"] === "number" ? [`in ${duration(event["due"] - event.at)}`] : []),
      ];
    case "handler.enumerated":
      return tasks("total");
    case "signalled":
      return text("signal");
    case "child.started":
    case "child.finished":
      return [...one("n"), ...text("child"), ...text("status")];
    case "postop.done":
    case "postop.failed":
    case "postop.retried":
      return [...text("op"), ...text("target")];
    default:
      return [...text("status"), ...text("by"), ...text("reason")];
  }
}
