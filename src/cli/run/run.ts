/**
 * `rondo run`: by name it is the server's to do (run-name.ts). A file is hosted here until its execution ends:
 * 1. reads the input and loads the file, before anything is opened;
 * 2. directory free: the engine is in this process (host-here.ts); owned: this process is a worker of the owner's
 *    (host-attached.ts). An owner that goes away is succeeded by this process;
 * 3. starts the execution, or finds it by --id, and shows how it goes until it ends, or until Ctrl-C or --timeout, which
 *    leave it to be gone on with;
 * 4. gives its output on stdout and an exit code.
 */

import { systemClock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { chooseWorkflow } from "../load/find-workflows.ts";
import { isFileName, loadFile } from "../load/load-file.ts";
import { Screen } from "../progress/screen.ts";
import { readInput } from "../read-input.ts";
import { hasSocket, readConfig, socketAddress } from "../server/find-server.ts";
import { checkTimeout } from "./follow-to-end.ts";
import { ProcessGuard } from "./guard-process.ts";
import type { RunOptions, Wanted } from "./run-options.ts";

const LISTENS_WITHIN_MS = 3_000;
const LOOK_MS = 50;

/** Runs a workflow; resolves with the exit code. */
export async function run(target: string, options: RunOptions): Promise<ExitCode> {
  if (options.retry && options.id === undefined)
    throw new CliError(EXIT.usage, "--retry needs the --id of an execution that has failed");
  checkTimeout(options.timeout);
  if (isFileName(target)) return runFile(target, options);
  const { runName } = await import("./run-name.ts");
  return runName(target, options);
}

async function runFile(file: string, options: RunOptions): Promise<ExitCode> {
  const screen = new Screen(process.stderr);
  const guard = new ProcessGuard(screen);
  try {
    const input =
      options.input === undefined
        ? undefined
        : { value: await readInput(options.input, (line) => screen.print(line)) };
    const { workflows, topics } = await loadFile(file);
    const workflow = chooseWorkflow(workflows, options.workflow, file);
    return await host(screen, guard, { file, options, input, workflows, topics, workflow });
  } finally {
    screen.still();
    guard.release();
  }
}

/** Where the engine is: here if the directory is free, else at its owner; at the server of --url if one is named. */
async function host(screen: Screen, guard: ProcessGuard, asked: Wanted): Promise<ExitCode> {
  const { url, token } = asked.options;
  const { config } = await readConfig({ store: asked.options.store, url, token });
  if (url !== undefined && config.url !== null) {
    const { hostAttached } = await import("./host-attached.ts");
    const owner = { address: config.url, name: config.url, token: config.token, mayGo: false };
    return (await hostAttached(screen, guard, asked, owner)) as ExitCode;
  }
  const { store } = config;
  if (!hasSocket(store)) await refuseData(asked);
  const { hostHere } = await import("./host-here.ts");
  for (let wanted = asked; ; ) {
    let owned: unknown;
    try {
      return await hostHere(screen, guard, wanted, config);
    } catch (thrown) {
      if ((thrown as Error).name !== "DirectoryOwned" || !(await comesToListen(store))) throw thrown;
      owned = thrown;
    }
    const { hostAttached } = await import("./host-attached.ts");
    const address = await socketAddress(store);
    const owner = { address, name: `the owner of ${store}`, token: null, mayGo: true };
    const ended = await hostAttached(screen, guard, wanted, owner);
    if (typeof ended === "number") return ended;
    // Whoever had the directory answered nothing at all: then its lock is all we know.
    if (ended.id === null) throw owned;
    screen.print(`the owner of ${store} has gone; looking who has it now`);
    wanted = { ...wanted, input: undefined, options: { ...wanted.options, id: ended.id } };
  }
}

/** An owner that has just begun opens its socket a moment later; one that is no command of ours has none. */
async function comesToListen(store: string): Promise<boolean> {
  for (let waitedMs = 0; !hasSocket(store); waitedMs += LOOK_MS) {
    if (waitedMs >= LISTENS_WITHIN_MS) return false;
    await sleep(systemClock({ hold: true }), LOOK_MS);
  }
  return true;
}

/** A definition file whose handlers are code needs a server, whose workers may have them. */
async function refuseData({ workflows, file }: Wanted): Promise<void> {
  if (workflows.every(({ handlers }) => handlers.length > 0)) return;
  const { refuseWithoutCode } = await import("../load/read-definition.ts");
  for (const workflow of workflows) refuseWithoutCode(workflow, file);
}
