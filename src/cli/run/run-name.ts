/** `rondo run NAME`: starts a workflow that a server knows, and returns at once, or with --wait when it is over. */

import { stay } from "../executions/wait.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, tell } from "../output/print.ts";
import { readInput } from "../read-input.ts";
import { type Server, withServer } from "../server/find-server.ts";
import { attach } from "./attach.ts";
import { type RunOptions, serverCommand } from "./run-options.ts";

/** Starts it; the id is what is printed if nothing is waited for. */
export async function runName(name: string, options: RunOptions): Promise<ExitCode> {
  const input = options.input === undefined ? undefined : { value: await readInput(options.input, tell) };
  return withServer(options, async (server: Server) => {
    const { handle, before } = await attach(server.rondo, name, input, options);
    if (options.wait !== true) {
      if (options.json) printJson(await handle.status());
      else print(handle.id);
      const what = before === null ? "started" : before.finishedAt === null ? "goes on" : "had ended before";
      tell(`${name}: execution ${handle.id} ${what} at ${server.name}`);
      tell(`  to wait for its end: ${serverCommand(["wait", handle.id], options)}`);
      return EXIT.ok;
    }
    return stay(handle, { ...options, where: `at ${server.name}`, wasStarted: before === null });
  });
}
