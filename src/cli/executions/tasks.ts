/** `rondo tasks ID`: lists tasks of the current phase, or of all phases if the execution has ended or --failed is given. */
import type { ExecutionView, HandlerView, PhaseView } from "../../kernel/view.ts";
import { ExecutionFailed } from "../../sdk/errors.ts";
import type { TaskRow } from "../../server/schemas/execution.ts";
import { defined } from "../../std/defined.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printLine, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { readAll } from "../server/read-pages.ts";
import { isLive } from "../style.ts";
import { countOf } from "./ps.ts";
import { statusStyle } from "./status-style.ts";

export type TasksFlags = ServerFlags &
  Flags<"status" | "phase" | "visit" | "handler" | "limit", "failed" | "full">;

/** A task with its phase, visit and handler. */
type ShownTask = TaskRow & { readonly phase: string; readonly visit: number; readonly handler: string };

const LIMIT = 100;

/** Lists the tasks of an execution. */
export async function tasks(id: string, options: TasksFlags): Promise<void> {
  if (options.failed && options.status !== undefined && options.status !== "failed")
    throw new CliError(EXIT.usage, "--failed and --status cannot be used together: give one of them");
  const limit = options.limit === undefined ? LIMIT : countOf(options.limit, "--limit");
  const status = options.failed ? "failed" : options.status;
  return withServer(options, async ({ rondo }) => {
    const view = await rondo.execution(id).describe();
    if (view.status === "damaged" && view.phases.length === 0) throw new ExecutionFailed(view);
    const found: ShownTask[] = [];
    for (const { phase, handler } of placesOf(view, options)) {
      // Requests one task more than is shown, to find out whether there are more.
      const left = limit + 1 - found.length;
      if (left === 0) break;
      const place = { phase: phase.name, visit: phase.visit, handler: handler.name };
      const rows = await readAll<TaskRow>(
        rondo.requester,
        `/v1/executions/${encodeURIComponent(id)}/tasks`,
        { ...place, ...defined({ status, detail: options.full ? "full" : undefined }) },
        left,
      );
      found.push(...rows.map((row) => ({ ...place, ...row })));
    }
    const columns = options.full ? [...COLUMNS, TASK] : COLUMNS;
    const isDamaged = view.status === "damaged";
    if (!isDamaged || found.length > 0)
      printRows(found.slice(0, limit), columns, { json: options.json, none: "no such tasks" });
    if (isDamaged) throw new ExecutionFailed(view);
    if (found.length > limit && !options.json)
      printLine(`there are more than ${limit} tasks; --limit shows more`);
  });
}

/**
 * Returns the handlers to show: those that the flags name, otherwise those of the current phase. After the end of the execution, or with
 * `--failed`, all phases are shown.
 */
function placesOf(
  view: ExecutionView,
  options: TasksFlags,
): { readonly phase: PhaseView; readonly handler: HandlerView }[] {
  const visit = options.visit === undefined ? null : countOf(options.visit, "--visit");
  const visited = view.phases.filter((phase) => phase.visit > 0);
  if (options.phase !== undefined && !view.phases.some(({ name }) => name === options.phase))
    throw new CliError(EXIT.notFound, `execution ${view.id} has no phase "${options.phase}"`, [
      `the phases of the execution are: ${view.phases.map(({ name }) => name).join(", ")}`,
    ]);
  const fitting = visited.filter(
    (phase) =>
      (options.phase === undefined || phase.name === options.phase) &&
      (visit === null || phase.visit === visit),
  );
  const last = fitting.find((phase) => phase.status === "running") ?? fitting.at(-1);
  const isAll =
    options.phase === undefined && visit === null && (options.failed === true || view.finishedAt !== null);
  const phases = isAll ? fitting : last === undefined ? [] : [last];
  return phases.flatMap((phase) =>
    phase.handlers
      .filter(({ name }) => options.handler === undefined || name === options.handler)
      .filter(({ failed }) => options.failed !== true || failed > 0)
      .map((handler) => ({ phase, handler })),
  );
}

const COLUMNS: Column<ShownTask>[] = [
  { title: "PHASE", value: ({ phase, visit }) => (visit > 1 ? `${phase}#${visit}` : phase) },
  { title: "HANDLER", value: ({ handler }) => handler },
  { title: "TASK", value: ({ n }) => n, align: "right" },
  { title: "STATUS", value: ({ status }) => status, style: ({ status }) => statusStyle(status) },
  { title: "ATTEMPTS", value: ({ attempts }) => attempts, align: "right" },
  { title: "MS", value: ({ ms }) => ms, align: "right" },
  { title: "WORKER", value: ({ worker }) => worker && shortWorker(worker) },
  { title: "RESULT OR ERROR", value: shortOutcome },
];
const TASK: Column<ShownTask> = { title: "TASK ITSELF", value: ({ task }) => JSON.stringify(task) ?? null };

/** The beginning of a worker's id, for narrow terminals. */
function shortWorker(id: string): string {
  return isLive(process.stdout) ? id.replace(/~(\w{4})\w{2,}/, "~$1…") : id;
}

function shortOutcome({ error, result }: ShownTask): string | null {
  if (error !== undefined && error !== null)
    return (error as { readonly message?: string }).message ?? JSON.stringify(error);
  return result === undefined ? null : JSON.stringify(result);
}
