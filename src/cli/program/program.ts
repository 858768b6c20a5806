/** The command line: which verbs there are. Each verb's code is loaded only when it is used. */
import { Command } from "commander";
import { readManifest } from "../../package-root.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { declareWorker } from "../worker/declare-worker.ts";
import { declareAdmin } from "./declare-admin.ts";
import { declareExecutions } from "./declare-executions.ts";
import { declareRun } from "./declare-run.ts";
import { type End, verb } from "./verb.ts";

const HELP = `
Exit codes: 0 ok, 1 the execution failed, 2 usage, 3 not found, 4 conflict, 5 unauthorised, 6 unreachable,
7 cancelled, 8 stored data is damaged, 9 the disk is full, 70 broken (a bug, or code that threw outside of any task),
124 timeout, 130 interrupted, 143 terminated.`;

/** The program; `end` gets the exit code of the verb that ran. */
export function buildProgram(end: End): Command {
  const program = new Command("rondo")
    .description("Rondo, a durable workflow engine.")
    .version(readManifest().version, "-V, --version", "print the version")
    .enablePositionalOptions()
    .showHelpAfterError("(rondo --help, or rondo <command> --help, shows what there is)")
    .addHelpText("after", HELP)
    .hook("preAction", (_program, command) => refuseNameless(command))
    .exitOverride();
  declareRun(program, end);
  declareWorker(program, end);
  declareExecutions(program, end);
  declareAdmin(program, end);
  forward(program, "sim", "run the deterministic simulator", async (args) => {
    const { runSim } = await import("../../../tools/sim/main.ts");
    end(await runSim(args));
  });
  forward(program, "bench", "measure throughput and latency", async (args) => {
    const { runBench } = await import("../../../tools/bench/main.ts");
    end(await runBench(args));
  });
  forward(program, "demo", "fan 100,000 tasks out, and lose none when killed", async (args) => {
    const { runDemo } = await import("../../../tools/demo/run-demo.ts");
    end(await runDemo(args));
  });
  verb(program, "completion <shell>", {
    summary: "print completion for a shell: bash, zsh or fish",
    description: 'Prints completion for a shell. For bash: eval "$(rondo completion bash)"',
  }).action(async (shell: string) =>
    end((await import("../admin/completion.ts")).completion(program, shell)),
  );
  return program;
}

/** An argument that is empty, as an unset variable of a shell is, names nothing; nor do dots, which change a path. */
function refuseNameless(command: Command): void {
  command.registeredArguments.forEach((argument, i) => {
    const given = command.args[i] ?? "";
    if (argument.name() === "id" && /^\.\.?$/.test(given))
      throw new CliError(EXIT.usage, `<id>: "${given}" is no id`);
    if (argument.required && given === "")
      throw new CliError(EXIT.usage, `<${argument.name()}> is empty`, [
        `it is used as: rondo ${[...groupOf(command), command.name(), command.usage()].join(" ")}`,
      ]);
  });
}

function groupOf({ parent }: Command): string[] {
  return parent?.parent ? [parent.name()] : [];
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
