/** The tab with live log lines, which can be paused, searched, and filtered by level or by the selected task. */
import { useMemo, useState } from "preact/hooks";
import type { LogLine } from "../../api/shapes.ts";
import { useFollow } from "../../api/use-follow.ts";
import { executionPage } from "../../core/address.ts";
import { clock, count, moment } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { useKeys } from "../../shell/keys.ts";
import { Button } from "../../ui/button.tsx";
import { download } from "../../ui/save-all.tsx";
import { Empty, Trouble } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import { copy } from "../../ui/toast.tsx";
import type { About } from "./execution.tsx";
import { LiveLight, useEndInSight } from "./follow-parts.tsx";
import { type LaneName, laneText, useExecutionPlace } from "./place.ts";

/** The most lines that are kept; older lines are dropped from the display. */
const KEPT = 50_000;
/** The width in pixels below which lines are wrapped at first. */
const NARROW = 760;
const LEVELS = ["debug", "info", "warn", "error", "progress", "run"];

export function LogsTab({ id, path, stamp, isOver }: About) {
  // A narrow page cuts most lines off.
  const [isWrapped, setIsWrapped] = useState(innerWidth < NARROW);
  const { task, lane, span } = useExecutionPlace();
  const [isPaused, setIsPaused] = useState(false);
  const [text, setText] = useState("");
  const [level, setLevel] = useState("");
  const { lines, isOpen, problem, dropped } = useLines(
    isPaused ? null : { path: `${path}/logs`, endedAt: stamp.finishedAt },
  );
  useKeys("Logs", [{ keys: "l", label: "Stop or follow the log", run: () => setIsPaused(!isPaused) }]);
  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return lines.filter(
      (line) =>
        (level === "" || line.level === level) &&
        (task === null || line.task === task) &&
        (span === null || (line.at >= span.from && line.at <= span.to)) &&
        (lane === null || (line.phase === lane.phase && line.handler === lane.handler)) &&
        words.every((word) => line.text.toLowerCase().includes(word)),
    );
  }, [lines, text, level, task, lane, span?.from, span?.to]);
  return (
    <>
      <div class="row tab-filter">
        <input
          class="input filter-search"
          type="search"
          aria-label="Search the log"
          placeholder="Search the log"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select
          class="input"
          aria-label="Level"
          value={level}
          onChange={(event) => setLevel(event.currentTarget.value)}
        >
          <option value="">All levels</option>
          {LEVELS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <Button
          icon={isPaused ? "play" : "pause"}
          keys="l"
          label={isPaused ? "Follow" : "Stop"}
          isPressed={isPaused}
          onClick={() => setIsPaused(!isPaused)}
        >
          {isPaused ? "Follow" : "Stop"}
        </Button>
        <span class="muted">
          {count(shown.length)} {shown.length === lines.length ? "lines" : `of ${count(lines.length)} lines`}
          {dropped > 0 ? `, ${count(dropped)} older ones left out` : ""}
        </span>
        <Button isPressed={isWrapped} onClick={() => setIsWrapped(!isWrapped)}>
          Wrap
        </Button>
        <Button icon="copy" onClick={() => copy(textOf(shown))}>
          Copy
        </Button>
        <Button onClick={() => download(`${id}.log`, textOf(shown))}>Download</Button>
        <LiveLight {...{ isOpen, isPaused }} isOver={isOver} />
      </div>
      {problem === null ? null : <Trouble problem={problem} />}
      {shown.length === 0 ? (
        <Empty title={lines.length === 0 ? "No log lines." : "No line matches."} />
      ) : (
        <>
          <Scope lane={lane} task={task} />
          {isWrapped ? (
            <WrappedLines lines={shown.slice(-WRAPPED)} isFollowing={!isPaused} />
          ) : (
            <Lines lines={shown} isFollowing={!isPaused} execution={id} />
          )}
        </>
      )}
    </>
  );
}

function useLines(followed: Parameters<typeof useFollow>[0]) {
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [dropped, setDropped] = useState(0);
  const state = useFollow<LogLine>(followed, (more) =>
    setLines((before) => {
      const all = [...before, ...more];
      if (all.length > KEPT) setDropped((n) => n + all.length - KEPT);
      return all.slice(-KEPT);
    }),
  );
  return { lines, dropped, ...state };
}

/** Says that only the lines of a handler or a task are shown, and shows all again. */
function Scope({ lane, task }: { readonly lane: LaneName | null; readonly task: number | null }) {
  if (task === null && lane === null) return null;
  return (
    <p class="tab-filter muted">
      Only {lane?.handler ?? "this handler"}
      {task === null ? "" : `, task ${count(task)}`}.{" "}
      <Button onClick={() => choose({ task: null, lane: null })}>Show all lines</Button>
    </p>
  );
}

/** Log lines in full. The end stays visible while lines are added, unless the user has scrolled away. */
function WrappedLines({
  lines,
  isFollowing,
}: {
  readonly lines: readonly LogLine[];
  readonly isFollowing: boolean;
}) {
  const box = useEndInSight(lines.at(-1)?.id, isFollowing);
  return (
    <pre {...box} class="lines log-wrapped" tabIndex={0} aria-label="Log lines">
      {lines.map(({ id, at, level, handler, task, text }) => (
        <span key={id} class={`level-${level}`}>
          <span class="muted">
            {clock(at)} {level} {handler}
            {task < 0 ? "" : ` ${task}`}
          </span>{" "}
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** The most lines that are shown wrapped, the newest. */
const WRAPPED = 2_000;

/** Log lines as text. */
function textOf(lines: readonly LogLine[]): string {
  return lines
    .map(
      ({ at, level, handler, task, attempt, text }) =>
        `${moment(at, { withMs: true })} ${level.padEnd(5)} ${handler}${task < 0 ? "" : ` ${task}`} #${attempt} ${text}\n`,
    )
    .join("");
}

function Lines({
  lines,
  isFollowing,
  execution,
}: {
  readonly lines: readonly LogLine[];
  readonly isFollowing: boolean;
  readonly execution: string;
}) {
  return (
    <Table
      label="Log lines"
      rows={lines}
      rowHeight={22}
      height={460}
      isAtEnd={isFollowing}
      keyOf={({ id }) => id}
      columns={[
        {
          id: "at",
          head: "Time",
          width: "104px",
          cell: ({ at }) => <span class="mono muted">{clock(at, { withMs: true })}</span>,
        },
        {
          id: "level",
          head: "Level",
          width: "72px",
          cell: ({ level }) => <span class={`level level-${level}`}>{level}</span>,
        },
        {
          id: "from",
          head: "From",
          width: "minmax(110px, 190px)",
          isExtra: true,
          cell: ({ phase, visit, handler, task, run }) =>
            task < 0 ? (
              <span class="mono muted">{handler}</span>
            ) : (
              <a
                class="mono"
                tabIndex={-1}
                href={executionPage(execution, {
                  tab: "logs",
                  lane: laneText({ phase, visit, handler }),
                  task,
                })}
              >
                {handler} {task}
                {run === undefined ? "" : ` ${run}`}
              </a>
            ),
        },
        {
          id: "text",
          head: "Line",
          width: "minmax(200px, 1fr)",
          cell: ({ text }) => (
            <span class="mono log-text" title={text}>
              {text}
            </span>
          ),
        },
      ]}
    />
  );
}
