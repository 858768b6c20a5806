/** `rondo audit [ids]`: counts executions anew from their journals, and says what does not agree. */
import type { Audit } from "../../audit/auditor.ts";
import { defined } from "../../std/defined.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, tell } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";
import { countOf } from "./ps.ts";

export interface AuditOptions extends ServerFlags {
  readonly workflow?: string;
  readonly project?: string;
  readonly status?: string;
  /** How many at most, the newest first. */
  readonly limit?: string;
}

type Requester = { readonly json: <T>(path: string) => Promise<T> };

const PAGE = 100;

/** Audits the executions that are named, or all; 1 if something is wrong. */
export async function audit(ids: readonly string[], options: AuditOptions): Promise<ExitCode> {
  const limit = options.limit === undefined ? Number.POSITIVE_INFINITY : countOf(options.limit, "--limit");
  return withServer(options, async ({ rondo: { requester } }) => {
    const sum = { executions: 0, tasks: 0, events: 0, lost: 0, countedTwice: 0, findings: 0 };
    for await (const id of ids.length > 0 ? ids : idsOf(requester, options)) {
      if (sum.executions >= limit) break;
      const one = await requester.json<Audit>(`/v1/executions/${encodeURIComponent(id)}/audit`);
      sum.executions++;
      sum.tasks += one.tasks;
      sum.events += one.events;
      sum.lost += one.lost;
      sum.countedTwice += one.countedTwice;
      sum.findings += one.findings.length + one.more;
      if (options.json) printJson(one);
      else
        for (const { seq, message } of one.findings) print(`${id}${seq === 0 ? "" : `/${seq}`}: ${message}`);
    }
    const { executions, tasks, events, lost, countedTwice, findings } = sum;
    tell(
      `${count(executions, "execution")}, ${count(events, "event")}, ${count(tasks, "task")}: ` +
        `${lost} lost, ${countedTwice} counted twice, ${count(findings, "finding")}`,
    );
    return findings === 0 ? EXIT.ok : EXIT.failed;
  });
}

async function* idsOf(requester: Requester, options: AuditOptions): AsyncGenerator<string> {
  const { workflow, project, status } = options;
  let cursor: string | null = null;
  do {
    const query: URLSearchParams = new URLSearchParams({
      ...defined({ workflow, project, status }),
      limit: String(PAGE),
      ...(cursor === null ? {} : { cursor }),
    });
    const page = await requester.json<{ data: readonly { id: string }[]; next: string | null }>(
      `/v1/executions?${query.toString()}`,
    );
    for (const { id } of page.data) yield id;
    cursor = page.next;
  } while (cursor !== null);
}

function count(n: number, what: string): string {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}
