/** The page of one execution: its status and the reason, its lanes over time, its tasks, logs and events. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import type { Execution as Facts, Lanes as LaneFacts } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { PageHead } from "../../ui/panel.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { executionPath, lanesAddress } from "./addresses.ts";
import { CommandsTab, commandsOf, useDefinition } from "./commands-tab.tsx";
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
import type { Span } from "./time-view.ts";
import "./execution.css";

const LIVE_MS = 1_000;
/** How often an ended execution is reloaded, since it may be retried. */
const OVER_MS = 5_000;
/** The polling interval grows with the number of tasks: this many tasks per millisecond. */
const TASKS_PER_MS = 100;
const TABS = [
  { id: "tasks", label: "Tasks" },
  { id: "logs", label: "Logs" },
  { id: "data", label: "Data" },
  { id: "messages", label: "Messages" },
  { id: "deliveries", label: "Deliveries" },
  { id: "runs", label: "Runs" },
];

const COMMANDS = { id: "commands", label: "Commands" };

export function Execution({ id }: { readonly id: string }) {
  const path = executionPath(id);
  const [isOver, setIsOver] = useState(false);
  const now = useLive(path, (signal) => get<Facts>(path, { signal }), isOver ? OVER_MS : LIVE_MS);
  const hasEnded = now.data !== null && now.data.finishedAt !== null;
  useEffect(() => setIsOver(hasEnded), [hasEnded]);
  if (now.data !== null)
    return <Loaded id={id} path={path} now={now.data} problem={now.problem} onChange={now.reload} />;
  return (
    <>
      <PageHead title={<span class="mono">{id}</span>} />
      {now.problem === null ? <Loading rows={8} /> : <Trouble problem={now.problem} onRetry={now.reload} />}
    </>
  );
}

function Loaded(props: {
  readonly id: string;
  readonly path: string;
  readonly now: Facts;
  readonly problem: Problem | null;
  readonly onChange: () => void;
}) {
  const { id, path, now, problem, onChange } = props;
  const place = useExecutionPlace();
  const isOver = now.finishedAt !== null;
  const at = place.at !== null && place.at < now.revision ? place.at : null;
  const past = useLive(at === null ? null : `${path} ${at}`, (signal) =>
    get<Facts>(path, { query: { at }, signal }),
  );
  const lanes = useLive(
    `${path} lanes ${at ?? (isOver ? now.revision : "")} ${place.span?.from} ${place.span?.to}`,
    (signal) => get<LaneFacts>(lanesAddress(path, at, place.span), { signal }),
    isOver || at !== null ? null : Math.max(2 * LIVE_MS, tasksOf(now) / TASKS_PER_MS),
  );
  // The lanes that are known. Another span of time is drawn from them until its own data has arrived.
  const known = useRef<LaneFacts | null>(null);
  known.current = lanes.data ?? known.current;
  const hasCommands = commandsOf(useDefinition(now).data).length > 0;
  const shown = at === null ? now : (past.data ?? now);
  const lane = shownLane(place.lane, shown.phases);
  const about = { id, path, facts: shown, at, isOver, lane };
  return (
    <div class="execution">
      <ExecutionHead
        id={id}
        path={path}
        facts={now}
        shown={shown}
        shownAt={at === null ? null : (lanes.data?.to ?? null)}
        onChange={onChange}
      />
      {problem === null ? null : <Trouble problem={problem} />}
      <Scrubber path={path} revision={now.revision} at={at} />
      <Lanes lanes={known.current} phases={shown.phases} chosen={lane} whole={wholeOf(now)} />
      {lane === null ? null : <HeatMap {...about} lane={lane} />}
      <section class="panel">
        <Tabs
          name="tab"
          tabs={hasCommands ? [...TABS.slice(0, 1), COMMANDS, ...TABS.slice(1)] : TABS}
          chosen={place.tab}
          label="Views of the execution"
        />
        <div class="tab-body">
          <TabBody tab={place.tab} about={about} />
        </div>
      </section>
    </div>
  );
}

function TabBody({ tab, about }: { readonly tab: string; readonly about: About }) {
  switch (tab) {
    case "commands":
      return <CommandsTab {...about} />;
    case "logs":
      return <LogsTab {...about} />;
    case "data":
      return <DataTab facts={about.facts} />;
    case "messages":
      return <MessagesTab {...about} />;
    case "deliveries":
      return <DeliveriesTab {...about} />;
    case "runs":
      return <RunsTab {...about} />;
    default:
      return <TasksTab {...about} />;
  }
}

/** The time from the first event to the last, or to now. */
function wholeOf({ createdAt, finishedAt }: Facts): Span {
  return { from: createdAt, to: Math.max(createdAt + 1, finishedAt ?? Date.now()) };
}

function tasksOf(facts: Facts): number {
  const handlers = facts.phases.flatMap((phase) => phase.handlers);
  return handlers.reduce((sum, { total }) => sum + total, 0);
}

/** Data that all parts of the page get. */
export interface About {
  readonly id: string;
  readonly path: string;
  readonly facts: Facts;
  /** The event at which the execution is shown; null for its present state. */
  readonly at: number | null;
  readonly isOver: boolean;
  readonly lane: ReturnType<typeof shownLane>;
}
