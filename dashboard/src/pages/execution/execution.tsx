/** The page of one execution: its status and the reason, its lanes over time, its tasks, logs and events. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { Execution as Facts, Lanes as LaneFacts, Why, Workflow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { PageHead } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { executionPath, lanesAddress } from "./addresses.ts";
import { CommandsTab, commandsOf, useDefinition } from "./commands-tab.tsx";
import { DataTab } from "./data-tab.tsx";
import { EventsTab } from "./events-tab.tsx";
import { ExecutionHead } from "./head.tsx";
import { Lanes } from "./lanes.tsx";
import { LogsTab } from "./logs-tab.tsx";
import { shownLane, useExecutionPlace } from "./place.ts";
import { Scrubber } from "./scrubber.tsx";
import { StepsTab } from "./steps-tab.tsx";
import { TaskDrawer } from "./task-drawer.tsx";
import { TasksTab } from "./tasks-tab.tsx";
import type { Span } from "./time-view.ts";
import { useFailureWalk } from "./use-failure-walk.ts";
import "./execution.css";

const LIVE_MS = 1_000;
/** How often an ended execution is reloaded, since it may be retried. */
const OVER_MS = 5_000;
/** How often the reason why an execution waits is reloaded while nothing changes: it contains times. */
const WHY_MS = 15_000;
/** The polling interval grows with the number of tasks: this many tasks per millisecond. */
const TASKS_PER_MS = 100;
/** The part of the window below which the content of a chosen tab would open out of sight. */
const FOLD = 0.6;
const TABS = [
  { id: "tasks", label: "Tasks" },
  { id: "steps", label: "Steps" },
  { id: "logs", label: "Logs" },
  { id: "events", label: "Events" },
  { id: "data", label: "Data" },
];

const COMMANDS = { id: "commands", label: "Commands" };

export function Execution({ id }: { readonly id: string }) {
  const path = executionPath(id);
  const [isOver, setIsOver] = useState(false);
  const now = useLive(path, (signal) => get<Facts>(path, { signal }), isOver ? OVER_MS : LIVE_MS);
  const hasEnded = now.data !== null && now.data.finishedAt !== null;
  useEffect(() => setIsOver(hasEnded), [hasEnded]);
  if (now.data !== null) return <Loaded id={id} path={path} now={now.data} />;
  return (
    <>
      <PageHead title={<span class="mono">{id}</span>} tab={id} />
      {now.problem === null ? <Loading rows={8} /> : <Trouble problem={now.problem} onRetry={now.reload} />}
    </>
  );
}

function Loaded(props: { readonly id: string; readonly path: string; readonly now: Facts }) {
  const { id, path, now } = props;
  const place = useExecutionPlace();
  const isOver = now.finishedAt !== null;
  const at = place.at !== null && place.at < now.revision ? place.at : null;
  const past = useLive(at === null ? null : `${path} ${at}`, (signal) =>
    get<Facts>(path, { query: { at }, signal }),
  );
  const lanes = useLive(
    `${path} lanes ${at ?? ""} ${place.span?.from} ${place.span?.to}`,
    (signal) => get<LaneFacts>(lanesAddress(path, at, place.span), { signal }),
    { follows: at === null ? now : null, gapMs: Math.max(2 * LIVE_MS, tasksOf(now) / TASKS_PER_MS) },
  );
  const why = useLive(`${path} why`, (signal) => get<Why>(`${path}/why`, { signal }), {
    everyMs: isOver ? null : WHY_MS,
    follows: now,
    gapMs: 2 * LIVE_MS,
  });
  // The lanes that are known. Another span of time is drawn from them until its own data has arrived.
  const known = useRef<LaneFacts | null>(null);
  known.current = lanes.data ?? known.current;
  const definition = useDefinition(now).data;
  const hasCommands = commandsOf(definition, now.input).length > 0;
  const shown = at === null ? now : (past.data ?? now);
  const lane = shownLane(place.lane, shown.phases);
  const about = { id, path, facts: shown, stamp: now, at, isOver, lane, definition };
  const tabs = hasCommands ? [...TABS.slice(0, 1), COMMANDS, ...TABS.slice(1)] : TABS;
  const tab = tabs.some((one) => one.id === place.tab) ? place.tab : "tasks";
  const walk = useFailureWalk(about);
  const { details, isRaised } = useRaisedTab(tab, known.current !== null);
  const hasDrawer = place.task !== null && lane !== null;
  return (
    <div class={`execution${hasDrawer ? " has-drawer" : ""}`}>
      <ExecutionHead
        id={id}
        path={path}
        facts={now}
        shown={shown}
        why={why.data}
        definition={definition}
        shownAt={at === null ? null : (lanes.data?.to ?? null)}
      />
      {now.status === "damaged" && now.revision === 0 ? (
        <Unreadable id={id} />
      ) : (
        <>
          <Scrubber path={path} revision={now.revision} at={at} isOver={isOver} />
          <Lanes
            {...{ execution: id, lanes: known.current, phases: shown.phases }}
            {...{ chosen: lane, whole: wholeOf(now) }}
          />
        </>
      )}
      <section class={`panel details${isRaised ? " is-raised" : ""}`} ref={details}>
        <Tabs name="tab" tabs={tabs} chosen={tab} label="Details of the execution" />
        <TabPanel name="tab" chosen={tab}>
          <TabBody tab={tab} about={about} />
        </TabPanel>
      </section>
      {place.task === null || lane === null ? null : (
        <TaskDrawer {...about} lane={lane} task={place.task} walk={walk} />
      )}
    </div>
  );
}

/** What stands in place of the timeline if no event can be read. */
function Unreadable({ id }: { readonly id: string }) {
  return (
    <section class="panel">
      <Empty title="Its journal cannot be read, so its tasks and its progress are unknown.">
        <p class="muted">
          It does no work, and no other execution is affected. Restore it from a backup or an export, delete
          it, or run it again. <code>rondo audit {id}</code> shows what is damaged.
        </p>
      </Empty>
    </section>
  );
}

function TabBody({ tab, about }: { readonly tab: string; readonly about: About }) {
  switch (tab) {
    case "commands":
      return <CommandsTab {...about} />;
    case "logs":
      return <LogsTab {...about} />;
    case "data":
      return <DataTab {...about} />;
    case "events":
      return <EventsTab {...about} />;
    case "steps":
      return <StepsTab {...about} />;
    default:
      return <TasksTab {...about} />;
  }
}

/** Scrolls to the content of a chosen tab if it would open out of sight. `isDrawn`: whether the parts above have their height. */
function useRaisedTab(tab: string, isDrawn: boolean) {
  const details = useRef<HTMLElement>(null);
  const shown = useRef("tasks");
  const [isRaised, setIsRaised] = useState(false);
  useLayoutEffect(() => {
    const element = details.current;
    if (element === null || !isDrawn || shown.current === tab) return;
    shown.current = tab;
    if (element.getBoundingClientRect().top > innerHeight * FOLD) setIsRaised(true);
  }, [tab, isDrawn]);
  useLayoutEffect(() => {
    if (isRaised) details.current?.scrollIntoView();
  }, [tab, isRaised]);
  return { details, isRaised };
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
  /** The present state of the execution; another object if it has changed. */
  readonly stamp: Facts;
  readonly definition: Workflow | null;
  /** The event at which the execution is shown; null for its present state. */
  readonly at: number | null;
  readonly isOver: boolean;
  readonly lane: ReturnType<typeof shownLane>;
}
