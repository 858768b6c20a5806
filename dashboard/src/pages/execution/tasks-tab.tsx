/** The tab with the tasks of the selected handler as rows, and with the details of one task. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import { type Page, TASK_STATES, type TaskRow, type TaskState } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { count, duration, workerName } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { Badge } from "../../ui/badge.tsx";
import { messageOf } from "../../ui/error-view.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import type { About } from "./execution.tsx";
import { laneText, useExecutionPlace } from "./place.ts";
import { TaskDetail } from "./task-detail.tsx";

const PAGE = 100;

const COLUMNS: readonly Column<TaskRow>[] = [
  { id: "n", head: "Task", width: "76px", isNumber: true, cell: ({ n }) => count(n) },
  { id: "status", head: "Status", width: "112px", cell: ({ status }) => <Badge state={status} /> },
  { id: "attempts", head: "Attempts", width: "82px", isNumber: true, cell: ({ attempts }) => attempts },
  {
    id: "ms",
    head: "Ran",
    width: "84px",
    isNumber: true,
    cell: ({ ms }) => (ms === null ? "" : duration(ms)),
  },
  {
    id: "worker",
    head: "Worker",
    width: "minmax(90px, 0.7fr)",
    isExtra: true,
    cell: ({ worker }) => (
      <span class="mono" title={worker ?? ""}>
        {worker === null ? "" : workerName(worker)}
      </span>
    ),
  },
  { id: "outcome", head: "Outcome", width: "minmax(160px, 3fr)", cell: (row) => <Outcome row={row} /> },
];

export function TasksTab(about: About) {
  const { path, at, isOver, lane, facts } = about;
  const { task } = useExecutionPlace();
  const wanted = usePlace().query.get("status");
  const status = TASK_STATES.find((state) => state === wanted) ?? null;
  const key =
    lane === null
      ? null
      : `${path} tasks ${laneText(lane)} ${at ?? ""} ${status ?? ""} ${isOver ? facts.revision : ""}`;
  const read = (cursor: string | null, signal?: AbortSignal): Promise<Page<TaskRow>> =>
    get<Page<TaskRow>>(`${path}/tasks`, {
      query: { ...lane, at, status, limit: PAGE, cursor },
      ...(signal === undefined ? {} : { signal }),
    });
  const first = useLive(key, (signal) => read(null, signal), isOver || at !== null ? null : 2_000);
  const rest = useRest(key, read, first.data);
  if (lane === null) return <Empty title="No handler has started yet." />;
  if (first.data === null) return first.problem === null ? <Loading /> : <Trouble problem={first.problem} />;
  const rows = [...first.data.data, ...rest.rows];
  return (
    <>
      <StatusFilter chosen={status} />
      {task === null ? null : <TaskDetail {...about} lane={lane} task={task} />}
      {rest.problem === null ? null : <Trouble problem={rest.problem} />}
      {rows.length === 0 ? (
        <Empty title={status === null ? "No task has come yet." : `No task is ${status}.`} />
      ) : (
        <Table
          label="Tasks"
          columns={COLUMNS}
          rows={rows}
          rowHeight={32}
          height={420}
          keyOf={({ n }) => String(n)}
          onOpen={({ n }) => choose({ task: String(n) })}
          onEnd={rest.hasMore ? rest.more : undefined}
        />
      )}
    </>
  );
}

/** Loads the pages after the first. */
function useRest(
  key: string | null,
  read: (cursor: string | null) => Promise<Page<TaskRow>>,
  first: Page<TaskRow> | null,
) {
  const [state, setState] = useState<{ key: string | null; rows: readonly TaskRow[]; next: string | null }>({
    key,
    rows: [],
    next: null,
  });
  const [problem, setProblem] = useState<Problem | null>(null);
  const isReading = useRef(false);
  useEffect(() => setState({ key, rows: [], next: null }), [key]);
  const isCurrent = state.key === key;
  const next = isCurrent && state.rows.length > 0 ? state.next : (first?.next ?? null);
  const more = (): void => {
    if (isReading.current || next === null) return;
    isReading.current = true;
    read(next)
      .then(
        (page) =>
          setState((before) => ({
            key,
            rows: [...(before.key === key ? before.rows : []), ...page.data],
            next: page.next,
          })),
        (thrown: unknown) => setProblem(asProblem(thrown)),
      )
      .finally(() => {
        isReading.current = false;
      });
  };
  return { rows: isCurrent ? state.rows : [], hasMore: next !== null, more, problem };
}

function StatusFilter({ chosen }: { readonly chosen: TaskState | null }) {
  return (
    <div class="choice small tab-filter" role="group" aria-label="Tasks in state">
      <button type="button" aria-pressed={chosen === null} onClick={() => choose({ status: null })}>
        all
      </button>
      {TASK_STATES.map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={state === chosen}
          onClick={() => choose({ status: state === chosen ? null : state })}
        >
          {state}
        </button>
      ))}
    </div>
  );
}

function Outcome({ row: { error, result, reason, status } }: { readonly row: TaskRow }) {
  if (error !== undefined) return <span class="failed-text">{messageOf(error)}</span>;
  if (result !== undefined) return <span class="mono muted">{JSON.stringify(result)}</span>;
  return <span class="muted">{reason ?? (status === "pending" ? "waits for a worker" : "")}</span>;
}
