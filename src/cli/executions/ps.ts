/** `rondo ps`: lists executions, newest first. */
import { NEXT, RETURNS } from "../../kernel/definition/definition.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import { defined } from "../../std/defined.ts";
import { showDuration } from "../../std/duration.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printLine, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { statusStyle } from "./status-style.ts";

export type PsOptions = ServerFlags &
  Flags<"status" | "workflow" | "project" | "limit" | "query"> & {
    readonly tag?: readonly string[];
    readonly continued?: boolean;
  };

const LIMIT = 50;
const PAGE_MAX = 100;
/** The most executions that are read from the server to fill the list. */
const READ_MAX = 2_000;

/** Lists executions. An execution that has continued as another one is left out, so that each chain of executions is one line. */
export async function ps(options: PsOptions): Promise<void> {
  const limit = countOf(options.limit ?? String(LIMIT), "--limit");
  const { status, workflow, project, query: q } = options;
  const tags = options.tag === undefined ? undefined : Object.fromEntries(options.tag.map(tagOf));
  return withServer(options, async ({ rondo }) => {
    const found: ExecutionView[] = [];
    let [read, left] = [0, 0];
    let cursor: string | null = null;
    do {
      const page = await rondo.list({
        ...defined({ workflow, project, q, tags, status: status as ExecutionView["status"] | undefined }),
        // If some executions are left out because they have continued as others, larger pages are read: there are probably more of them.
        limit: left > 0 ? PAGE_MAX : Math.min(PAGE_MAX, limit - found.length),
        ...(cursor === null ? {} : { cursor }),
      });
      for (const view of page.data)
        if (view.continuedAs !== undefined && options.continued !== true) left++;
        else found.push(view);
      read += page.data.length;
      cursor = page.next;
    } while (cursor !== null && found.length < limit && read < READ_MAX);
    const now = Date.now();
    const shown = found.slice(0, limit);
    printRows(shown, columnsOf(shown, now), { json: options.json, none: "no executions" });
    if (options.json) return;
    if (left > 0)
      printLine(`${left} executions that continued as others are left out; --continued shows them`);
    if (found.length < limit && cursor !== null)
      printLine(`only the newest ${read} executions were read; --status running shows the open ones`);
    else if (cursor !== null || found.length > limit)
      printLine(`there are more than ${limit} executions; --limit shows more`);
  });
}

/** Parses a tag flag `name=value` or `name`. The value is null if any value matches. */
function tagOf(text: string): [name: string, value: string | null] {
  const at = text.indexOf("=");
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)];
}

/** Parses a flag that is a whole number above zero. */
export function countOf(text: string, flag: string): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0 && /^\d+$/.test(text)) return n;
  throw new CliError(EXIT.usage, `${flag}: "${text}" is not a whole number above zero`);
}

function columnsOf(views: readonly ExecutionView[], now: number): Column<ExecutionView>[] {
  const hasProjects = views.some(({ project }) => project !== "default");
  return [
    { title: "ID", value: ({ id }) => id },
    { title: "WORKFLOW", value: ({ workflow }) => workflow },
    ...(hasProjects ? [{ title: "PROJECT", value: ({ project }: ExecutionView) => project }] : []),
    { title: "STATUS", value: ({ status }) => status, style: ({ status }) => statusStyle(status) },
    { title: "PHASE", value: ({ phase }) => phase },
    { title: "TASKS", value: tasksOf, align: "right" },
    { title: "AGE", value: ({ createdAt }) => showDuration(now - createdAt), align: "right" },
    {
      title: "TOOK",
      value: ({ createdAt, finishedAt }) =>
        finishedAt === null ? null : showDuration(finishedAt - createdAt),
      align: "right",
    },
  ];
}

/**
 * Shows the numbers of settled and known tasks: of the current phase, or of all phases after the end. Phases and handlers that Rondo adds
 * itself are left out.
 */
function tasksOf(view: ExecutionView): string | null {
  const running = view.phases.filter(({ status }) => status === "running");
  const handlers = (running.length > 0 ? running : view.phases)
    .filter(({ name }) => name !== RETURNS)
    .flatMap((phase) => phase.handlers)
    .filter(({ name }) => name !== NEXT);
  const total = handlers.reduce((sum, handler) => sum + handler.total, 0);
  const settled = handlers.reduce((sum, { done, failed, cancelled }) => sum + done + failed + cancelled, 0);
  if (total === 0) return null;
  const failed = handlers.reduce((sum, handler) => sum + handler.failed, 0);
  const known = handlers.every(({ sealed }) => sealed) ? "" : "+";
  return `${settled}/${total}${known}${failed === 0 ? "" : `, ${failed} failed`}`;
}
