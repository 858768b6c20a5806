/**
 * The rows of the timeline: a lane for each handler of a visit, below it its tasks with their attempts and waits, below those
 * their steps and their children, whose own lanes are loaded when they are opened.
 */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { Lanes as Facts, HandlerView, Lane, TimeBar } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { executionPage } from "../../core/address.ts";
import { count, duration, plural, short } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { Bar } from "../../ui/bar.tsx";
import { Icon } from "../../ui/icon.tsx";
import { executionPath, lanesAddress } from "./addresses.ts";
import { LaneCanvas } from "./lane-canvas.tsx";
import { fillOf } from "./lane-fill.ts";
import { laneText, useExecutionPlace } from "./place.ts";
import type { Span } from "./time-view.ts";

/** A lane with at most this many tasks shows them at first. */
const OPEN_TASKS = 6;
/** The width in pixels of a page on which tasks are not shown at first: they would fill it. */
const NARROW = 760;
/** The number of tasks that an open lane shows at first. */
const TASKS_SHOWN = 30;
/** How often the lanes of a running child are loaded. */
const CHILD_MS = 3_000;

/** The part of the timeline that all rows share. */
export interface Drawn {
  /** The execution whose lanes these are. */
  readonly execution: string;
  /** Whether it is the execution of the page, and not a child of it. */
  readonly isOwn: boolean;
  /** The span of time that the data covers, and the visible one. */
  readonly data: Span;
  readonly view: Span;
  /** How many rows are above this one in the tree. */
  readonly depth: number;
}

/** A lane and, if it is open, the rows of its tasks. */
export function LaneRow({
  lane,
  drawn,
  counts,
  isChosen,
}: {
  readonly lane: Lane;
  readonly drawn: Drawn;
  readonly counts: HandlerView | undefined;
  readonly isChosen: boolean;
}) {
  const { phase, visit, handler, startedAt, endedAt, total } = lane;
  const tasks = tasksOf(lane);
  // One task is drawn in the lane itself; its steps and its child are rows of their own.
  const isOne = total === 1 && tasks.length === 1;
  const canOpen = isOne ? partsOf(tasks[0]?.bars ?? []).length > 0 : tasks.length > 0;
  const [chosen, setIsOpen] = useState<boolean | null>(null);
  const isOpen =
    canOpen && (chosen ?? (drawn.depth === 0 && tasks.length <= OPEN_TASKS && innerWidth > NARROW));
  const name = phase === handler ? phase : `${phase} / ${handler}`;
  const took = duration((endedAt ?? Math.max(drawn.data.to, startedAt)) - startedAt);
  const place = { lane: laneText(lane), task: null, error: null };
  return (
    <>
      <div class={`lane${isChosen ? " is-chosen" : ""}`} style={{ "--depth": drawn.depth }}>
        <span class="lane-name">
          <span class="lane-title clip">
            <Toggle isOpen={canOpen ? isOpen : null} label={`tasks of ${name}`} onToggle={setIsOpen} />
            <Go drawn={drawn} place={place} isPressed={isChosen}>
              {name}
              {visit > 1 ? <span class="muted"> ×{visit}</span> : null}
            </Go>
          </span>
          <span class="lane-count">
            {short(total)}
            <span class="unseen"> tasks, </span> <span class="muted">{took}</span>
          </span>
          {counts === undefined ? null : <Bar counts={counts} />}
        </span>
        <span class="lane-track" onClick={() => (drawn.isOwn ? choose(place) : undefined)}>
          <LaneCanvas lane={lane} data={drawn.data} view={drawn.view} />
        </span>
      </div>
      {isOpen ? (
        isOne ? (
          <PartRows lane={lane} bars={tasks[0]?.bars ?? []} drawn={deeper(drawn)} />
        ) : (
          <TaskRows lane={lane} tasks={tasks} drawn={deeper(drawn)} />
        )
      ) : null}
    </>
  );
}

interface TaskOfLane {
  readonly task: number;
  readonly bars: readonly TimeBar[];
}

/** The tasks of a lane with their bars, in the order of their numbers. */
function tasksOf({ bars }: Lane): readonly TaskOfLane[] {
  const byTask = Map.groupBy(bars ?? [], ({ task }) => task);
  return [...byTask].map(([task, of]) => ({ task, bars: of })).sort((a, b) => a.task - b.task);
}

function TaskRows({
  lane,
  tasks,
  drawn,
}: {
  readonly lane: Lane;
  readonly tasks: readonly TaskOfLane[];
  readonly drawn: Drawn;
}) {
  const [shown, setShown] = useState(TASKS_SHOWN);
  const hidden = tasks.length - shown;
  return (
    <>
      {tasks.slice(0, shown).map((task) => (
        <TaskRow key={task.task} lane={lane} task={task} drawn={drawn} />
      ))}
      {hidden > 0 ? (
        <button type="button" class="lanes-more" onClick={() => setShown(tasks.length)}>
          Show {plural(hidden, "more task")}
        </button>
      ) : null}
    </>
  );
}

