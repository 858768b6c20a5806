/** The filters of the list of executions, which are in the address. */
import { get } from "../../api/client.ts";
import { EXECUTION_STATUSES, type ExecutionStatus, type Page, type StatusCounts } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count } from "../../core/format.ts";
import { choose } from "../../core/router.ts";

export interface ListFilter {
  readonly q: string | undefined;
  readonly status: ExecutionStatus | undefined;
  readonly workflow: string | undefined;
  readonly project: string | undefined;
}

/** Reads the filter from an address. */
export function readFilter(query: URLSearchParams): ListFilter {
  const text = (name: string): string | undefined => query.get(name) ?? undefined;
  return {
    q: text("q"),
    status: EXECUTION_STATUSES.find((status) => status === query.get("status")),
    workflow: text("workflow"),
    project: text("project"),
  };
}

/** A choice of one status or all, each with its count. */
export function StatusChoice({
  counts,
  chosen,
}: {
  readonly counts: StatusCounts;
  readonly chosen: ExecutionStatus | undefined;
}) {
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const shown = EXECUTION_STATUSES.filter(
    (status) =>
      (counts[status] ?? 0) > 0 || status === chosen || ["running", "done", "failed"].includes(status),
  );
  return (
    <div class="choice" role="group" aria-label="Status">
      <button type="button" aria-pressed={chosen === undefined} onClick={() => choose({ status: null })}>
        all <b>{count(all)}</b>
      </button>
      {shown.map((status) => (
        <button
          key={status}
          type="button"
          aria-pressed={status === chosen}
          class={`choice-${status}`}
          onClick={() => choose({ status: status === chosen ? null : status })}
        >
          {status} <b>{count(counts[status] ?? 0)}</b>
        </button>
      ))}
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
