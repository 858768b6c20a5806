/** Prints a log line of a handler: `phase/handler#task` and the logged values. */
import { inspect } from "node:util";
import type { LogLine } from "../index.ts";
import type { Screen } from "./progress/screen.ts";

/** Prints a log line. Lines with progress are not printed: they are for programs. `own` is the id of the execution that is shown. */
export function printLog(screen: Screen, line: LogLine, own = ""): void {
  if (line.level === "progress") return;
  const attempt = line.attempt > 1 ? ` (attempt ${line.attempt})` : "";
  const place = `${line.phase}/${line.handler}${line.task < 0 ? "" : `#${line.task}`}${attempt}`;
  const prefix = line.execution === own ? place : `${line.execution} ${place}`;
  const text = line.parts.map(show).join(" ").replaceAll("\n", "\n  ");
  const style = line.level === "error" ? "red" : line.level === "warn" ? "yellow" : null;
  screen.print([prefix, "dim"], " ", style === null ? text : [text, style]);
}

function show(part: unknown): string {
  return typeof part === "string" ? part : inspect(part, { depth: 4, breakLength: Number.POSITIVE_INFINITY });
}
