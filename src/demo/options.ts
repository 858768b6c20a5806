/** The arguments of the demo. */
import { parseArgs } from "node:util";
import { CliError } from "../cli/cli-error.ts";
import { EXIT } from "../cli/exit-code.ts";

export interface DemoOptions {
  readonly tasks: number;
  /** False if the number was not asked for. */
  readonly isTasksGiven: boolean;
  readonly store: string;
  readonly help: boolean;
}

const TASKS = 100_000;
const TASKS_MAX = 10_000_000;

export const DEMO_HELP = `npm run demo -- [--tasks N] [--store file:<directory>] [--exit]

Fans N tasks (100,000) out on the embedded store, in ./.rondo-demo. Kill it with -9 at any moment and start it
again: it goes on where it was, and at the end shows that no task was lost and none counted twice.

  --exit   end by itself; so far it always does
`;

/** Reads the arguments; throws what is wrong with them. */
export function parseDemoOptions(args: readonly string[]): DemoOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      tasks: { type: "string" },
      store: { type: "string" },
      exit: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  const tasks = values.tasks === undefined ? TASKS : Number(values.tasks.replaceAll(/[_,]/g, ""));
  if (!Number.isSafeInteger(tasks) || tasks < 1 || tasks > TASKS_MAX)
    throw new CliError(EXIT.usage, `--tasks ${values.tasks} is not a whole number from 1 to ${TASKS_MAX}`);
  return {
    tasks,
    isTasksGiven: values.tasks !== undefined,
    store: values.store ?? "file:.rondo-demo",
    help: values.help === true,
  };
}
