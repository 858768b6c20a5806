/** Follows an execution and shows its progress until it ends, Ctrl-C or SIGTERM arrives, or the timeout has passed. */
import { relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type ExecutionView, hasEnded } from "../../kernel/view.ts";
import { packageRoot } from "../../package-root.ts";
import type { ExecutionHandle, RondoClient } from "../../sdk/handle.ts";
import { showDuration } from "../../std/duration.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { durationOf } from "../duration-flag.ts";
import { whyChain } from "../executions/why-chain.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { follow } from "../progress/follow.ts";
import { type PhaseLabels, Progress } from "../progress/progress.ts";
import type { Screen } from "../progress/screen.ts";
import type { Attached } from "./attach.ts";
import type { Detach } from "./detach.ts";
import { type EndReportOptions, printEnd } from "./print-outcome.ts";
import { goOnCommand, phaseNames, type Wanted } from "./run-options.ts";

export interface FollowToEndOptions extends EndReportOptions {
  readonly screen: Screen;
  readonly detach: Detach;
  /** The state of the execution when it was found; null if this process has just started it. */
  readonly before: ExecutionView | null;
  /** Names of the phases, and their display names. */
  readonly names: readonly string[];
  readonly labels?: PhaseLabels | undefined;
  readonly timeout?: string | undefined;
  /** Returns why an execution waits. The id is that of this execution or of one of its children. */
  readonly whyOf: (id: string) => Promise<string>;
  /** The command that continues the execution. */
  readonly goOn: string;
  /** Returns a document that is printed at the end instead of the output or the execution. */
  readonly document?: (() => Promise<unknown>) | undefined;
}

/** Follows the execution and returns the exit code. */
export async function followToEnd(
  handle: ExecutionHandle<unknown>,
  options: FollowToEndOptions,
): Promise<ExitCode> {
  const { screen, detach, before, names, labels, timeout, goOn } = options;
  const isOver = before !== null && hasEnded(before);
  const shown = isOver
    ? Promise.resolve()
    : follow(handle, {
        screen,
        progress: before === null ? new Progress(labels) : Progress.of(before, labels),
        from: before === null ? 1 : before.revision + 1,
        names: names.map((name) => labels?.get(name) ?? name),
        why: () => whyChain(handle.id, options.whyOf),
      });
  // Ctrl-C or SIGTERM interrupts the reading of events with an error. Code that does not wait for the end ignores that error.
  shown.catch(() => {});
  const ending = await ended(
    handle.result(timeout === undefined ? {} : { timeout: durationOf(timeout, "--timeout") }),
    detach,
  );
  if (ending === "ended") {
    const view = await handle.describe();
    // Reading the events of a damaged execution ends with an error. The error is printed at the end.
    if (view.status !== "damaged") await shown;
    screen.still();
    const instead = options.document === undefined ? undefined : { value: await options.document() };
    return printEnd(screen, view, { ...options, shown: instead, failure: await failureLines(handle, view) });
  }
  screen.still();
  if (ending === "timeout")
    throw new CliError(
      EXIT.timeout,
      `execution ${handle.id} has not ended within ${showDuration(durationOf(timeout ?? "0", "--timeout"))}`,
      [`to continue the execution: ${goOn}`],
    );
  await detach.closed();
  screen.print(`execution ${handle.id} has not ended; its finished tasks are stored`);
  screen.print(`  to continue the execution: ${goOn}`);
  return detach.exit ?? EXIT.unreachable;
}

/** Follows the execution that `rondo run FILE` has started or found. */
export function followWanted(
  rondo: RondoClient,
  { file, options, input, workflow }: Wanted,
  { screen, detach, handle, before }: Attached & Pick<FollowToEndOptions, "screen" | "detach">,
): Promise<ExitCode> {
  return followToEnd(handle, {
    screen,
    detach,
    before,
    names: phaseNames(workflow),
    timeout: options.timeout,
    json: options.json,
    hasInput: before !== null || input !== undefined,
    whyOf: (id) => rondo.execution(id).why(),
    goOn: goOnCommand(file, handle.id, options),
    see: goOnCommand(file, handle.id, options, ["--json"]),
    retry: goOnCommand(file, handle.id, options, ["--retry"]),
  });
}

/** Refuses an invalid --timeout before anything is started. */
export function checkTimeout(timeout: string | undefined): void {
  if (timeout !== undefined) durationOf(timeout, "--timeout");
}

/** Waits, and returns why the wait ended: the execution ended or failed, a signal arrived, or the timeout has passed. */
async function ended(result: Promise<unknown>, detach: Detach): Promise<"ended" | "timeout" | "left"> {
  try {
    await result;
    return "ended";
  } catch (thrown) {
    if ((thrown as { execution?: unknown }).execution !== undefined) return "ended";
    if (thrown instanceof RondoError && thrown.code === "timeout") return "timeout";
    if (thrown instanceof RondoError && thrown.code === "not_ready" && detach.exit !== null) return "left";
    throw thrown;
  }
}

/** The error that is stored with a failed task. User code decides its content. */
type StoredError = Readonly<Record<string, unknown>>;

/** How many of the last events are searched for the task that failed. */
const LOOK_BACK = 100;

/** Returns lines that describe the failed task; none if the last events do not contain it. */
async function failureLines(handle: ExecutionHandle<unknown>, view: ExecutionView): Promise<string[]> {
  if (view.error?.task === undefined) return [];
  const error = await findError(handle, view);
  if (error === null) return [];
  const { stack, run, line, hint } = error;
  const frame = typeof stack === "string" ? userFrame(stack) : null;
  return [
    ...(frame === null ? [] : [`at ${frame}`]),
    ...(typeof run === "string"
      ? [`in the run "${run}"${typeof line === "number" ? `, line ${line}` : ""}`]
      : []),
    ...(typeof hint === "string" && hint !== "" ? [hint] : []),
  ];
}

/** Returns the first stack frame in the user's code, as `file:line:column`. */
export function userFrame(stack: string): string | null {
  for (const text of stack.split("\n")) {
    const place = /^\s+at (?:.*\()?((?:file:\/\/)?[^()]+?):(\d+):(\d+)\)?$/.exec(text);
    const [, file, line, column] = place ?? [];
    if (file === undefined || file.startsWith("node:")) continue;
    const path = file.startsWith("file://") ? fileURLToPath(file) : file;
    const isOurs = ["dist", "src", "node_modules"].some((folder) =>
      path.startsWith(packageRoot() + folder + sep),
    );
    if (isOurs) continue;
    const short = relative(process.cwd(), path);
    return `${short.startsWith("..") ? path : short}:${line}:${column}`;
  }
  return null;
}

async function findError(
  handle: ExecutionHandle<unknown>,
  { error, revision }: ExecutionView,
): Promise<StoredError | null> {
  let found: StoredError | null = null;
  for await (const event of handle.events({ from: Math.max(1, revision - LOOK_BACK), detail: "full" })) {
    if (event.kind !== "workflow.tasks.settled") continue;
    if (event["phase"] !== error?.phase || event["handler"] !== error?.handler) continue;
    const rows = (event["tasks"] ?? []) as readonly { n: number; error?: StoredError | null }[];
    found = rows.find(({ n, error: stored }) => n === error?.task && stored)?.error ?? found;
  }
  return found;
}