function TaskRow({
  lane,
  task: { task, bars },
  drawn,
}: {
  readonly lane: Lane;
  readonly task: TaskOfLane;
  readonly drawn: Drawn;
}) {
  const place = useExecutionPlace();
  const [isOpen, setIsOpen] = useState(false);
  const hasParts = partsOf(bars).length > 0;
  const isChosen =
    drawn.isOwn && place.task === task && place.lane !== null && laneText(place.lane) === laneText(lane);
  const main = bars.filter(isMain);
  return (
    <>
      <Row
        drawn={drawn}
        bars={main}
        isChosen={isChosen}
        aside={tookOf(main, drawn.data)}
        toggle={
          <Toggle isOpen={hasParts ? isOpen : null} label={`steps of task ${task}`} onToggle={setIsOpen} />
        }
      >
        <Go drawn={drawn} place={{ lane: laneText(lane), task: String(task) }} isPressed={isChosen}>
          Task {count(task)}
          <span class="unseen">: {main.map((bar) => barText(bar, drawn.data.to)).join("; ")}</span>
        </Go>
      </Row>
      {isOpen && hasParts ? <PartRows lane={lane} bars={bars} drawn={deeper(drawn)} /> : null}
    </>
  );
}

/** The steps, the runs and the children of a task, each with its own row. */
function PartRows({
  lane,
  bars,
  drawn,
}: {
  readonly lane: Lane;
  readonly bars: readonly TimeBar[];
  readonly drawn: Drawn;
}) {
  const parts = Map.groupBy(partsOf(bars), ({ kind, name }) => `${kind} ${name}`);
  return (
    <>
      {[...parts].map(([key, of]) => {
        const { kind, name = "", task } = of[0] as TimeBar;
        return kind === "child" ? (
          <ChildRow key={key} id={name} bars={of} drawn={drawn} />
        ) : (
          <Row key={key} drawn={drawn} bars={of} aside={hasBegin(of) ? tookOf(of, drawn.data) : ""}>
            <Go drawn={drawn} place={{ lane: laneText(lane), task: String(task) }}>
              <span class="muted">{TEXTS[kind]}</span> {name}
              <span class="unseen">: {of.map((bar) => barText(bar, drawn.data.to)).join("; ")}</span>
            </Go>
          </Row>
        );
      })}
    </>
  );
}

/** A child execution, with a link to its page, and its own lanes if it is open. */
function ChildRow({ id, bars, drawn }: { id: string; bars: readonly TimeBar[]; drawn: Drawn }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Row
        drawn={drawn}
        bars={bars}
        aside={tookOf(bars, drawn.data)}
        toggle={<Toggle isOpen={isOpen} label={`child ${id}`} onToggle={setIsOpen} />}
      >
        <a class="lane-go clip" href={executionPage(id)} title={id}>
          <span class="muted">child</span> <span class="mono">{id}</span>
          <span class="unseen">: {bars.map((bar) => barText(bar, drawn.data.to)).join("; ")}</span>
        </a>
      </Row>
      {isOpen ? (
        <ChildLanes
          id={id}
          drawn={deeper({ ...drawn, execution: id, isOwn: false })}
          isOver={bars.every(({ to }) => to !== null)}
        />
      ) : null}
    </>
  );
}

function ChildLanes({ id, drawn, isOver }: { id: string; drawn: Drawn; isOver: boolean }) {
  const address = lanesAddress(executionPath(id), null, drawn.view);
  const { data, problem } = useLive(
    `child lanes ${id} ${isOver ? address : ""}`,
    (signal) => get<Facts>(address, { signal }),
    isOver ? null : CHILD_MS,
  );
  if (data === null)
    return (
      <p class="lane-note muted" style={{ "--depth": drawn.depth }}>
        {problem === null ? "Loading…" : problem.message}
      </p>
    );
  return (
    <>
      {data.lanes.map((lane) => (
        <LaneRow
          key={laneText(lane)}
          lane={lane}
          drawn={{ ...drawn, data }}
          counts={undefined}
          isChosen={false}
        />
      ))}
      {data.lanes.length > 0 ? null : (
        <p class="lane-note muted" style={{ "--depth": drawn.depth }}>
          Nothing of this child in the shown time.
        </p>
      )}
    </>
  );
}

