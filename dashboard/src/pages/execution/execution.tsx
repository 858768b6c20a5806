/** One execution: how it is and why, over time, task by task, line by line, event by event. */
import { get } from "../../api/client.ts";
import type { Execution as Facts, Lanes as LaneFacts } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { PageHead } from "../../ui/panel.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { DataTab } from "./data-tab.tsx";
import { DeliveriesTab } from "./deliveries-tab.tsx";
import { ExecutionHead } from "./head.tsx";
import { HeatMap } from "./heat-map.tsx";
import { Lanes } from "./lanes.tsx";
import { LogsTab } from "./logs-tab.tsx";
import { MessagesTab } from "./messages-tab.tsx";
import { shownLane, useExecutionPlace } from "./place.ts";
import { RunsTab } from "./runs-tab.tsx";
import { Scrubber } from "./scrubber.tsx";
import { TasksTab } from "./tasks-tab.tsx";
import "./execution.css";

const LIVE_MS = 1_000;
/** The more tasks, the more rarely all of them are looked at. */
const TASKS_PER_MS = 100;
const TABS = [
  { id: "tasks", label: "Tasks" },
  { id: "logs", label: "Logs" },
  { id: "data", label: "Data" },
  { id: "messages", label: "Messages" },
  { id: "deliveries", label: "Deliveries" },
  { id: "runs", label: "Runs" },
];

/** The page. */
export function Execution({ id }: { readonly id: string }) {
  const place = useExecutionPlace();
  const path = `/v1/executions/${encodeURIComponent(id)}`;
  const now = useLive(path, (signal) => get<Facts>(path, { signal }), LIVE_MS);
  const isOver = now.data !== null && now.data.finishedAt !== null;
  const at = place.at !== null && now.data !== null && place.at < now.data.revision ? place.at : null;
  const past = useLive(at === null ? null : `${path} ${at}`, (signal) =>
    get<Facts>(path, { query: { at }, signal }),
  );
  const lanes = useLive(
    now.data === null ? null : `${path} lanes ${at ?? (isOver ? now.data.revision : "")}`,
    (signal) => get<LaneFacts>(`${path}/lanes`, { query: { at, pieces: 240 }, signal }),
    isOver || at !== null ? null : Math.max(2 * LIVE_MS, tasksOf(now.data) / TASKS_PER_MS),
  );
  if (now.data === null)
    return (
      <>
        <PageHead title={<span class="mono">{id}</span>} />
        {now.problem === null ? <Loading rows={8} /> : <Trouble problem={now.problem} onRetry={now.reload} />}
      </>
    );
  const shown = at === null ? now.data : (past.data ?? now.data);
  const lane = shownLane(place.lane, shown.phases);
  const about = { id, path, facts: shown, at, isOver, lane };
  return (
    <div class="execution">
      <ExecutionHead id={id} path={path} facts={now.data} shown={shown} onChange={now.reload} />
      {now.problem === null ? null : <Trouble problem={now.problem} />}
      <Scrubber path={path} revision={now.data.revision} at={at} />
      <Lanes lanes={lanes.data} phases={shown.phases} chosen={lane} />
      {lane === null ? null : <HeatMap {...about} lane={lane} />}
      <section class="panel">
        <Tabs name="tab" tabs={TABS} chosen={place.tab} label="What is shown of it" />
        <div class="tab-body">
          {place.tab === "logs" ? <LogsTab {...about} /> : null}
          {place.tab === "data" ? <DataTab facts={shown} /> : null}
          {place.tab === "messages" ? <MessagesTab {...about} /> : null}
          {place.tab === "deliveries" ? <DeliveriesTab {...about} /> : null}
          {place.tab === "runs" ? <RunsTab {...about} /> : null}
          {place.tab === "tasks" ? <TasksTab {...about} /> : null}
        </div>
      </section>
    </div>
  );
}

function tasksOf(facts: Facts | null): number {
  const handlers = facts?.phases.flatMap((phase) => phase.handlers) ?? [];
  return handlers.reduce((sum, { total }) => sum + total, 0);
}

/** What the parts of the page are told. */
export interface About {
  readonly id: string;
  readonly path: string;
  readonly facts: Facts;
  /** The moment that is looked at; null: now. */
  readonly at: number | null;
  readonly isOver: boolean;
  readonly lane: ReturnType<typeof shownLane>;
}
