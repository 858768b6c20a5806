import type { JournalEvent } from "../../api/shapes.ts";
import { chosenDuration, count, plural } from "../../core/format.ts";

/** Describes an event in a sentence. */
export function describeEvent(event: JournalEvent): string {
  const kind = event.kind.replace(/^workflow\./, "");
  const text = (name: string): string => (typeof event[name] === "string" ? event[name] : "");
  const number = (name: string): number => (typeof event[name] === "number" ? event[name] : 0);
  const where = [...new Set([text("phase"), text("handler")])].filter(Boolean).join("/");
  const tasks = plural(number("count"), "task");
  const task = `task ${count(number("n"))} of ${where}`;
  const because = text("reason") === "" ? "" : ` (${text("reason")})`;
  switch (kind) {
    case "created":
      return `Created: workflow ${text("workflow")}`;
    case "phase.started":
      return `Phase ${text("phase")} started${number("visit") > 1 ? `, visit ${number("visit")}` : ""}`;
    case "phase.finished":
      return `Phase ${text("phase")} ${text("status") || "finished"}`;
    case "handler.started":
      return `${where} started`;
    case "handler.enumerated":
      return `${where}: ${plural(number("total"), "task")} in all`;
    case "handler.finished":
      return `${where} ${text("status") || "finished"}`;
    case "handler.retrying":
      return `${where}: listing of tasks failed, tries again`;
    case "handler.lost":
      return `${where}: listing of tasks was lost`;
    case "tasks.enumerated":
      return `${tasks} of ${where} listed`;
    case "tasks.settled":
      return `${settled(event)} of ${where}`;
    case "tasks.started":
      return `${tasks} of ${where} started`;
    case "tasks.accepted":
      return `${tasks} of ${where} accepted by a worker`;
    case "tasks.retrying":
      return `${tasks} of ${where} failed and will be retried${because}`;
    case "tasks.lost":
      return `${tasks} of ${where} lost: the worker stopped or was cut off`;
    case "tasks.late":
      return `${tasks} of ${where} reported late`;
    case "tasks.waiting":
      return `${tasks} of ${where} wait for a signal or a time`;
    case "tasks.retried":
      return `${tasks} of ${where} retried by ${text("by")}`;
    case "task.step":
      return `Step ${text("name")} of ${task}`;
    case "task.step.retrying":
      return `Step ${text("name")} of ${task} failed at try ${number("tries")} and is tried again`;
    case "task.step.failed":
      return `Step ${text("name")} of ${task} failed for good`;
    case "task.waiting":
      return `${task} has several waits`.replace(/^t/, "T");
    case "task.noted":
      return `${task} has read the clock, or has gone on after a failed step`.replace(/^t/, "T");
    case "task.run":
      return `Run ${text("name")} of ${task} done`;
    case "task.run.started":
      return `Run ${text("name")} of ${task} started`;
    case "task.run.crashed":
      return `Run ${text("name")} of ${task} failed`;
    case "timer.set":
      return `Timer set (${text("purpose")}): wakes in ${chosenDuration(number("due") - event.at)}`;
    case "timer.fired":
      return `Timer fired (${text("purpose") || text("timer")})`;
    case "timer.cleared":
      return `Timer cleared (${text("purpose") || text("timer")})`;
    case "signalled":
      return `Signal ${text("signal")} received`;
    case "child.started":
      return `Child ${text("child")} started for ${task}`;
    case "child.finished":
      return `Child ${text("child")} ${text("status") || "finished"}`;
    case "command.receipted":
      return `Receipt for ${where}: ${text("proc_status")}`;
    case "postop.done":
    case "postop.failed":
    case "postop.retried":
      return `Post-operation ${text("op")} to ${text("target")} ${kind.slice("postop.".length)}`;
    case "finished":
    case "ending":
      return `${kind === "ending" ? "Work ended, clean-up begins" : "Finished"}: ${text("status")}`;
    case "moved":
    case "paused":
    case "resumed":
    case "cancelling":
    case "retried":
      return `${changed(kind, text)}${text("by") === "" ? "" : ` by ${text("by")}`}${because}`;
    default:
      return [kind, where, text("status"), text("by"), text("reason")].filter(Boolean).join(" · ");
  }
}

/** A change by a user, such as "Paused" or "Moved to version 2.0.0". */
function changed(kind: string, text: (name: string) => string): string {
  const to = text("version") === "" ? text("hash").slice(0, 12) : `version ${text("version")}`;
  return `${kind[0]?.toUpperCase() ?? ""}${kind.slice(1)}${kind === "moved" ? ` to ${to}` : ""}`;
}

/** The numbers of an event that settles tasks, such as "110 done, 3 failed tasks". */
function settled(event: JournalEvent): string {
  const parts = (["done", "failed", "cancelled"] as const).flatMap((status) =>
    typeof event[status] === "number" && event[status] > 0 ? [`${count(event[status])} ${status}`] : [],
  );
  return `Tasks: ${parts.join(", ")}`;
}
