/** The arguments of the demo. */
import { parseArgs } from "node:util";
import { CliError } from "../../src/cli/cli-error.ts";
import { EXIT } from "../../src/cli/exit-code.ts";

export interface DemoOptions {
  readonly tasks: number;
  /** Whether the number of tasks was given. */
  readonly isTasksGiven: boolean;
  readonly store: string;
  /** The port; null: 7777, or any free port if that is taken. */
  readonly port: number | null;
  /** Whether the demo ends by itself when all is done. */
  readonly isExiting: boolean;
  readonly help: boolean;
}

const TASKS = 100_000;
const TASKS_MAX = 10_000_000;

export const DEMO_HELP = `Usage: rondo demo [--tasks N] [--exit] [--port N] [--store file:<directory>]

Starts a server with the dashboard, three worker processes beside it, and plays: a fan-out of N tasks (100,000), a timer,
a chain of commands with a broadcast, a script. Kill workers, freeze them, deliver messages twice, or kill the
whole demo with -9 and start it again: it continues, and shows that no task was lost and none counted twice.

  --tasks N    how wide the fan-out is
  --exit       end when all is done; by itself it does so where there is no terminal
  --port N     where the server listens: 7777 by default, or any that is free if that is taken
  --store URL  where its data is: file:.rondo-demo by default; remove the directory to start from nothing
`;

/** Parses the arguments. Throws if one is wrong. */
export function parseDemoOptions(args: readonly string[], isTerminal: boolean): DemoOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      tasks: { type: "string" },
      store: { type: "string" },
      port: { type: "string" },
      exit: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  const tasks =
    values.tasks === undefined ? TASKS : wholeNumber("--tasks", values.tasks, { least: 1, most: TASKS_MAX });
  return {
    tasks,
    isTasksGiven: values.tasks !== undefined,
    store: values.store ?? "file:.rondo-demo",
    port: values.port === undefined ? null : wholeNumber("--port", values.port, { least: 0, most: 65_535 }),
    isExiting: values.exit === true || !isTerminal,
    help: values.help === true,
  };
}

function wholeNumber(flag: string, text: string, range: { least: number; most: number }): number {
  const value = text === "" ? Number.NaN : Number(text.replaceAll(/[_,]/g, ""));
  if (Number.isSafeInteger(value) && value >= range.least && value <= range.most) return value;
  throw new CliError(
    EXIT.usage,
    `${flag} ${text} is not a whole number from ${range.least} to ${range.most}`,
  );
}
