/** The filters of the list of executions, which are in the address. */
import { get } from "../../api/client.ts";
import { EXECUTION_STATUSES, type ExecutionStatus, type Page, type StatusCounts } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count } from "../../core/format.ts";
import { choose } from "../../core/router.ts";

export interface ListFilter {
  readonly q: string | undefined;
  /** The wanted statuses; none stands for all. */
  readonly status: readonly ExecutionStatus[];
  readonly workflow: string | undefined;
  readonly project: string | undefined;
  /** Created at or after, and at or before, as dates such as 2026-11-17. */
  readonly since: string | undefined;
  readonly until: string | undefined;
  /** Whether children of other executions are left out. */
  readonly isTop: boolean;
  /** Whether only running executions are meant that wait for a time or a signal. */
  readonly isWaiting: boolean;
}

/** Removes every filter from the address. */
export const NO_FILTER = {
  ...{ q: null, status: null, workflow: null, project: null, since: null, until: null, top: null },
  ...{ waiting: null, sort: null, view: null },
};

/** Whether a filter leaves out anything. */
export function isFiltered({
  q,
  status,
  workflow,
  project,
  since,
  until,
  isTop,
  isWaiting,
}: ListFilter): boolean {
  return (
    isTop || isWaiting || status.length > 0 || (q ?? workflow ?? project ?? since ?? until) !== undefined
  );
}

/** The query of the list that a filter stands for. */
export function queryOf(filter: ListFilter): Readonly<Record<string, string | number | boolean | undefined>> {
  const { q, status, workflow, project, since, until, isTop, isWaiting } = filter;
  const from = since === undefined ? undefined : new Date(`${since}T00:00:00`).getTime();
  const to = until === undefined ? undefined : new Date(`${until}T23:59:59.999`).getTime();
  return {
    q,
    status: status.length === 0 ? undefined : status.join(","),
    workflow,
    project,
    from,
    to,
    top: isTop || undefined,
    waiting: isWaiting || undefined,
  };
}

/** Reads the filter from an address. */
export function readFilter(query: URLSearchParams): ListFilter {
  const text = (name: string): string | undefined => query.get(name) ?? undefined;
  return {
    q: text("q"),
    status: EXECUTION_STATUSES.filter((status) => query.get("status")?.split(",").includes(status) === true),
    workflow: text("workflow"),
    project: text("project"),
    since: dateOf(query.get("since")),
    until: dateOf(query.get("until")),
    isTop: query.get("top") === "true",
    isWaiting: query.get("waiting") === "true",
  };
}

function dateOf(text: string | null): string | undefined {
  if (text === null || !/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  return Number.isNaN(new Date(`${text}T00:00:00`).getTime()) ? undefined : text;
}

/** Executions by status, and how many of the running ones sleep or wait for a signal. */
export interface Counted {
  readonly counts: StatusCounts;
  readonly waiting: number;
}

/** A choice of statuses. Each has its count, unless other filters are set that the counts do not know. */
export function StatusChoice({
  counted,
  chosen,
  isWaiting,
}: {
  readonly counted: Counted | null;
  readonly chosen: readonly ExecutionStatus[];
  readonly isWaiting: boolean;
}) {
  const counts = counted?.counts ?? null;
  const all = Object.values(counts ?? {}).reduce((sum, n) => sum + n, 0);
  const shown = EXECUTION_STATUSES.filter(
    (status) =>
      (counts?.[status] ?? 0) > 0 ||
      chosen.includes(status) ||
      ["running", "done", "failed"].includes(status),
  );
  const toggle = (status: ExecutionStatus, isMore: boolean): void => {
    const others = isMore ? chosen.filter((one) => one !== status) : [];
    choose({ status: (chosen.includes(status) ? others : [...others, status]).join(","), waiting: null });
  };
  const number = (n: number | undefined) => (counts === null ? null : <b>{count(n ?? 0)}</b>);
  return (
    <div class="choice" role="group" aria-label="Status">
      <button
        type="button"
        aria-pressed={chosen.length === 0 && !isWaiting}
        onClick={() => choose({ status: null, waiting: null })}
      >
        all {number(all)}
      </button>
      {shown.map((status) => (
        <button
          key={status}
          type="button"
          aria-pressed={chosen.includes(status)}
          class={`choice-${status}`}
          title="Hold Shift or Ctrl to choose several"
          onClick={(event) => toggle(status, event.shiftKey || event.ctrlKey || event.metaKey)}
        >
          {status} {number(counts?.[status])}
        </button>
      ))}
      <button
        type="button"
        aria-pressed={isWaiting}
        title="Running executions that sleep, or wait for a signal or a child"
        onClick={() => choose({ status: null, waiting: isWaiting ? null : "true" })}
      >
        sleeping or waiting {number(counted?.waiting)}
      </button>
    </div>
  );
}

/** A choice of one workflow or all. */
export function WorkflowChoice({ chosen }: { readonly chosen: string | undefined }) {
  const { data } = useLive("workflow names", (signal) =>
    get<Page<{ name: string }>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
  );
  const names = data?.data.map(({ name }) => name) ?? [];
  const shown = chosen === undefined || names.includes(chosen) ? names : [chosen, ...names];
  return (
    <select
      class="input"
      aria-label="Workflow"
      value={chosen ?? ""}
      onChange={(event) => choose({ workflow: event.currentTarget.value })}
    >
      <option value="">All workflows</option>
      {shown.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
