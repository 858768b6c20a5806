/** The command line: which verbs there are. Each verb's code is loaded only when it is used. */
import { Command, CommanderError } from "commander";
import { EXIT } from "./exit-code.ts";
import { readManifest } from "./package-root.ts";
import type { RunOptions } from "./run/run-options.ts";
import { tellError } from "./tell-error.ts";

const HELP = `
Exit codes: 0 ok, 1 the execution failed, 2 usage, 3 not found, 4 conflict, 5 unauthorised, 6 unreachable,
7 cancelled, 124 timeout, 130 interrupted.`;

process.exit(await main(process.argv.slice(2)));

async function main(args: readonly string[]): Promise<number> {
  leaveQuietlyOnClosedPipe();
  let exit: number = EXIT.ok;
  const program = buildProgram((code) => {
    exit = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (thrown) {
    if (thrown instanceof CommanderError) exit = thrown.exitCode === 0 ? EXIT.ok : EXIT.usage;
    else exit = tellError(thrown);
  }
  await Promise.all([flush(process.stdout), flush(process.stderr)]);
  return exit;
}

function buildProgram(end: (exit: number) => void): Command {
  const program = new Command("rondo")
    .description("Rondo, a durable workflow engine.")
    .version(readManifest().version, "-V, --version", "print the version")
    .enablePositionalOptions()
    .showHelpAfterError("(rondo --help, or rondo <command> --help, shows what there is)")
    .addHelpText("after", HELP)
    .exitOverride();
  program
    .command("run")
    .summary("run a workflow from a file until it ends")
    .description(
      "Hosts the workflows of a file, starts one (or goes on with the execution of --id) and waits until it ends. " +
        "The output is JSON on stdout; everything else is on stderr.",
    )
    .argument("<file>", "a .ts .mts .js .mjs file that exports workflows, or a .json definition without code")
    .option("-i, --input <json>", "the input: JSON, @file, or - for stdin")
    .option("--id <id>", "the execution's id; one that exists is gone on with")
    .option("--workflow <name>", "which workflow to start, if the file exports several")
    .option("--store <url>", "file:<directory> or memory: (default: $RONDO_STORE, else file:.rondo)")
    .option(
      "--timeout <duration>",
      "stop waiting after this time, such as 30s; the execution can be gone on with",
    )
    .option("--retry", "if the execution of --id has failed or was cancelled, do what is not done again")
    .option("--json", "print the execution, on one line, instead of its output")
    .action(async (file: string, options: RunOptions) => {
      const { run } = await import("./run/run.ts");
      end(await run(file, options));
    });
  forward(program, "sim", "run the deterministic simulator", async (args) => {
    const { runSim } = await import("../sim/main.ts");
    end(await runSim(args));
  });
  forward(program, "bench", "measure throughput and latency", async (args) => {
    const { runBench } = await import("../bench/main.ts");
    end(await runBench(args));
  });
  forward(program, "demo", "fan 100,000 tasks out, and lose none when killed", async (args) => {
    const { runDemo } = await import("../demo/run-demo.ts");
    end(await runDemo(args));
  });
  return program;
}

/** A verb that reads its arguments itself, `--help` among them. */
function forward(
  program: Command,
  name: string,
  summary: string,
  action: (args: readonly string[]) => Promise<void>,
): void {
  program
    .command(name)
    .summary(summary)
    .argument("[args...]")
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action((args: readonly string[]) => action(args));
}

/** `rondo ... | head` is no error. */
function leaveQuietlyOnClosedPipe(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(EXIT.ok);
  });
}

function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
