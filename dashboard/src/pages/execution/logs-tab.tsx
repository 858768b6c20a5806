/** The tab with live log lines, which can be paused, searched, and filtered by level or by the selected task. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Problem } from "../../api/client.ts";
import type { LogLine } from "../../api/shapes.ts";
import { follow } from "../../api/stream.ts";
import { asProblem } from "../../api/use-live.ts";
import { clock, count } from "../../core/format.ts";
import { useKeys } from "../../shell/keys.ts";
import { Button } from "../../ui/button.tsx";
import { Empty, Trouble } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import type { About } from "./execution.tsx";
import { useExecutionPlace } from "./place.ts";

/** The most lines that are kept; older lines are dropped from the display. */
const KEPT = 50_000;
const LEVELS = ["debug", "info", "warn", "error", "progress", "run"];

export function LogsTab({ path }: About) {
  const { task, lane, span } = useExecutionPlace();
  const [isPaused, setIsPaused] = useState(false);
  const [text, setText] = useState("");
  const [level, setLevel] = useState("");
  const { lines, isOpen, problem, dropped } = useLines(path, isPaused);
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
        <span class={`light ${isOpen ? "ok" : ""}`}>
          {isOpen ? "live" : isPaused ? "stopped" : "at its end"}
        </span>
      </div>
      {problem === null ? null : <Trouble problem={problem} />}
      {shown.length === 0 ? (
        <Empty title={lines.length === 0 ? "Nothing was logged." : "No line fits."} />
      ) : (
        <Lines lines={shown} isFollowing={!isPaused} />
      )}
    </>
  );
}

function useLines(path: string, isPaused: boolean) {
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [isOpen, setIsOpen] = useState(false);
  const [dropped, setDropped] = useState(0);
  const [problem, setProblem] = useState<Problem | null>(null);
  const last = useRef("");
  useEffect(() => {
    if (isPaused) return;
    const abort = new AbortController();
    const take = (more: readonly LogLine[], id: string): void => {
      last.current = id;
      setLines((before) => {
        const all = [...before, ...more];
        if (all.length > KEPT) setDropped((n) => n + all.length - KEPT);
        return all.slice(-KEPT);
      });
    };
    follow(
      {
        path: `${path}/logs`,
        after: last.current,
        take: (events) =>
          take(
            events.map(({ data }) => JSON.parse(data) as LogLine),
            events.at(-1)?.id ?? "",
          ),
        isOpen: setIsOpen,
      },
      abort.signal,
    ).catch((thrown: unknown) => {
      if (!abort.signal.aborted) setProblem(asProblem(thrown));
    });
    return () => abort.abort();
  }, [path, isPaused]);
  return { lines, isOpen, problem, dropped };
}

function Lines({
  lines,
  isFollowing,
}: {
  readonly lines: readonly LogLine[];
  readonly isFollowing: boolean;
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
          cell: ({ handler, task, run }) => (
            <span class="mono muted">
              {handler}
              {task < 0 ? "" : ` ${task}`}
              {run === undefined ? "" : ` ${run}`}
            </span>
          ),
        },
        {
          id: "text",
          head: "Line",
          width: "minmax(200px, 1fr)",
          cell: ({ text }) => (
            <span class="mono" title={text}>
              {text}
            </span>
          ),
        },
      ]}
    />
  );
}
