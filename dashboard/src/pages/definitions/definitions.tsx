/** The page of all workflows, by name. */
import { useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { Page, WorkflowFigures, WorkflowName } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count } from "../../core/format.ts";
import { go } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { RunDialog } from "./run-dialog.tsx";
import { ms, successOf } from "./stats.tsx";

export function Definitions() {
  const who = useSession();
  const [running, setRunning] = useState<string | null>(null);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const { data, problem, reload } = useLive(
    "definitions",
    (signal) => get<Page<WorkflowName>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
    10_000,
  );
  const figures = useLive(
    "workflow figures",
    (signal) => get<Page<WorkflowFigures>>("/v1/workflow-stats", { signal }),
    20_000,
  );
  const byName = new Map(figures.data?.data.map((one) => [one.name, one]));
  return (
    <>
      <PageHead title="Workflows" about="runs, success and p95 of the last two days" />
      {data === null ? (
        problem === null ? (
          <Loading rows={6} />
        ) : (
          <Trouble problem={problem} onRetry={reload} />
        )
      ) : (
        <section class="panel">
          {data.data.length === 0 ? (
            <Empty title="No workflows yet.">
              <span>
                A workflow appears when a worker that serves it connects, or when its definition is sent to
                POST /v1/workflows.
              </span>
            </Empty>
          ) : (
            <Table
              label="Workflows"
              rows={data.data}
              keyOf={({ name }) => name}
              onOpen={({ name }) => go(`/definitions/${encodeURIComponent(name)}`)}
              columns={columnsOf(byName, whyNot, setRunning)}
            />
          )}
        </section>
      )}
      {running === null ? null : <RunDialog name={running} onClose={() => setRunning(null)} />}
    </>
  );
}

/** The columns of the list; `byName` has the figures of the last two days. */
function columnsOf(
  byName: ReadonlyMap<string, WorkflowFigures>,
  whyNot: string | null,
  setRunning: (name: string) => void,
): readonly Column<WorkflowName>[] {
  return [
    {
      id: "name",
      head: "Workflow",
      width: "minmax(140px, 1fr)",
      cell: ({ name }) => (
        <a href={`/definitions/${encodeURIComponent(name)}`} tabIndex={-1}>
          {name}
        </a>
      ),
    },
    {
      id: "started",
      head: "Runs, 2 days",
      width: "100px",
      isNumber: true,
      isExtra: true,
      cell: ({ name }) => count(byName.get(name)?.started ?? 0),
    },
    {
      id: "success",
      head: "Success",
      width: "84px",
      isNumber: true,
      cell: ({ name }) => <Success figures={byName.get(name)} />,
    },
    {
      id: "p95",
      head: "p95",
      width: "84px",
      isNumber: true,
      isExtra: true,
      cell: ({ name }) => ms(byName.get(name)?.p95Ms ?? null),
    },
    {
      id: "hash",
      head: "Newest version",
      width: "120px",
      isExtra: true,
      cell: ({ hash }) => <span class="mono muted">{hash.slice(0, 12)}</span>,
    },
    {
      id: "runs",
      head: <span class="unseen">Executions</span>,
      width: "110px",
      isExtra: true,
      cell: ({ name }) => (
        <a href={addressOf("/executions", { workflow: name })} tabIndex={-1}>
          Executions
        </a>
      ),
    },
    {
      id: "run",
      head: <span class="unseen">Run</span>,
      width: "100px",
      cell: ({ name }) => (
        <Button icon="play" whyNot={whyNot} label={`Run ${name}`} onClick={() => setRunning(name)}>
          Run…
        </Button>
      ),
    },
  ];
}

function Success({ figures }: { readonly figures: WorkflowFigures | undefined }) {
  if (figures === undefined) return <>–</>;
  return <span class={figures.failed > 0 ? "failed-text" : ""}>{successOf(figures)}</span>;
}
