/** `rondo audit [ids]`: recounts executions from their journals, and reports differences. */
import type { Requester } from "../../client/requester.ts";
import type { ExecutionAudit, TableAudit } from "../../server/schemas/execution.ts";
import { defined } from "../../std/defined.ts";
import { RondoError } from "../../std/rejection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, printLine } from "../output/print.ts";
import { Screen } from "../progress/screen.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { readPages } from "../server/read-pages.ts";
import { countOf } from "./ps.ts";

export type AuditOptions = ServerFlags & Flags<"workflow" | "project" | "status" | "limit", "repair">;

/** The sums over all audits. */
type Sum = Record<
  "executions" | "tasks" | "events" | "lost" | "countedTwice" | "findings" | "repaired",
  number
>;

/** Audits the named executions, or all if none is named. The exit code is 1 if a difference was found and not repaired. */
export async function audit(ids: readonly string[], options: AuditOptions): Promise<ExitCode> {
  const limit = options.limit === undefined ? Number.POSITIVE_INFINITY : countOf(options.limit, "--limit");
  const { workflow, project, status, json } = options;
  const screen = new Screen(process.stderr);
  const sum: Sum = { executions: 0, tasks: 0, events: 0, lost: 0, countedTwice: 0, findings: 0, repaired: 0 };
  const showProgress = (): void => {
    if (json !== true) screen.live(() => [[["auditing ", "dim"], showSum(sum)]]);
  };
  return withServer(options, async ({ rondo: { requester } }) => {
    const listed = readPages<{ readonly id: string }>(
      requester,
      "/v1/executions",
      defined({ workflow, project, status }),
      limit,
    );
    try {
      showProgress();
      const repair = options.repair === true;
      // Tables are audited first: an execution whose head was lost is listed only after its head is restored.
      const isAll = ids.length === 0 && options.limit === undefined;
      if (isAll && workflow === undefined && project === undefined && status === undefined) {
        const found = await auditTables(requester, { repair, json: json === true, screen });
        sum.findings += found.length;
        sum.repaired += repairedOf(found);
        showProgress();
      }
      for await (const one of audits(requester, ids.length > 0 ? ids.slice(0, limit) : listed, repair)) {
        sum.executions++;
        sum.tasks += one.tasks;
        sum.events += one.events;
        sum.lost += one.lost;
        sum.countedTwice += one.countedTwice;
        sum.findings += one.findings.length + one.more;
        sum.repaired += repairedOf(one.findings);
        if (json === true) printJson(one);
        else if (one.findings.length > 0) {
          // The progress display is removed before findings are printed, because stdout may be the same terminal.
          screen.still();
          for (const { seq, message, isRepaired } of one.findings)
            print(
              `${one.execution}${seq === 0 ? "" : `/${seq}`}: ${message}${isRepaired ? " (repaired)" : ""}`,
            );
          showProgress();
        }
      }
    } finally {
      screen.still();
    }
    printLine(showSum(sum));
    return sum.findings === sum.repaired ? EXIT.ok : EXIT.failed;
  });
}

/** Audits each execution. An execution that was purged in the meantime is skipped, unless the user has named it. */
async function* audits(
  requester: Requester,
  of: readonly string[] | AsyncIterable<{ readonly id: string }>,
  repair: boolean,
): AsyncGenerator<ExecutionAudit> {
  for await (const one of of) {
    const id = typeof one === "string" ? one : one.id;
    try {
      const path = `/v1/executions/${encodeURIComponent(id)}/audit`;
      yield await requester.json<ExecutionAudit>(path, repair ? { method: "POST" } : {});
    } catch (thrown) {
      const isForgotten = thrown instanceof RondoError && thrown.code === "not_found";
      if (typeof one === "string" || !isForgotten) throw thrown;
    }
  }
}

/** Audits the tables of the store. Returns no findings if the caller may not do that. */
async function auditTables(
  requester: Requester,
  { repair, json, screen }: { readonly repair: boolean; readonly json: boolean; readonly screen: Screen },
): Promise<TableAudit["findings"]> {
  let findings: TableAudit["findings"];
  try {
    const path = "/v1/audit/tables";
    ({ findings } = await requester.json<TableAudit>(path, repair ? { method: "POST" } : {}));
  } catch (thrown) {
    // Servers of version 0.2 have no such route, and viewers may not use it.
    if (thrown instanceof RondoError && ["not_found", "forbidden"].includes(thrown.code)) return [];
    throw thrown;
  }
  screen.still();
  for (const { table, message, isRepaired } of findings)
    if (!json) print(`${table}: ${message}${isRepaired ? " (repaired)" : ""}`);
  if (json && findings.length > 0) printJson({ tables: findings });
  return findings;
}

function showSum({ executions, tasks, events, lost, countedTwice, findings, repaired }: Sum): string {
  return (
    `${count(executions, "execution")}, ${count(events, "event")}, ${count(tasks, "task")}: ` +
    `${lost} lost, ${countedTwice} counted twice, ${count(findings, "finding")}${repaired === 0 ? "" : `, ${repaired} repaired`}`
  );
}

function repairedOf(findings: readonly { readonly isRepaired?: boolean | undefined }[]): number {
  return findings.filter(({ isRepaired }) => isRepaired === true).length;
}

function count(n: number, what: string): string {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}
