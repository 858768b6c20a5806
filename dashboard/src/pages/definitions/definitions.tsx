/** The page of all workflows, by name. */
import { useState } from "preact/hooks";
import { get, may } from "../../api/client.ts";
import type { Page, WorkflowName } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { go } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import { RunDialog } from "./run-dialog.tsx";

export function Definitions() {
  const who = useSession();
  const [running, setRunning] = useState<string | null>(null);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const { data, problem, reload } = useLive(
    "definitions",
    (signal) => get<Page<WorkflowName>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
    10_000,
  );
  return (
    <>
      <PageHead title="Definitions" about="workflows that can be run" />
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
              columns={[
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
                  id: "hash",
                  head: "Newest definition",
                  width: "minmax(120px, 1fr)",
                  cell: ({ hash }) => <span class="mono muted">{hash.slice(0, 16)}</span>,
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
                    <Button
                      icon="play"
                      whyNot={whyNot}
                      label={`Run ${name}`}
                      onClick={() => setRunning(name)}
                    >
                      Run…
                    </Button>
                  ),
                },
              ]}
            />
          )}
        </section>
      )}
      {running === null ? null : <RunDialog name={running} onClose={() => setRunning(null)} />}
    </>
  );
}
