import type { Command } from "commander";
import { type End, verb } from "../program/verb.ts";
import type { WorkerFlags } from "./worker-flags.ts";

/** Declares `rondo worker`. */
export function declareWorker(program: Command, end: End): void {
  verb(program, "worker [files...]", {
    summary: "do tasks for a server with the handlers of files",
    description:
      "Registers the workflows of the files with a server, claims their tasks, and does them here, scripts included; " +
      "without files it does scripts only. " +
      "With --broker it takes tasks and commands out of the queues of a RabbitMQ instead (docs/protocol.md). " +
      "SIGTERM ends it gracefully: nothing new is claimed, what runs may end, and the exit code is 0.",
    isRemote: true,
  })
    .option("--socket <path>", "the server's unix socket, instead of --url")
    .option("--broker <url>", "work out of the queues of this broker: amqp://... or amqps://...")
    .option("--prefix <prefix>", "what the names at the broker begin with (default: rondo)")
    .option("--capacity <n>", "tasks at a time (default: 100)")
    .option("--name <name>", "how it is called in lists (default: host and process)")
    .option("--spool <directory>", "keep what is not acknowledged on disk, so that it survives this process")
    .option("--status-port <n>", "the port of its own status API (default: any that is free)")
    .option("--grace <duration>", "how long running tasks may take to end (default: 25s)")
    .option("--min <n>", "keep at least this many worker processes")
    .option("--max <n>", "add processes up to this many while they are busy")
    .option("--sample <duration>", "how often it is looked how busy they are (default: 1s)")
    .option(
      "--unsafe-no-jail",
      "do scripts without the outer sandbox where it cannot be had: trusted scripts only",
    )
    .action(async (files: string[], flags: WorkerFlags) =>
      end(await (await import("./worker.ts")).runWorker(files, flags)),
    );
}
