/** `rondo pause|resume|cancel|retry|drop ID` and `rondo signal ID NAME`: commands to an execution. */
import { userInfo } from "node:os";
import type { ExecutionView } from "../../kernel/view.ts";
import type { ExecutionHandle, SignalState } from "../../sdk/handle.ts";
import { defined } from "../../std/defined.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError, toCliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printAnswer, printJson, printLine } from "../output/print.ts";
import { readInput } from "../read-input.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { countOf } from "./ps.ts";

export type ControlFlags = ServerFlags &
  Flags<"reason" | "phase" | "visit" | "handler" | "tasks" | "error", "force" | "dryRun">;

export type Control = "pause" | "resume" | "cancel" | "retry";

const SAYS: Readonly<Record<Control, string>> = {
  pause: "starts nothing new until it is resumed",
  resume: "goes on",
  cancel: "is being cancelled",
  retry: "runs its unfinished tasks again",
};

/** Pauses, resumes, cancels or retries an execution. */
export async function control(kind: Control, id: string, options: ControlFlags): Promise<void> {
  const { visit, handler, tasks, dryRun } = options;
  const isChosen = options.phase !== undefined || options.error !== undefined;
  if (!isChosen && [visit, handler, dryRun].some((given) => given !== undefined))
    throw new CliError(
      EXIT.usage,
      "--visit, --handler and --dry-run are allowed only with --phase or --error",
    );
  if (tasks !== undefined && (options.phase === undefined || options.error !== undefined))
    throw new CliError(EXIT.usage, "--tasks is allowed only with --phase, and not with --error");
  return withServer(options, async ({ rondo }) => {
    const handle = rondo.execution(id);
    if (kind === "retry" && isChosen) return retryTasks(handle, options);
    const wasCleaning = kind === "cancel" && (await statusOf(handle)) === "cleaning";
    await handle[kind](defined({ reason: options.reason, by: whoAmI(), force: options.force }));
    const view = await viewAfter(handle);
    printChange(id, view, wasCleaning ? saysOfCleanup(options) : SAYS[kind], options);
    if (
      kind === "cancel" &&
      view?.status === "cleaning" &&
      !options.json &&
      !(wasCleaning && options.force === true)
    )
      printLine(`  to skip the rest of its clean-up: rondo cancel ${id} --force`);
  });
}

/** Reads the status of an execution. Returns null if it cannot be read; the request that follows then shows the reason. */
async function statusOf(handle: ExecutionHandle<unknown>): Promise<string | null> {
  try {
    return (await handle.describe()).status;
  } catch (thrown) {
    if (thrown instanceof RondoError) return null;
    throw thrown;
  }
}

/** Says what a cancel changes if the execution is cleaning up already. */
function saysOfCleanup({ force }: ControlFlags): string {
  return force === true
    ? "skips the rest of its clean-up"
    : "cleans up already, so this cancel changes nothing";
}

/** Retries chosen tasks of an execution. */
async function retryTasks(
  handle: ExecutionHandle<unknown>,
  { phase, visit, handler, tasks, error, dryRun, json }: ControlFlags,
): Promise<void> {
  const numbers = tasks?.split(",").map(taskNumber);
  const number = visit === undefined ? undefined : countOf(visit, "--visit");
  const choice = defined({ phase, visit: number, handler, numbers, error });
  const retried = await handle.retryTasks(choice, defined({ by: whoAmI(), dryRun }));
  if (json) printJson(retried);
  else {
    const which = error === undefined ? `of "${phase}"` : `with the error "${error}"`;
    const count = `${retried.tasks} ${retried.tasks === 1 ? "task" : "tasks"} ${which}`;
    printLine(
      dryRun === true ? `${count} would run again` : `${count} ${retried.tasks === 1 ? "runs" : "run"} again`,
    );
    if (retried.skipped.length > 0)
      printLine(`  phases that do not run again: ${retried.skipped.join(", ")}`);
  }
}

