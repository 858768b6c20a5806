/** `rondo run NAME`: starts a workflow that a server knows. Returns at once; with --wait, after the execution has ended. */
import { REFERENCE_PATTERN } from "../../kernel/definition/version-name.ts";
import { ExecutionFailed } from "../../sdk/errors.ts";
import { isNear } from "../../std/decode.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { stay } from "../executions/wait.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, printLine } from "../output/print.ts";
import { Screen } from "../progress/screen.ts";
import { readInput } from "../read-input.ts";
import { type Server, withServer } from "../server/find-server.ts";
import { readAll } from "../server/read-pages.ts";
import { type Attached, attach } from "./attach.ts";
import { type RunOptions, serverCommand } from "./run-options.ts";

const KNOWN_MAX = 1_000;
const SHOWN_MAX = 10;

/** Starts the workflow. Without --wait, prints the id of the execution. */
export async function runName(name: string, options: RunOptions): Promise<ExitCode> {
  if (!REFERENCE_PATTERN.test(name))
    throw new CliError(
      EXIT.notFound,
      `there is no file ${name}, and "${name}" is not a valid name of a workflow`,
      ["a name is a letter, then up to 39 letters, digits, _ or -; a version of a workflow is NAME@1.2.0"],
    );
  const input =
    options.input === undefined ? undefined : { value: await readInput(options.input, printLine) };
  const screen = new Screen(process.stderr);
  const use = async (server: Server): Promise<ExitCode> => {
    const { handle, before } = await attachByName(server, name, input, options);
    if (before?.status === "damaged") throw new ExecutionFailed(before);
    if (options.wait !== true) {
      if (options.json) printJson(await handle.describe());
      else print(handle.id);
      const what = before === null ? "started" : before.finishedAt === null ? "goes on" : "has already ended";
      printLine(`${name}: execution ${handle.id} ${what} at ${server.name}`);
      printLine(`  to wait for the end of the execution: ${serverCommand(["wait", handle.id], options)}`);
      return EXIT.ok;
    }
    return stay(server.rondo, handle.id, {
      ...options,
      screen,
      where: `at ${server.name}`,
      wasStarted: before === null,
      hasInput: before !== null || input !== undefined,
    });
  };
  return withServer(options, use, { say: (line) => screen.print(line) });
}

/** Starts the workflow. If the server does not know the name, throws an error that lists the known names. */
async function attachByName(
  { rondo, name: where }: Server,
  name: string,
  input: { readonly value: unknown } | undefined,
  options: RunOptions,
): Promise<Attached> {
  try {
    return await attach(rondo, name, input, options);
  } catch (thrown) {
    if (!(thrown instanceof RondoError) || thrown.code !== "not_found") throw thrown;
    const known = await readAll<{ name: string }>(rondo.requester, "/v1/workflows", {}, KNOWN_MAX);
    const names = known.map((workflow) => workflow.name);
    const near = names.find((candidate) => isNear(name, candidate));
    const there = `the server has: ${names.slice(0, SHOWN_MAX).join(", ")}${names.length > SHOWN_MAX ? ", ..." : ""}`;
    throw new CliError(
      EXIT.notFound,
      `there is no workflow "${name}" at ${where}`,
      [
        ...(near === undefined ? [] : [`did you mean ${near}?`]),
        ...(names.length === 0 ? [] : [there]),
        "to serve the workflow: rondo worker FILE (with --broker also --url, so that a server gets the definition)",
      ],
      { cause: thrown },
    );
  }
}
