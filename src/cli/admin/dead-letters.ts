/** `rondo dlq`: lists, retries and drops dead letters, which are tasks that failed for good. */
import type { ExecutionView } from "../../kernel/view.ts";
import type { DeadLetter } from "../../server/schemas/dead-letter.ts";
import { defined } from "../../std/defined.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError, toCliError } from "../cli-error.ts";
import { countOf } from "../executions/ps.ts";
import { EXIT } from "../exit-code.ts";
import { printJson, printLine, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { readAll } from "../server/read-pages.ts";

export type DeadLetterListFlags = ServerFlags & Flags<"execution" | "workflow" | "project" | "limit">;

const PATH = "/v1/dead-letters";
const LIMIT = 50;

/** Lists dead letters, newest first. */
export async function listDeadLetters(options: DeadLetterListFlags): Promise<void> {
  const limit = options.limit === undefined ? LIMIT : countOf(options.limit, "--limit");
  const { execution, workflow, project } = options;
  return withServer(options, async ({ rondo }) => {
    const query = defined({ execution, workflow, project });
    // Requests one dead letter more than is shown, to find out whether there are more.
    const all = await readAll<DeadLetter>(rondo.requester, PATH, query, limit + 1);
    printRows(all.slice(0, limit), COLUMNS, { json: options.json, none: "no dead letters" });
    if (all.length > limit && !options.json) printLine("there are more dead letters; --limit shows more");
  });
}

/** Retries or drops a dead letter. */
export async function changeDeadLetter(
  action: "retry" | "drop",
  id: string,
  options: ServerFlags,
): Promise<void> {
  if (!/^\d{1,15}$/.test(id))
    throw new CliError(
      EXIT.notFound,
      `"${id}" is not the id of a dead letter: ids of dead letters are numbers`,
      ["to list the dead letters: rondo dlq"],
    );
  return withServer(options, async ({ rondo }) => {
    const path = `${PATH}/${encodeURIComponent(id)}/${action}`;
    const answer = await rondo.requester
      .json<ExecutionView | null>(path, { method: "POST" })
      .catch((thrown: unknown) => {
        if (action === "drop" || !(thrown instanceof RondoError) || thrown.code !== "wrong_status")
          throw thrown;
        const { exit, message, more } = toCliError(thrown);
        throw new CliError(exit, message, [
          ...more,
          `to take the dead letter off the list: rondo dlq drop ${id}`,
        ]);
      });
    if (options.json) printJson(answer ?? { id });
    else if (answer === null) printLine(`dead letter ${id} was dropped; its execution is not changed`);
    else printLine(`execution ${answer.id} runs its unfinished tasks again; its status is ${answer.status}`);
  });
}

const COLUMNS: Column<DeadLetter>[] = [
  { title: "ID", value: ({ id }) => id },
  { title: "EXECUTION", value: ({ execution }) => execution },
  { title: "WORKFLOW", value: ({ workflow }) => workflow },
  { title: "PHASE", value: ({ phase, visit }) => (visit > 1 ? `${phase}#${visit}` : phase) },
  { title: "HANDLER", value: ({ handler }) => handler },
  { title: "COUNT", value: ({ count }) => count, align: "right" },
  { title: "FIRST", value: ({ tasks: [first] }) => first?.n ?? null, align: "right" },
  { title: "REASON", value: ({ tasks: [first] }) => first?.reason ?? null },
  { title: "ERROR", value: ({ tasks: [first] }) => describeError(first?.error), style: () => "red" },
];

/** Shows an error's name, by which `rondo retry --error` selects tasks, and its message. */
function describeError(error: unknown): string | null {
  const { name, message } = (error ?? {}) as { readonly name?: string; readonly message?: string };
  if (message === undefined) return null;
  return name === undefined ? message : `${name}: ${message}`;
}
