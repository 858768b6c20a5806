/** `rondo move ID --to VERSION`: moves executions to another version of their workflow. */
import { defined } from "../../std/defined.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printAnswer, printJson, printLine } from "../output/print.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { whoAmI } from "./control.ts";

export type MoveFlags = ServerFlags & Flags<"to" | "workflow" | "project" | "reason", "dryRun">;

const HASH = /^[\da-f]{64}$/;
/** The most executions that could not be moved whose reasons are printed. */
const SHOWN = 20;

/** Moves one execution, or all open executions of a workflow. */
export async function move(id: string | undefined, options: MoveFlags): Promise<ExitCode> {
  const { to = "", workflow, project, reason, dryRun } = options;
  if ((id === undefined) === (workflow === undefined) || (project !== undefined && workflow === undefined))
    throw new CliError(
      EXIT.usage,
      "give the id of an execution, or --workflow <name> to move all its open executions (also with --project)",
    );
  const target = HASH.test(to) ? { hash: to } : { version: to };
  return withServer(options, async ({ rondo }) => {
    if (id !== undefined) {
      const handle = rondo.execution(id);
      await handle.move(target, defined({ reason, dryRun, by: whoAmI() }));
      const what = dryRun === true ? "can be moved" : "is moved";
      printAnswer(options, await handle.describe(), `execution ${id} ${what} to ${to}`);
      return EXIT.ok;
    }
    const filter = { workflow: workflow as string, status: ["running", "paused"] as const };
    const { matched, ids, refused } = await rondo.bulk(
      "move",
      { ...filter, ...defined({ project }) },
      { ...target, ...defined({ reason, dryRun }) },
    );
    if (options.json) printJson({ matched, ids, refused });
    else {
      printLine(
        `${ids.length} of ${matched} executions ${dryRun === true ? "can be moved" : "were moved"} to ${to}`,
      );
      for (const { id: one, message } of refused.slice(0, SHOWN)) printLine(`  ${one}: ${message}`);
      if (refused.length > SHOWN) printLine(`  and ${refused.length - SHOWN} more that cannot be moved`);
    }
    return refused.length === 0 ? EXIT.ok : EXIT.failed;
  });
}
