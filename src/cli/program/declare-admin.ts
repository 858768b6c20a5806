/** Verbs about the server and what it keeps: schedules, dead letters, workers, tokens, backups, its state of health. */
import type { Command } from "commander";
import type { BackupOptions } from "../admin/backup.ts";
import type { DeadLetterListFlags } from "../admin/dead-letters.ts";
import type { DoctorOptions } from "../admin/doctor.ts";
import type { RestoreOptions } from "../admin/restore.ts";
import type { ScheduleAction, SchedulePutFlags } from "../admin/schedules.ts";
import type { TokenFlags } from "../admin/tokens.ts";
import type { ServerFlags } from "../server/find-server.ts";
import { declareMoves } from "./declare-moves.ts";
import { type End, verb } from "./verb.ts";

/** Declares them. */
export function declareAdmin(program: Command, end: End): void {
  declareSchedules(program, end);
  declareDeadLetters(program, end);
  declareRing(program, end);
  declareWorkers(program, end);
  declareTokens(program, end);
  verb(program, "backup <file>", {
    summary: "write a copy of the whole store to a file, while it is in use",
    isRemote: true,
  }).action(async (file: string, options: BackupOptions) =>
    end(await (await import("../admin/backup.ts")).backup(file, options)),
  );
  verb(program, "restore <file>", { summary: "make a data directory from a backup; nothing may run on it" })
    .option(
      "--store <url>",
      "file:<directory>, which must have no store (default: $RONDO_STORE, else file:.rondo)",
    )
    .option("--json", "print JSON")
    .action(async (file: string, options: RestoreOptions) =>
      end(await (await import("../admin/restore.ts")).restore(file, options)),
    );
  declareMoves(program, end);
  verb(program, "openapi", {
    summary: "print the description of the API, also without a server",
    isRemote: true,
  }).action(async (options: ServerFlags) =>
    end(await (await import("../admin/openapi.ts")).openapi(options)),
  );
  verb(program, "doctor", {
    summary: "show the settings with their origins, and what works here",
    isRemote: true,
  })
    .option("--host <address>", "as for start")
    .option("--port <n>", "as for start")
    .option("--broker <url>", "as for start")
    .action(async (options: DoctorOptions) =>
      end(await (await import("../admin/doctor.ts")).doctor(options)),
    );
}

const SCHEDULE_ACTIONS: readonly [action: ScheduleAction, summary: string][] = [
  ["pause", "start nothing by a schedule until it is resumed"],
  ["resume", "go on with a paused schedule"],
  ["run", "start an execution by a schedule now"],
  ["rm", "remove a schedule; what it started goes on"],
];

function declareSchedules(program: Command, end: End): void {
  const group = program.command("schedules").summary("list, put, pause, resume, run and remove schedules");
  verb(group, "list", { summary: "list schedules", isRemote: true, isDefault: true }).action(
    async (options: ServerFlags) => end(await (await import("../admin/schedules.ts")).listSchedules(options)),
  );
  verb(group, "put <id>", { summary: "make or change a schedule", isRemote: true })
    .requiredOption("--workflow <name>", "what to start")
    .requiredOption(
      "--cron <expression>",
      "when: five fields such as '0 3 * * *', six with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly",
    )
    .option("-i, --input <json>", "the input: JSON, @file, or - for stdin")
    .option("--time-zone <name>", "such as Europe/Berlin (default: UTC)")
    .option("--misfire <policy>", "for times that were missed: fireOnce (default), skip or all")
    .option(
      "--overlap <policy>",
      "while one still runs: allow (default), skip, or queue, which keeps one start until it has ended",
    )
    .option("--project <name>", "the project of what it starts")
    .action(async (id: string, options: SchedulePutFlags) =>
      end(await (await import("../admin/schedules.ts")).putSchedule(id, options)),
    );
  for (const [action, summary] of SCHEDULE_ACTIONS)
    verb(group, `${action} <id>`, { summary, isRemote: true }).action(
      async (id: string, options: ServerFlags) =>
        end(await (await import("../admin/schedules.ts")).changeSchedule(action, id, options)),
    );
}

function declareDeadLetters(program: Command, end: End): void {
  const group = program.command("dlq").summary("list, retry and drop tasks that failed for good");
  const filters = (command: Command): Command =>
    command
      .option("--execution <id>", "of this execution only")
      .option("--workflow <name>", "of this workflow only")
      .option("--project <name>", "of this project only");
  filters(
    verb(group, "list", { summary: "list tasks that failed for good", isRemote: true, isDefault: true }),
  )
    .option("--limit <n>", "at most so many (default: 50)")
    .action(async (options: DeadLetterListFlags) =>
      end(await (await import("../admin/dead-letters.ts")).listDeadLetters(options)),
    );
  verb(group, "retry <id>", { summary: "try the execution of a dead letter again", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../admin/dead-letters.ts")).changeDeadLetter("retry", id, options)),
  );
  verb(group, "drop <id>", { summary: "take a dead letter off the list", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../admin/dead-letters.ts")).changeDeadLetter("drop", id, options)),
  );
}

function declareRing(program: Command, end: End): void {
  verb(program, "ring", { summary: "show the nodes of the cluster", isRemote: true }).action(
    async (options: ServerFlags) => end(await (await import("../admin/ring.ts")).showRing(options)),
  );
}

function declareWorkers(program: Command, end: End): void {
  const group = program.command("workers").summary("list and drain workers");
  verb(group, "list", { summary: "list connected workers", isRemote: true, isDefault: true }).action(
    async (options: ServerFlags) => end(await (await import("../admin/workers.ts")).listWorkers(options)),
  );
  verb(group, "drain <id>", { summary: "give a worker nothing new", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../admin/workers.ts")).drainWorker(id, options)),
  );
}

function declareTokens(program: Command, end: End): void {
  const group = program.command("token").summary("make, list and revoke tokens");
  verb(group, "create", {
    summary: "make a token; it is shown once",
    description:
      "Makes a token; it is on stdout, once. As soon as there is one, every request over TCP needs one; the data " +
      "directory's socket never does. Where no server works on the data directory, the next one there knows it.",
    isRemote: true,
  })
    .option("--name <name>", "whose it is, for lists and the audit log (default: its role and the date)")
    .option("--role <role>", "viewer, operator, admin or worker (default: operator)")
    .option("--project <name>", "bind it to one project")
    .option("--expires <duration>", "how long it is good for, such as 30d (default: until it is revoked)")
    .action(async (options: TokenFlags) =>
      end(await (await import("../admin/tokens.ts")).createToken(options)),
    );
  verb(group, "list", {
    summary: "list tokens, without what proves them",
    isRemote: true,
    isDefault: true,
  }).action(async (options: ServerFlags) =>
    end(await (await import("../admin/tokens.ts")).listTokens(options)),
  );
  verb(group, "revoke <id>", { summary: "make a token good for nothing", isRemote: true }).action(
    async (id: string, options: ServerFlags) =>
      end(await (await import("../admin/tokens.ts")).revokeToken(id, options)),
  );
}
