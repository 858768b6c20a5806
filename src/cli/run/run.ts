/**
 * `rondo run FILE`:
 * 1. reads the input and loads the file, before anything is opened;
 * 2. opens the store and serves every workflow of the file, so that open executions go on too;
 * 3. starts the execution, or finds it by --id;
 * 4. shows how it goes until it ends, or until Ctrl-C or --timeout, which leave it to be gone on with;
 * 5. gives its output on stdout and an exit code.
 */
import { type AnyWorkflow, type LocalRondo, openRondo } from "../../index.ts";
import { parseDuration } from "../../std/duration.ts";
import { isRejection, RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { chooseWorkflow } from "../load/find-workflows.ts";
import { loadFile } from "../load/load-file.ts";
import { logLine } from "../log-line.ts";
import { follow } from "../progress/follow.ts";
import { phaseName, settledOf, showCount } from "../progress/phase-line.ts";
import { Progress } from "../progress/progress.ts";
import { Screen } from "../progress/screen.ts";
import { readInput } from "../read-input.ts";
import { type Attached, attach } from "./attach.ts";
import { Detach } from "./detach.ts";
import { ProcessGuard } from "./guard-process.ts";
import { goOnCommand, type RunOptions } from "./run-options.ts";
import { tellEnd } from "./tell-end.ts";

const DEFAULT_STORE = "file:.rondo";
/** Names of other open executions that are told. */
const OTHERS_TOLD = 5;

/** Runs a file's workflow; resolves with the exit code when its execution is over. */
export async function run(file: string, options: RunOptions): Promise<ExitCode> {
  checkOptions(options);
  const screen = new Screen(process.stderr);
  const guard = new ProcessGuard(screen);
  try {
    const input =
      options.input === undefined
        ? undefined
        : { value: await readInput(options.input, (line) => screen.say(line)) };
    const workflows = await loadFile(file);
    const workflow = chooseWorkflow(workflows, options.workflow, file);
    return await host(screen, guard, { file, options, input, workflows, workflow });
  } finally {
    screen.still();
    guard.release();
  }
}

interface Wanted {
  readonly file: string;
  readonly options: RunOptions;
  readonly input: { readonly value: unknown } | undefined;
  readonly workflows: readonly AnyWorkflow[];
  readonly workflow: AnyWorkflow;
}

/** Opens the store, hosts the workflows while the wanted execution lasts, and closes. */
async function host(screen: Screen, guard: ProcessGuard, wanted: Wanted): Promise<ExitCode> {
  const { file, options, input, workflows, workflow } = wanted;
  const store = options.store ?? process.env["RONDO_STORE"] ?? DEFAULT_STORE;
  let own = "";
  const rondo = await openRondo({
    store,
    onLog: (line) => {
      const pieces = logLine(line, own);
      if (pieces !== null) screen.say(...pieces);
    },
    onFault: (fault) => screen.say(["rondo: ", "yellow"], fault.message),
    onStop: (reason) => {
      screen.say(["✗", "red"], ` the engine had to stop: ${reason.stack ?? reason.message}`);
      guard.leave(EXIT.broken);
    },
  });
  const detach = new Detach({
    screen,
    close: (grace) => rondo.close(grace),
    leave: (exit) => guard.leave(exit),
  });
  try {
    const others = await openExecutions(rondo, workflows);
    rondo.serve(...workflows);
    const attached = await attach(rondo, workflow, input, options);
    own = attached.handle.id;
    guard.goOn = goOnCommand(file, own, options);
    tellStart(screen, workflow, attached, store);
    tellOthers(
      screen,
      others.filter((id) => id !== own),
    );
    return await wait(screen, attached, detach, wanted);
  } catch (thrown) {
    if (detach.exit === null) throw thrown;
    // Closing made it fail: that was asked for.
    return detach.exit;
  } finally {
    await (detach.exit === null ? rondo.close() : detach.closed());
    detach.stop();
  }
}

function checkOptions(options: RunOptions): void {
  if (options.retry && options.id === undefined)
    throw new CliError(EXIT.usage, "--retry needs the --id of an execution that has failed");
  const ms = options.timeout === undefined ? 0 : parseDuration(options.timeout, "--timeout");
  if (isRejection(ms)) throw new RondoError(ms);
}

/** Follows the execution to its end; a detached one is told how to go on with. */
async function wait(
  screen: Screen,
  { handle, before }: Attached,
  detach: Detach,
  { file, options, workflow }: Wanted,
): Promise<ExitCode> {
  const isOver = before !== null && before.finishedAt !== null;
  const shown = isOver
    ? Promise.resolve()
    : follow(handle, {
        screen,
        progress: before === null ? new Progress() : Progress.of(before),
        from: before === null ? 1 : before.revision + 1,
        names: phaseNames(workflow),
      });
  // Closing breaks off what is being read; only a caller that waits for the end needs to know.
  shown.catch(() => {});
  const ending = await ended(
    handle.result(options.timeout === undefined ? {} : { timeout: options.timeout }),
  );
  if (ending.kind === "ended") {
    await shown;
    return tellEnd(screen, await handle.status(), file, options);
  }
  screen.still();
  const goOn = `go on with: ${goOnCommand(file, handle.id, options)}`;
  if (ending.kind === "timeout")
    throw new CliError(EXIT.timeout, `execution ${handle.id} has not ended within ${options.timeout}`, [
      goOn,
    ]);
  await detach.closed();
  screen.say(`execution ${handle.id} is not over; what is done is kept`);
  screen.say(`  ${goOn}`);
  return detach.exit ?? EXIT.unreachable;
}

/** How waiting came to an end; a failed or cancelled execution has ended too. */
async function ended(result: Promise<unknown>): Promise<{ kind: "ended" | "timeout" | "closed" }> {
  try {
    await result;
    return { kind: "ended" };
  } catch (thrown) {
    const { code, execution } = thrown as { code?: string; execution?: unknown };
    if (execution !== undefined) return { kind: "ended" };
    if (thrown instanceof RondoError && code === "timeout") return { kind: "timeout" };
    if (thrown instanceof RondoError && code === "not_ready") return { kind: "closed" };
    throw thrown;
  }
}

/** Ids of executions that this file's handlers go on with, besides the one that is asked for. */
async function openExecutions(rondo: LocalRondo, workflows: readonly AnyWorkflow[]): Promise<string[]> {
  const pages = await Promise.all(
    workflows.map(({ name }) => rondo.list({ workflow: name, status: "running", limit: OTHERS_TOLD + 2 })),
  );
  return pages.flatMap((page) => page.data.map(({ id }) => id));
}

function tellStart(screen: Screen, workflow: AnyWorkflow, { handle, before }: Attached, store: string): void {
  const name = `${workflow.name}: execution ${handle.id}`;
  if (before === null) return screen.say(`${name} started in ${store}`);
  if (before.finishedAt !== null) return screen.say(`${name} had ended before`);
  const { current } = Progress.of(before);
  const far =
    current === null || current.total < 2
      ? ""
      : `: ${showCount(settledOf(current))} of ${showCount(current.total)} tasks of ${phaseName(current)} are settled`;
  screen.say(`${name} goes on${far}`);
}

function tellOthers(screen: Screen, others: readonly string[]): void {
  if (others.length === 0) return;
  const told = others.slice(0, OTHERS_TOLD).join(", ");
  const more = others.length > OTHERS_TOLD ? " and more" : "";
  screen.say(`open executions found in the store also go on until this one ends: ${told}${more}`);
}

function phaseNames({ definition }: AnyWorkflow): string[] {
  return (definition as { phases: readonly { name: string }[] }).phases.map(({ name }) => name);
}