/** A row of a task or a part of it: a name, and bars on the axis. */
function Row(props: {
  readonly drawn: Drawn;
  readonly bars: readonly TimeBar[];
  readonly aside: string;
  readonly isChosen?: boolean;
  readonly toggle?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  const { drawn, bars, aside, isChosen = false, toggle, children } = props;
  const { from, to } = drawn.view;
  const place = (at: number): number =>
    Math.min(100, Math.max(0, ((at - from) / Math.max(1, to - from)) * 100));
  return (
    <div class={`lane is-row${isChosen ? " is-chosen" : ""}`} style={{ "--depth": drawn.depth }}>
      <span class="lane-name">
        <span class="lane-title clip">
          {toggle ?? <Toggle isOpen={null} label="" onToggle={() => {}} />}
          {children}
        </span>
        <span class="lane-count muted">{aside}</span>
      </span>
      <span class="lane-track">
        {bars.map((bar) => {
          const left = place(bar.from);
          return (
            <i
              key={`${bar.kind} ${bar.name} ${bar.attempt} ${bar.from}`}
              class={`time-bar is-${bar.kind} fill-${fillOf(bar)}`}
              style={{ left: `${left}%`, width: `${place(bar.to ?? drawn.data.to) - left}%` }}
              title={barText(bar, drawn.data.to)}
            />
          );
        })}
      </span>
    </div>
  );
}

/** A button that shows or hides the rows below; an empty place if there are none. */
function Toggle({
  isOpen,
  label,
  onToggle,
}: {
  readonly isOpen: boolean | null;
  readonly label: string;
  readonly onToggle: (isOpen: boolean) => void;
}) {
  if (isOpen === null) return <span class="lane-toggle" />;
  return (
    <button
      type="button"
      class="lane-toggle"
      aria-expanded={isOpen}
      aria-label={`${isOpen ? "Hide" : "Show"} ${label}`}
      onClick={() => onToggle(!isOpen)}
    >
      <Icon name={isOpen ? "down" : "right"} size={12} />
    </button>
  );
}

/** Goes to a handler or a task: on this page, or on the page of the child. */
function Go({
  drawn,
  place,
  isPressed,
  children,
}: {
  readonly drawn: Drawn;
  readonly place: Readonly<Record<string, string | null>>;
  readonly isPressed?: boolean;
  readonly children: ComponentChildren;
}) {
  if (!drawn.isOwn)
    return (
      <a class="lane-go clip" href={executionPage(drawn.execution, place)}>
        {children}
      </a>
    );
  return (
    <button type="button" class="lane-go clip" aria-pressed={isPressed} onClick={() => choose(place)}>
      {children}
    </button>
  );
}

function deeper(drawn: Drawn): Drawn {
  return { ...drawn, depth: drawn.depth + 1 };
}

/** Whether a bar belongs to the row of its task, and not to a row below. */
function isMain({ kind }: TimeBar): boolean {
  return kind !== "step" && kind !== "run";
}

function partsOf(bars: readonly TimeBar[]): readonly TimeBar[] {
  return bars.filter(({ kind }) => kind === "step" || kind === "run" || kind === "child");
}

/** The time from the begin of the first bar to the end of the last. */
/** Whether the begin of a step is known: the journal has only its end, and that of what came before it. */
function hasBegin(bars: readonly TimeBar[]): boolean {
  return bars.some(({ kind, from, to }) => kind !== "step" || to !== from);
}

function tookOf(bars: readonly TimeBar[], { to: end }: Span): string {
  if (bars.length === 0) return "";
  const from = Math.min(...bars.map((bar) => bar.from));
  return duration(Math.max(...bars.map(({ to }) => to ?? end)) - from);
}

const TEXTS: Readonly<Record<TimeBar["kind"], string>> = {
  attempt: "attempt",
  child: "child",
  sleep: "sleep",
  signal: "signal",
  retry: "back-off",
  step: "step",
  run: "run",
};

/** A bar in words, such as "attempt 2 failed after 3.1 s". */
function barText({ kind, name, attempt, state, from, to }: TimeBar, end: number): string {
  const took = duration((to ?? end) - from);
  const named = name === undefined || name === "" ? "" : ` ${name}`;
  if (kind === "retry") return `${to === null ? "waits" : "waited"} ${took} before the next attempt`;
  if (kind === "sleep") return `${to === null ? "sleeps" : "slept"}${named}, ${took}`;
  if (kind === "signal") {
    const how = to === null ? "waits for" : state === "failed" ? "waited in vain for" : "waited for";
    return `${how} the signal${named}, ${took}`;
  }
  const what = kind === "attempt" ? `attempt ${attempt}` : `${TEXTS[kind]}${named}`;
  return state === "running" ? `${what} runs for ${took}` : `${what} ${state} after ${took}`;
}
