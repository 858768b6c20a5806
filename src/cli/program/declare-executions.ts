/** Verbs about executions at a server. */
import type { Command } from "commander";
import type { AuditOptions } from "../executions/audit.ts";
import type { Control, ControlFlags, SignalFlags } from "../executions/control.ts";
import type { EventsFlags } from "../executions/events.ts";
import type { InspectOptions } from "../executions/inspect.ts";
import type { LogsFlags } from "../executions/logs.ts";
import type { PsOptions } from "../executions/ps.ts";
import type { TasksFlags } from "../executions/tasks.ts";
import type { WaitOptions } from "../executions/wait.ts";
import type { ServerFlags } from "../server/find-server.ts";
import { type End, verb } from "./verb.ts";

/** Declares them. */
export function declareExecutions(program: Command, end: End): void {
  declareReading(program, end);
  declareChanging(program, end);
}

function declareReading(program: Command, end: End): void {
  verb(program, "ps", { summary: "list executions, newest first", isRemote: true })
    .option("--status <status>", "running, paused, cancelling, done, failed, cancelled or damaged")
    .option("--workflow <name>", "of this workflow only")
    .option("--project <name>", "of this project only")
    .option(
      "-q, --query <words>",
      "words that must all fit: the beginning of an id, at least 8 digits of the definition's hash, a workflow's whole name (case counts), a tag's name or value, or a word of the error",
    )
    .option("--tag <tag>", "with this tag, as name=value or name; several times for several tags", another)
    .option("--limit <n>", "at most so many (default: 50)")
    .action(async (options: PsOptions) => end(await (await import("../executions/ps.ts")).ps(options)));
  verb(program, "inspect <id>", { summary: "show all of an execution", isRemote: true })
    .option("--at <seq>", "as it was after the event of this number")
    .action(async (id: string, options: InspectOptions) =>
      end(await (await import("../executions/inspect.ts")).inspect(id, options)),
    );
  verb(program, "events <id>", { summary: "show the journal of an execution", isRemote: true })
    .option("-f, --follow", "go on as it grows, until the execution is over")
    .option("--full", "tasks as rows, not as counts and ranges")
    .option("--from <seq>", "from the event of this number on")
    .action(async (id: string, options: EventsFlags) =>
      end(await (await import("../executions/events.ts")).events(id, options)),
    );
  verb(program, "tasks <id>", { summary: "list tasks of an execution", isRemote: true })
    .option("--failed", "failed ones only")
    .option("--status <status>", "pending, running, retrying, waiting, done, failed or cancelled")
    .option("--phase <name>", "of this phase (default: the one that runs; all once it is over)")
    .option("--visit <n>", "of this visit of the phase (default: the last)")
    .option("--handler <name>", "of this handler (default: all of the phase)")
    .option("--full", "with the tasks themselves")
    .option("--limit <n>", "at most so many (default: 100)")
    .action(async (id: string, options: TasksFlags) =>
      end(await (await import("../executions/tasks.ts")).tasks(id, options)),
    );
  verb(program, "logs <id>", { summary: "show what tasks of an execution logged", isRemote: true })
    .option("-f, --follow", "go on as lines come, until the execution is over")
    .option("--phase <name>", "of this phase only")
    .option("--handler <name>", "of this handler only")
    .option("--task <n>", "of this task only")
    .option("--level <level>", "debug, info, warn, error, progress or run")
    .action(async (id: string, options: LogsFlags) =>
      end(await (await import("../executions/logs.ts")).logs(id, options)),
    );
  verb(program, "why <id>", { summary: "say what an execution waits for", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../executions/why.ts")).why(id, options)),
  );
  verb(program, "audit [ids...]", {
    summary: "count executions anew from their journals, and compare",
    description:
      "Reads the journals of these executions (by default of all) from the first event on, derives phases, tasks and " +
      "counts by rules of its own, and compares them with what the server shows. Nothing is changed without --repair. Exit code 1 if " +
      "something does not agree and was not repaired.",
    isRemote: true,
  })
    .option("--status <status>", "with this status only")
    .option("--workflow <name>", "of this workflow only")
    .option("--project <name>", "of this project only")
    .option("--limit <n>", "at most so many, the newest first")
    .option("--repair", "repair data that is derived from journals: heads, timers, counts, indexes")
    .action(async (ids: string[], options: AuditOptions) =>
      end(await (await import("../executions/audit.ts")).audit(ids, options)),
    );
  verb(program, "wait <id>", {
    summary: "wait until an execution is over",
    description:
      "Waits until an execution is over. Its output is JSON on stdout, and the exit code says how it ended. " +
      "Ctrl-C leaves the execution alone.",
    isRemote: true,
  })
    .option("--timeout <duration>", "stop waiting after this time, such as 30s (exit code 124)")
    .action(async (id: string, options: WaitOptions) =>
      end(await (await import("../executions/wait.ts")).wait(id, options)),
    );
}

const CONTROLS: readonly [kind: Control, summary: string][] = [
  ["cancel", "stop an execution for good"],
  ["pause", "start nothing new of an execution"],
  ["resume", "go on with a paused execution"],
  ["retry", "do again what is not done of a failed or cancelled execution"],
];

function declareChanging(program: Command, end: End): void {
  for (const [kind, summary] of CONTROLS)
    verb(program, `${kind} <id>`, { summary, isRemote: true })
      .option("--reason <text>", "why, for others to read")
      .action(async (id: string, options: ControlFlags) =>
        end(await (await import("../executions/control.ts")).control(kind, id, options)),
      );
  verb(program, "drop <id>", { summary: "delete a damaged execution", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../executions/control.ts")).drop(id, options)),
  );
  verb(program, "signal <id> <name>", { summary: "send a signal to an execution", isRemote: true })
    .option("-d, --data <json>", "what it carries: JSON, @file, or - for stdin")
    .option("--id <id>", "sent again under the same id, it changes nothing")
    .action(async (id: string, name: string, options: SignalFlags) =>
      end(await (await import("../executions/control.ts")).signal(id, name, options)),
    );
}

/** Gathers an option that can be given several times. */
function another(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