/** Parses one of the numbers in `--tasks`. Refuses an empty text, which JavaScript would read as 0. */
function taskNumber(text: string): number {
  if (/^\s*\d+\s*$/.test(text)) return Number(text);
  throw new CliError(EXIT.usage, `--tasks: "${text}" is not the number of a task`, [
    "give whole numbers with commas between them, such as 3,17",
  ]);
}

/** Deletes a damaged execution. */
export async function drop(id: string, options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    await rondo.requester.json(`/v1/executions/${encodeURIComponent(id)}/drop`, { method: "POST" });
    printAnswer(options, { dropped: id }, `${id} was deleted, with all its stored data`);
  });
}

export type SignalFlags = ServerFlags & Flags<"data" | "id" | "start" | "input" | "project", "new">;

/** Sends a signal to an execution. With `--start`, first starts the execution if it does not exist. */
export async function signal(id: string, name: string, options: SignalFlags): Promise<void> {
  const data = options.data === undefined ? null : await readInput(options.data, printLine, "-d");
  const { start, input, project } = options;
  if (start === undefined && (input !== undefined || project !== undefined || options.new === true))
    throw new CliError(EXIT.usage, "--input, --project and --new are allowed only with --start", [
      "name the workflow to start if the execution does not exist: --start <workflow>",
    ]);
  const startWith = input === undefined ? null : await readInput(input, printLine);
  return withServer(options, async ({ rondo }) => {
    const named = defined({ id: options.id });
    if (start === undefined) {
      const handle = rondo.execution(id);
      const state = await handle.signal(name, data, named).catch(async (thrown: unknown) => {
        if (!(thrown instanceof RondoError) || thrown.code !== "gone") throw thrown;
        const { workflow } = await handle.describe();
        const { exit, message } = toCliError(thrown);
        throw new CliError(exit, message, [
          `to start another execution with the signal: rondo signal ${id} ${name} --start ${workflow} -i ... --new`,
        ]);
      });
      printChange(id, await viewAfter(handle), signalled(name, state), options);
      // A signal with a misspelt name is kept as well. So the output says what the execution waits for.
      const why = state === "kept" && !options.json ? await afterwards(() => handle.why()) : null;
      if (why !== null) printLine(`  ${why}`);
      return;
    }
    const ifExists = options.new === true ? ("startNewWhenDone" as const) : undefined;
    const given = { id, ...defined({ project, ifExists }) };
    const sent = await rondo.signalWithStart(start, startWith, { name, data, ...named }, given);
    const what = signalled(name, sent.signal);
    const view = await viewAfter(sent.execution);
    printChange(id, view, sent.started ? `was started and ${what}` : what, options);
  });
}

function signalled(name: string, state: SignalState): string {
  const how =
    state === "delivered"
      ? "a waiting task has received the signal"
      : "the signal is kept until a task waits for it";
  return `has received the signal "${name}" (${how})`;
}

const viewAfter = (handle: ExecutionHandle<unknown>): Promise<ExecutionView | null> =>
  afterwards(() => handle.describe());

/**
 * Reads something after a change. Returns null if the server has ended: the server of `rondo run` ends with its execution, perhaps
 * because of this change.
 */
async function afterwards<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (thrown) {
    if (thrown instanceof RondoError && thrown.code !== "not_ready") throw thrown;
    return null;
  }
}

function printChange(id: string, view: ExecutionView | null, what: string, options: ServerFlags): void {
  const then = view === null ? "its server has ended in the meantime" : `it is ${view.status}`;
  printAnswer(options, view ?? { id }, `execution ${view?.id ?? id} ${what}; ${then}`);
}

/** Returns the name of the user who runs this process. Journals show it. */
export function whoAmI(): string | undefined {
  try {
    return userInfo().username || undefined;
  } catch {
    // In some containers the user has no name. The server then names the caller.
    return undefined;
  }
}
