/**
 * `rondo run`. With a name, the server runs the workflow (run-name.ts). With a file:
 * 1. It reads the input and loads the file before it opens the store.
 * 2. If no other process has the data directory open, the engine runs in this process (host-here.ts). Otherwise this process becomes a
 *    worker of the one that has (host-attached.ts), and runs the engine itself if that process ends.
 * 3. It starts the execution, or finds it by --id, and shows its progress until it ends, or until Ctrl-C or --timeout. After Ctrl-C or
 *    --timeout the execution can be continued.
 * 4. It prints the output to stdout and returns an exit code.
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
const POLL_MS = 50;

/** Runs a workflow and returns the exit code. */
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

/**
 * Runs the engine in this process if no other process has the data directory open. Otherwise runs a worker for that process, or for the
 * server of --url.
 */
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
    // The owner of the directory never answered. Nothing is known about it except its lock, so the first error is thrown.
    if (ended.id === null) throw owned;
    screen.print(
      `the process that had ${store} open has ended; checking whether another process has it open now`,
    );
    wanted = { ...wanted, input: undefined, options: { ...wanted.options, id: ended.id } };
  }
}

/**
 * Waits until a process that has just opened the directory listens on its socket. Returns false if it does not; a program that embeds
 * Rondo has no socket.
 */
async function comesToListen(store: string): Promise<boolean> {
  for (let waitedMs = 0; !hasSocket(store); waitedMs += POLL_MS) {
    if (waitedMs >= LISTENS_WITHIN_MS) return false;
    await sleep(systemClock({ hold: true }), POLL_MS);
  }
  return true;
}

/** Refuses a definition file whose handlers are code. If a server is named, its workers may have that code, so the file is allowed. */
async function refuseData({ workflows, file }: Wanted): Promise<void> {
  if (workflows.every(({ handlers }) => handlers.length > 0)) return;
  const { refuseWithoutCode } = await import("../load/read-definition.ts");
  for (const workflow of workflows) refuseWithoutCode(workflow, file);
}
