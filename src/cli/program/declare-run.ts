/** `run`, and the verbs that serve: `start`, `dev`, `worker`. */
import type { Command } from "commander";
import type { InitOptions } from "../init/init.ts";
import type { RunOptions } from "../run/run-options.ts";
import type { SubmitFlags } from "../run/submit.ts";
import type { StartFlags } from "../start/serve.ts";
import { type End, verb } from "./verb.ts";

/** Declares them. */
export function declareRun(program: Command, end: End): void {
  verb(program, "run <target>", {
    summary: "run a workflow from a file until it ends, or start one by name at a server",
    description:
      "A file (.ts .mts .js .mjs .json .yaml .yml, or anything with a slash): hosts its workflows, starts one, or goes on " +
      "with the execution of --id, and waits until it ends. Where another process works on the directory, this one " +
      "is its worker meanwhile. A name: starts that workflow at a server. " +
      "The output is JSON on stdout; everything else is on stderr.",
  })
    .option("-i, --input <json>", "the input: JSON, @file, or - for stdin")
    .option("--id <id>", "the execution's id; one that exists is gone on with")
    .option("--workflow <name>", "which workflow to start, if the file exports several")
    .option("--project <name>", "the project that the execution belongs to")
    .option("--wait", "by name: wait until it ends")
    .option(
      "--timeout <duration>",
      "stop waiting after this time, such as 30s; the execution can be gone on with",
    )
    .option("--retry", "if the execution of --id has failed or was cancelled, do what is not done again")
    .option("--unsafe-no-jail", "run scripts even where their sandbox has no outer layer; trusted ones only")
    .option(
      "--store <url>",
      "file:<directory>, memory: or postgres://... (default: $RONDO_STORE, else file:.rondo)",
    )
    .option("--url <url>", "the server; a file is then hosted as a worker of it")
    .option("--token <token>", "who asks (default: $RONDO_TOKEN)")
    .option("--json", "print the execution, on one line, instead of its output")
    .action(async (target: string, options: RunOptions) =>
      end(await (await import("../run/run.ts")).run(target, options)),
    );
  declareSubmit(program, end);
  verb(program, "init [directory]", {
    summary: "make a small project: a workflow, its tests, scripts",
    description:
      "Makes a small project in the directory (by default here): one workflow, its test under the simulator, and scripts. " +
      "Nothing that is there is overwritten.",
  })
    .option("--json", "print what was made as JSON")
    .action(async (directory: string | undefined, options: InitOptions) =>
      end((await import("../init/init.ts")).init(directory, options)),
    );
  serving(verb(program, "start", { summary: "start a server: an engine node and its API" })).action(
    async (options: StartFlags) => end(await (await import("../start/start.ts")).start(options)),
  );
  serving(
    verb(program, "dev [files...]", {
      summary: "start a server and a worker for files, which follows their changes",
      description:
        "Starts a server and, in a process of its own, a worker for the files. When a file changes, or what it imports, " +
        "a new worker takes over and the one before ends what it runs. Running executions keep their definition.",
    }),
  ).action(async (files: string[], options: StartFlags) =>
    end(await (await import("../dev/dev.ts")).dev(files, options)),
  );
}

function declareSubmit(program: Command, end: End): void {
  verb(program, "submit <file>", {
    summary: "hand in workflows of commands, written as a document",
    description:
      "Hands in the command workflows of a file (.json, .yaml or .yml; - is JSON on stdin) to a server: { steps }, or a " +
      "whole project document. Prints their ids; with --wait it stays until they are over and prints them as they are " +
      "then, with their results.",
    isRemote: true,
  })
    .option("--project <name>", "the project (default: the one that the document names, else default)")
    .option("--id <id>", "the id of the workflow; handed in again under it, the same one is found")
    .option("--wait", "wait until they are over")
    .option("--timeout <duration>", "stop waiting after this time, such as 30s (exit code 124)")
    .action(async (file: string, options: SubmitFlags) =>
      end(await (await import("../run/submit.ts")).submit(file, options)),
    );
}

function serving(command: Command): Command {
  return command
    .option(
      "--store <url>",
      "file:<directory>, memory: or postgres://... (default: $RONDO_STORE, else file:.rondo)",
    )
    .option("--host <address>", "where to listen (default: $RONDO_HOST, else 127.0.0.1)")
    .option("--port <n>", "0: any that is free (default: $RONDO_PORT, else 7777)")
    .option("--broker <url>", "amqp://...: work for workers at this RabbitMQ (default: $RONDO_BROKER)")
    .option("--json", "print where it listens as JSON: { url, socket }");
}
