/** `rondo versions [WORKFLOW]`: shows which definitions of workflows are still needed, and how many open executions need them. */
import type { VersionView } from "../../sdk/operations.ts";
import type { WorkflowName } from "../../server/schemas/workflow.ts";
import { showDuration } from "../../std/duration.ts";
import { printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { readAll } from "../server/read-pages.ts";

interface Row extends VersionView {
  readonly workflow: string;
}

/** Lists the versions of a workflow, or of all workflows. */
export async function versions(
  workflow: string | undefined,
  options: ServerFlags & Flags<never, "all">,
): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const names =
      workflow === undefined
        ? (await readAll<WorkflowName>(rondo.requester, "/v1/workflows")).map(({ name }) => name)
        : [workflow];
    const rows: Row[] = [];
    for (const name of names)
      for (const one of await rondo.versions(name)) rows.push({ workflow: name, ...one });
    const shown = options.all === true ? rows : rows.filter(isShown);
    printRows(shown, COLUMNS, { json: options.json, none: "no workflows; register one: rondo worker FILE" });
  });
}

/** Whether to list a definition. One without a version is listed only if it is the newest or has open executions. */
function isShown({ version, open, isNewest }: Row): boolean {
  return version !== null || open > 0 || isNewest;
}

function stateOf({ isNewest, canRetire, open, unserved }: Row): string {
  const isStuck = open > 0 && unserved.length > 0 ? `, no worker serves ${unserved[0]}` : "";
  if (canRetire) return "can be retired";
  const needs = open > 0 ? "needed" : "";
  return `${[isNewest ? "newest" : "", needs].filter((one) => one !== "").join(", ")}${isStuck}`;
}

const COLUMNS: Column<Row>[] = [
  { title: "WORKFLOW", value: ({ workflow }) => workflow },
  { title: "VERSION", value: ({ version }) => version },
  { title: "HASH", value: ({ hash }) => hash.slice(0, 12) },
  { title: "OPEN", value: ({ open }) => open, align: "right" },
  {
    title: "OLDEST",
    value: ({ oldest }) =>
      oldest === null ? null : `${oldest.id} (${showDuration(Date.now() - oldest.createdAt)})`,
  },
  { title: "WORKERS", value: ({ workers }) => workers.length, align: "right" },
  { title: "STATE", value: stateOf },
];
