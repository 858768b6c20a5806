/** Declares the command line: the verbs of verbs.ts, and the verbs of tools/. */
import { Command } from "commander";
import { readManifest } from "../../package-root.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { declare, type End } from "./verb.ts";
import { VERBS } from "./verbs.ts";

const HELP = `
Exit codes: 0 ok, 1 the execution failed, 2 usage, 3 not found, 4 conflict, 5 unauthorised, 6 unreachable,
7 cancelled, 8 stored data is damaged, 9 the disk is full, 70 broken (a bug, code that threw outside of any task,
or a database that has lost acknowledged writes), 124 timeout, 130 interrupted, 143 terminated.`;

/** Builds the command line. Calls `end` with the exit code of the verb that ran. */
export function buildProgram(end: End): Command {
  const program = new Command("rondo")
    .description("Rondo, a durable workflow engine.")
    .version(readManifest().version, "-V, --version", "print the version")
    .enablePositionalOptions()
    .showHelpAfterError("(rondo --help, or rondo <command> --help, lists the commands and their options)")
    .addHelpText("after", HELP)
    .hook("preAction", (_program, command) => refuseNameless(command))
    .exitOverride();
  for (const verb of VERBS) declare(program, verb, end);
  forward(program, "sim", "run the deterministic simulator", async (args) => {
    const { runSim } = await import("../../../tools/sim/main.ts");
    end(await runSim(args));
  });
  forward(program, "bench", "measure throughput and latency", async (args) => {
    const { runBench } = await import("../../../tools/bench/main.ts");
    end(await runBench(args));
  });
  forward(
    program,
    "demo",
    "run 100,000 tasks, and show that none is lost when the process is killed",
    async (args) => {
      const { runDemo } = await import("../../../tools/demo/run-demo.ts");
      end(await runDemo(args));
    },
  );
  const completion = {
    name: "completion <shell>",
    summary: "print completion for a shell: bash, zsh or fish",
    description: 'Prints completion for a shell. For bash: eval "$(rondo completion bash)"',
    isLocal: true,
    load: async () => {
      const { completion: print } = await import("../admin/completion.ts");
      return (shell: string) => print(program, shell);
    },
  };
  declare(program, completion, end);
  return program;
}

/**
 * Refuses an empty argument, which comes from an unset shell variable. Refuses `.` and `..` as an id, because they would change the path
 * of a URL.
 */
function refuseNameless(command: Command): void {
  command.registeredArguments.forEach((argument, i) => {
    const given = command.args[i] ?? "";
    if (argument.name() === "id" && /^\.\.?$/.test(given))
      throw new CliError(EXIT.usage, `<id>: "${given}" is not an id`);
    if (argument.required && given === "")
      throw new CliError(EXIT.usage, `<${argument.name()}> is empty`, [
        `usage: rondo ${[...groupOf(command), command.name(), command.usage()].join(" ")}`,
      ]);
  });
}

function groupOf({ parent }: Command): string[] {
  return parent?.parent ? [parent.name()] : [];
}

/** Declares a verb that parses its arguments itself, `--help` included. */
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
