/** Finds or starts the execution of `rondo run`, and prints whether it was found or started. */
import { splitVersionedName } from "../../kernel/definition/version-name.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import type { ExecutionHandle, RondoClient } from "../../sdk/handle.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { defined } from "../../std/defined.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError, toCliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import type { RunOptions } from "./run-options.ts";

export interface Attached {
  readonly handle: ExecutionHandle<unknown>;
  /** The state of the execution when it was found; null if this process has just started it. */
  readonly before: ExecutionView | null;
}

/** Finds or starts the execution. If no `input` is given, an existing execution keeps its own input. */
export async function attach(
  rondo: RondoClient,
  workflow: AnyWorkflow | string,
  input: { readonly value: unknown } | undefined,
  options: RunOptions,
): Promise<Attached> {
  const { id } = options;
  const { name } = splitVersionedName(typeof workflow === "string" ? workflow : workflow.name);
  const before = id === undefined ? null : await find(rondo, id);
  if (before === null) {
    if (options.retry)
      throw new CliError(EXIT.notFound, `there is no execution ${id} to retry`, [
        "check the value of --id, and of --store or --url",
      ]);
    return { handle: await start(rondo, workflow, input, options), before };
  }
  if (before.workflow !== name)
    throw new CliError(
      EXIT.conflict,
      `execution ${id} belongs to the workflow "${before.workflow}", not to "${name}"`,
      ["choose another --id, or run the file of that workflow"],
    );
  const handle =
    input === undefined ? rondo.execution(before.id) : await start(rondo, workflow, input, options);
  if (options.retry && (before.status === "failed" || before.status === "cancelled")) {
    await handle.retry({ by: "rondo run --retry" });
    // The revision and the phases from before the retry are used, so that all events of the retry are shown.
    const { revision, phases } = before;
    return { handle, before: { ...(await handle.describe()), revision, phases } };
  }
  return { handle, before };
}

async function find(rondo: RondoClient, id: string): Promise<ExecutionView | null> {
  try {
    return await rondo.execution(id).describe();
  } catch (thrown) {
    if (thrown instanceof RondoError && thrown.code === "not_found") return null;
    throw thrown;
  }
}

async function start(
  rondo: RondoClient,
  workflow: AnyWorkflow | string,
  input: { readonly value: unknown } | undefined,
  { id, project }: RunOptions,
): Promise<ExecutionHandle<unknown>> {
  try {
    return await rondo.start(workflow, input?.value, defined({ id, project }));
  } catch (thrown) {
    const { exit, message, more } = toCliError(thrown);
    const code = thrown instanceof RondoError ? thrown.code : null;
    if (code === "conflict")
      throw new CliError(exit, message, ["leave out -i to continue the execution, or choose another --id"], {
        cause: thrown,
      });
    const isOfInput = thrown instanceof RondoError && /^input\b/.test(thrown.path ?? "");
    if (code === "invalid_input" && isOfInput && input === undefined)
      throw new CliError(
        exit,
        message,
        [...more, `give the input: -i '<JSON>', -i @file, or -i - for stdin`],
        {
          cause: thrown,
        },
      );
    throw thrown;
  }
}
