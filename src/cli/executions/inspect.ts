/** `rondo inspect ID`: shows the whole state of an execution, now or after a given event. */
import { exactly } from "../../kernel/definition/names.ts";
import type { ExecutionView, HandlerView, PhaseView } from "../../kernel/view.ts";
import { showDuration } from "../../std/duration.ts";
import { printJson, printPainted } from "../output/print.ts";
import { showTime } from "../output/show-time.ts";
import { type Column, tableLines } from "../output/table.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { isColoured, Painter } from "../style.ts";
import { countOf } from "./ps.ts";
import { statusStyle } from "./status-style.ts";
import { whyChain } from "./why-chain.ts";

export type InspectOptions = ServerFlags & Flags<"at">;

/** Shows an execution. */
export async function inspect(id: string, options: InspectOptions): Promise<void> {
  const at = options.at === undefined ? undefined : countOf(options.at, "--at");
  return withServer(options, async ({ rondo }) => {
    const path = `/v1/executions/${encodeURIComponent(id)}`;
    const view = await rondo.requester.json<ExecutionView>(path, { query: { at } });
    if (options.json) return printJson(view);
    const isOpen = at === undefined && view.finishedAt === null;
    printFacts(view, isOpen ? await whyChain(id, (each) => rondo.execution(each).why()) : null);
    const rows = view.phases.flatMap(rowsOf);
    if (rows.length > 0) printPainted("", ...tableLines(columnsOf(rows), rows, process.stdout));
  });
}

function workflowOf({ workflow, workflowVersion }: ExecutionView): string {
  return workflowVersion === undefined ? workflow : `${workflow} ${workflowVersion}`;
}

function printFacts(view: ExecutionView, why: string | null): void {
  const { error } = view;
  const place = [error?.phase, error?.handler].filter((part) => part !== undefined).join("/");
  const facts: [name: string, value: string | null][] = [
    ["id", view.id],
    ["workflow", `${workflowOf(view)} (${view.workflowHash.slice(0, 12)})`],
    ["project", view.project],
    ["status", view.status],
    ["phase", view.phase],
    ["why", why],
    ["continues", view.continues === undefined ? null : exactly(view.continues)],
    ["continued", view.continuedAs === undefined ? null : `as ${view.continuedAs}`],
    ["created", `${showTime(view.createdAt)} (${showDuration(Date.now() - view.createdAt)} ago)`],
    [
      "finished",
      view.finishedAt === null
        ? null
        : `${showTime(view.finishedAt)} (after ${showDuration(view.finishedAt - view.createdAt)})`,
    ],
    ["events", String(view.revision)],
    [
      "tags",
      Object.entries(view.tags ?? {})
        .map(([name, value]) => `${name}=${value}`)
        .join(" "),
    ],
    ["input", JSON.stringify(view.input)],
    ["output", view.status === "done" ? JSON.stringify(view.output) : null],
    [
      "error",
      error &&
        `${error.code}: ${error.message}${place === "" ? "" : ` (in ${place}${error.task === undefined ? "" : `, task ${error.task}`})`}`,
    ],
  ];
  const painter = new Painter(isColoured(process.stdout));
  for (const [name, value] of facts) {
    if (value === null || value === "") continue;
    const style = name === "status" ? statusStyle(value) : null;
    printPainted(painter.line([[name.padEnd(10), "dim"], style === null ? value : [value, style]]));
  }
}

interface Row {
  readonly phase: PhaseView;
  readonly handler: HandlerView | null;
}

const COUNTS = ["done", "failed", "cancelled", "running", "pending", "retrying", "waiting"] as const;

/** The columns of the table. Counts that are zero in every row have no column. */
function columnsOf(rows: readonly Row[]): Column<Row>[] {
  const counts = COUNTS.filter((field) => field === "done" || rows.some(({ handler }) => handler?.[field]));
  return [
    ...COLUMNS,
    ...counts.map((field) => ({
      title: field.toUpperCase(),
      value: ({ handler }: Row) => handler?.[field] ?? null,
      align: "right" as const,
    })),
  ];
}

const COLUMNS: Column<Row>[] = [
  { title: "PHASE", value: ({ phase }) => (phase.visit > 1 ? `${phase.name}#${phase.visit}` : phase.name) },
  { title: "STATUS", value: ({ phase }) => phase.status, style: ({ phase }) => statusStyle(phase.status) },
  { title: "HANDLER", value: ({ handler }) => handler?.name ?? null },
  {
    title: "TOTAL",
    value: ({ handler }) => (handler === null ? null : `${handler.total}${handler.sealed ? "" : "+"}`),
    align: "right",
  },
];

function rowsOf(phase: PhaseView): Row[] {
  return phase.handlers.length === 0
    ? [{ phase, handler: null }]
    : phase.handlers.map((handler) => ({ phase, handler }));
}
