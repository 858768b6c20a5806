/** Prints the end of an execution: its output to stdout, or to stderr the reason of the failure and what to do. */
import { NEXT } from "../../kernel/definition/definition.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import { damagedHint } from "../../sdk/errors.ts";
import { showDuration } from "../../std/duration.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printPainted } from "../output/print.ts";
import { jsonText } from "../output/visible.ts";
import { phaseName, settledOf, showCount } from "../progress/phase-line.ts";
import { Progress } from "../progress/progress.ts";
import type { Screen } from "../progress/screen.ts";

export interface EndReportOptions {
  /** Whether to print the execution as JSON instead of its output. */
  readonly json?: boolean | undefined;
  /** Two commands that the output suggests: one shows the whole execution, the other retries it. */
  readonly see: string;
  readonly retry: string;
  /** Whether the execution has an input; false if it was started without one. */
  readonly hasInput?: boolean | undefined;
}

/** Facts about an execution that are read after it has ended. */
export interface EndFacts {
  readonly failure: readonly string[];
  /** A value that is printed instead of the output or the execution. */
  readonly shown?: { readonly value: unknown } | undefined;
}

/** Prints the end and returns the exit code. */
export function printEnd(
  screen: Screen,
  view: ExecutionView,
  options: EndReportOptions & EndFacts,
): ExitCode {
  const { shown } = options;
  const printValue = (value: unknown) => printPainted(jsonText(value, process.stdout.isTTY ? 2 : 0));
  if (options.json) printJson(shown === undefined ? view : shown.value);
  if (view.status === "done") {
    screen.print(["✓", "green"], ` ${nameOf(view)} is done, after ${lasted(view)}`);
    if (!options.json) printValue(shown === undefined ? view.output : shown.value);
    return EXIT.ok;
  }
  // A document shows which steps are done, even if the execution failed.
  if (shown !== undefined && !options.json) printValue(shown.value);
  if (view.status === "damaged") {
    screen.print(["✗", "red"], ` ${nameOf(view)} is damaged:`);
    screen.print(`  ${view.error?.message ?? "no reason is known"}`);
    screen.print("  to see the part that can be read:  ", options.see);
    screen.print(`  ${damagedHint(view)}`);
    return EXIT.damaged;
  }
  const isFailed = view.status === "failed";
  printFailure(screen, view, options.failure);
  if (isFailed && options.hasInput === false)
    screen.print("  the execution has no input: none was given with -i");
  screen.print("  to see the whole execution:         ", options.see);
  if (view.cleanedUp === true)
    screen.print("  the execution has cleaned up after itself, so it cannot be retried: start a new one");
  else screen.print("  to run its unfinished tasks again:  ", options.retry);
  return isFailed ? EXIT.failed : EXIT.cancelled;
}

function printFailure(screen: Screen, view: ExecutionView, failure: readonly string[]): void {
  const { error } = view;
  const [mark, what] =
    view.status === "failed" ? (["✗", "failed"] as const) : (["–", "was cancelled"] as const);
  screen.print([mark, "red"], ` ${nameOf(view)} ${what} after ${lasted(view)}: `, [
    error?.code ?? "no reason",
    "bold",
  ]);
  if (error === null) return;
  for (const line of error.message.split("\n")) screen.print(`  ${line}`);
  if (error.phase !== undefined) {
    const place = error.handler === undefined ? error.phase : `${error.phase}/${error.handler}`;
    const task = error.task === undefined ? "" : `, task ${error.task}`;
    const attempt = error.attempt === undefined ? "" : `, attempt ${error.attempt}`;
    screen.print(`  in ${place}${task}${attempt}`);
  }
  for (const line of failure) screen.print(`  ${line}`);
  const handlers = view.phases.flatMap((phase) => phase.handlers).filter(({ name }) => name !== NEXT);
  const sum = (field: "total" | "done" | "failed") => handlers.reduce((n, handler) => n + handler[field], 0);
  if (sum("total") > 1)
    screen.print(
      `  ${showCount(sum("done"))} of ${showCount(sum("total"))} tasks ${sum("done") === 1 ? "is" : "are"} done, ${showCount(sum("failed"))} failed`,
    );
}

function nameOf(view: ExecutionView): string {
  return `${view.workflow} (execution ${view.id})`;
}

function lasted(view: ExecutionView): string {
  return showDuration((view.finishedAt ?? view.createdAt) - view.createdAt);
}

/** Prints that an execution was started or found. `before` is its state when it was found; null if this process started it. */
export function printStart(screen: Screen, name: string, before: ExecutionView | null, where: string): void {
  if (before === null) return screen.print(`${name} started ${where}`);
  if (before.status === "damaged") return screen.print(`${name} is damaged`);
  if (before.finishedAt !== null) return screen.print(`${name} has already ended`);
  const { current } = Progress.of(before);
  const far =
    current === null || current.total < 2
      ? ""
      : `: ${showCount(settledOf(current))} of ${showCount(current.total)} tasks of ${phaseName(current)} are settled`;
  screen.print(`${name} goes on${far}`);
}
