/** The page of all executions: searched, filtered (the filter is in the address), counted exactly, and changed in bulk. */
import { useRef, useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { Page, StatusCounts, Summary } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { duration, plural } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { choose, go, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Ago } from "../../ui/time.tsx";
import { BulkDialog } from "./bulk-dialog.tsx";
import { type ListFilter, readFilter, StatusChoice, WorkflowChoice } from "./filters.tsx";
import { MiniBars } from "./mini-bars.tsx";
import { useExecutions } from "./use-executions.ts";
import { useProgress } from "./use-progress.ts";
import "./executions.css";

export function Executions() {
  const filter = readFilter(usePlace().query);
  const who = useSession();
  const list = useExecutions(filter);
  const counts = useCounts(filter);
  const [bulk, setBulk] = useState<"cancel" | "retry" | null>(null);
  const search = useRef<HTMLInputElement>(null);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  useKeys("Executions", [
    { keys: "/", label: "Search", run: () => search.current?.focus() },
    {
      keys: "f",
      label: "Failed only, and back",
      run: () => choose({ status: filter.status === "failed" ? null : "failed" }),
    },
    {
      keys: "r",
      label: "Running only, and back",
      run: () => choose({ status: filter.status === "running" ? null : "running" }),
    },
    {
      keys: "x",
      label: "Clear all filters",
      run: () => choose({ q: null, status: null, workflow: null, project: null }),
    },
  ]);
  return (
    <>
      <PageHead title="Executions">
        <Button icon="retry" whyNot={whyNot} onClick={() => setBulk("retry")}>
          Retry all…
        </Button>
        <Button icon="stop" whyNot={whyNot} onClick={() => setBulk("cancel")}>
          Cancel all…
        </Button>
      </PageHead>
      <div class="filters">
        <input
          ref={search}
          class="input filter-search"
          type="search"
          aria-label="Search executions by id, workflow, tag or error"
          placeholder="Search id, workflow, tag=value, error"
          value={filter.q ?? ""}
          onInput={(event) => choose({ q: event.currentTarget.value })}
        />
        <WorkflowChoice chosen={filter.workflow} />
        <StatusChoice counts={counts} chosen={filter.status} />
      </div>
      <List list={list} filter={filter} />
      {bulk === null ? null : (
        <BulkDialog action={bulk} filter={filter} onClose={() => setBulk(null)} onDone={list.reload} />
      )}
    </>
  );
}

function useCounts({ project, workflow }: ListFilter): StatusCounts {
  const key = `counts ${project ?? ""} ${workflow ?? ""}`;
  const { data } = useLive(
    key,
    (signal) => get<{ counts: StatusCounts }>("/v1/counts", { query: { project, workflow }, signal }),
    2_000,
  );
  return data?.counts ?? {};
}

function List({
  list,
  filter,
}: {
  readonly list: ReturnType<typeof useExecutions>;
  readonly filter: ListFilter;
}) {
  const [seen, setSeen] = useState<readonly Summary[]>([]);
  const progress = useProgress(seen);
  const now = useNow();
  const columns: readonly Column<Summary>[] = [
    {
      id: "status",
      head: "Status",
      width: "112px",
      cell: ({ id, status }) => <Badge state={progress.get(id)?.status ?? status} />,
    },
    {
      id: "id",
      head: "Execution",
      width: "minmax(140px, 1.3fr)",
      cell: ({ id }) => (
        <a class="mono" href={`/executions/${encodeURIComponent(id)}`} tabIndex={-1}>
          {id}
        </a>
      ),
    },
    { id: "workflow", head: "Workflow", width: "minmax(90px, 0.9fr)", cell: ({ workflow }) => workflow },
    {
      id: "progress",
      head: "Phases",
      width: "minmax(80px, 1.1fr)",
      isExtra: true,
      cell: ({ id }) => <MiniBars phases={progress.get(id)?.phases ?? null} />,
    },
    {
      id: "about",
      head: "Status detail",
      width: "minmax(130px, 1.9fr)",
      isExtra: true,
      cell: ({ phase, error, tags }) => <About phase={phase} error={error} tags={tags} />,
    },
    {
      id: "took",
      head: "Took",
      width: "84px",
      isNumber: true,
      isExtra: true,
      cell: ({ createdAt, finishedAt }) => duration((finishedAt ?? now) - createdAt),
    },
    {
      id: "started",
      head: "Started",
      width: "92px",
      isNumber: true,
      cell: ({ createdAt }) => <Ago at={createdAt} />,
    },
  ];
  if (list.problem !== null && list.rows.length === 0)
    return <Trouble problem={list.problem} onRetry={list.reload} />;
  if (list.isLoading) return <Loading rows={10} />;
  if (list.rows.length === 0)
    return (
      <section class="panel">
        <Empty title={isFiltered(filter) ? "No execution matches these filters." : "No executions yet."}>
          {isFiltered(filter) ? (
            <Button onClick={() => choose({ q: null, status: null, workflow: null, project: null })}>
              Clear the filters
            </Button>
          ) : (
            <a href="/">See how to start one</a>
          )}
        </Empty>
      </section>
    );
  return (
    <section class="panel">
      <Table
        label="Executions"
        columns={columns}
        rows={list.rows}
        keyOf={({ id }) => id}
        onOpen={({ id }) => go(`/executions/${encodeURIComponent(id)}`)}
        onEnd={list.hasMore ? list.more : undefined}
        onView={setSeen}
        foot={list.hasMore ? "Loading more…" : plural(list.rows.length, "execution")}
      />
    </section>
  );
}

function isFiltered({ q, status, workflow, project }: ListFilter): boolean {
  return (q ?? status ?? workflow ?? project) !== undefined;
}

function About({ phase, error, tags }: Pick<Summary, "phase" | "error" | "tags">) {
  if (error !== null)
    return (
      <span class="failed-text" title={error}>
        {error}
      </span>
    );
  return (
    <>
      {phase === null ? null : <span class="muted">{phase} </span>}
      {Object.entries(tags).map(([name, value]) => (
        <span key={name} class="tag">
          {name}={value}
        </span>
      ))}
    </>
  );
}

/** A page of the list. */
export type ExecutionPage = Page<Summary>;
