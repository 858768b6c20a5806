/** The tab with the errors of the execution in groups, and with the tasks of the selected handler as a map and as rows. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "../../api/client.ts";
import {
  type HandlerView,
  type Page,
  TASK_STATES,
  type TaskRow,
  type TaskState,
  type Workflow,
} from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { csv } from "../../core/csv.ts";
import { count, duration, workerName } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { messageOf } from "../../ui/error-view.tsx";
import { SaveAll } from "../../ui/save-all.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { ErrorGroups, readGroup } from "./error-groups.tsx";
import type { About } from "./execution.tsx";
import { HeatMap } from "./heat-map.tsx";
import { type LaneName, laneText, useExecutionPlace } from "./place.ts";
import { RetryDialog, whyNoRetry } from "./retry-dialog.tsx";
import { reasonText } from "./task-history.ts";

const PAGE = 100;
/** The tasks of a request for a file. */
const FILE_PAGE = 1_000;
/** A map of fewer tasks says less than their rows. */
const MAP_FROM = 30;

function columnsOf(parts: {
  readonly chosen: ReadonlySet<number>;
  readonly toggle: (n: number) => void;
  readonly wait: string;
  readonly hasChildren: boolean;
  readonly isOver: boolean;
}): readonly Column<TaskRow>[] {
  const { chosen, toggle, wait, hasChildren, isOver } = parts;
  return [
    {
      id: "pick",
      head: <span class="unseen">Selected</span>,
      width: "38px",
      cell: ({ n, status }) =>
        // Only what a retry would run can be selected.
        status === "done" || (status !== "failed" && !isOver) ? null : (
          <input
            type="checkbox"
            aria-label={`Select task ${n}`}
            tabIndex={-1}
            checked={chosen.has(n)}
            onChange={() => toggle(n)}
          />
        ),
    },
    { id: "n", head: "Task", width: "76px", isNumber: true, cell: ({ n }) => count(n) },
    { id: "status", head: "Status", width: "112px", cell: ({ status }) => <Badge state={status} /> },
    {
      id: "attempts",
      head: "Attempts",
      width: "82px",
      isNumber: true,
      isExtra: true,
      cell: ({ attempts }) => attempts,
    },
    {
      id: "ms",
      head: "Ran",
      width: "84px",
      isNumber: true,
      isExtra: true,
      cell: ({ ms, child }) => (ms === null || child !== undefined ? "" : duration(ms)),
    },
    {
      id: "worker",
      head: hasChildren ? "Child" : "Worker",
      width: "minmax(90px, 0.7fr)",
      isExtra: true,
      cell: ({ worker, child }) =>
        child !== undefined ? (
          <a class="mono" href={executionPage(child)} title={child} tabIndex={-1}>
            {child}
          </a>
        ) : worker === null ? (
          ""
        ) : (
          <a class="mono" href={addressOf("/workers", { worker })} title={worker} tabIndex={-1}>
            {workerName(worker)}
          </a>
        ),
    },
    {
      id: "outcome",
      head: "Result or error",
      width: "minmax(120px, 3fr)",
      cell: (row, _, isNarrow) =>
        isNarrow ? (
          <div class="two-lines small">
            <Outcome row={row} wait={wait} />
          </div>
        ) : (
          <Outcome row={row} wait={wait} />
        ),
    },
  ];
}

export function TasksTab(about: About) {
  const { lane, facts } = about;
  if (lane === null)
    return (
      <Empty
        title={facts.status === "damaged" ? "Its tasks cannot be read." : "No handler has started yet."}
      />
    );
  const counts = facts.phases
    .find(({ name, visit }) => name === lane.phase && visit === lane.visit)
    ?.handlers.find(({ name }) => name === lane.handler);
  return (
    <>
      <ErrorGroups {...about} />
      {(counts?.total ?? 0) < MAP_FROM ? null : <HeatMap {...about} lane={lane} />}
      <TaskRows {...about} lane={lane} counts={counts} />
    </>
  );
}

function TaskRows(about: About & { readonly lane: LaneName; readonly counts: HandlerView | undefined }) {
  const { path, at, stamp, lane, counts } = about;
  const { task, error } = useExecutionPlace();
  const wanted = usePlace().query.get("status");
  const status = TASK_STATES.find((state) => state === wanted) ?? null;
  const key = `${path} tasks ${laneText(lane)} ${at ?? ""} ${status ?? ""} ${error ?? ""}`;
  const read = (cursor: string | null, signal?: AbortSignal, limit = PAGE): Promise<Page<TaskRow>> =>
    error !== null
      ? readGroup(path, error, { cursor, ...(signal === undefined ? {} : { signal }) })
      : get<Page<TaskRow>>(`${path}/tasks`, {
          query: { ...lane, at, status, limit, cursor },
          ...(signal === undefined ? {} : { signal }),
        });
  const first = useLive(key, (signal) => read(null, signal), {
    follows: at === null ? stamp : null,
    gapMs: 2_000,
  });
  const rest = useRest(key, read, first.data);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  useEffect(() => setChosen(new Set()), [laneText(lane)]);
  const toggle = (n: number): void => {
    const next = new Set(chosen);
    if (!next.delete(n)) next.add(n);
    setChosen(next);
  };
  if (first.data === null) return first.problem === null ? <Loading /> : <Trouble problem={first.problem} />;
  const rows = [...first.data.data, ...rest.rows];
  return (
    <>
      <div class="row tab-filter">
        <StatusFilter chosen={status} counts={counts} />
        <RetryButtons {...about} chosen={chosen} failed={counts?.failed ?? 0} />
        {rows.length === 0 ? null : (
          <SaveAll
            label="Download CSV"
            file={`${about.id}.${lane.phase}.${lane.handler}.csv`}
            page={(cursor) => read(cursor, undefined, FILE_PAGE)}
            write={tableOf}
          />
        )}
      </div>
      {rest.problem === null ? null : <Trouble problem={rest.problem} />}
      {rows.length === 0 ? (
        <Empty title={status === null ? "No tasks yet." : `No task is ${status}.`} />
      ) : (
        <Table
          label="Tasks"
          columns={columnsOf({
            chosen,
            toggle,
            wait: waitOf(about.definition, lane),
            hasChildren: rows.some(({ child }) => child !== undefined),
            isOver: about.isOver,
          })}
          rows={rows}
          rowHeight={32}
          narrowHeight={44}
          height={420}
          keyOf={({ n }) => String(n)}
          chosen={task === null ? null : String(task)}
          onOpen={({ n }) => choose({ lane: laneText(lane), task: String(n) })}
          onEnd={rest.hasMore ? rest.more : undefined}
        />
      )}
    </>
  );
}

/** Returns tasks as CSV. */
function tableOf(rows: readonly TaskRow[]): string {
  return csv(
    ["task", "status", "attempts", "ms", "worker", "result", "error"],
    rows.map(({ n, status, attempts, ms, worker, result, error }) => [
      ...[n, status, attempts, ms, worker],
      result === undefined ? null : JSON.stringify(result),
      error === undefined ? null : messageOf(error),
    ]),
  );
}

/** Buttons that retry the selected tasks, or all failed tasks of the handler. */
function RetryButtons({
  path,
  lane,
  chosen,
  failed,
  at,
  facts,
}: About & {
  readonly lane: LaneName;
  readonly chosen: ReadonlySet<number>;
  readonly failed: number;
}) {
  const [isAsking, setIsAsking] = useState<"chosen" | "failed" | null>(null);
  const whyNot = whyNoRetry({ at, facts }, useSession());
  return (
    <>
      {chosen.size === 0 ? null : (
        <Button icon="retry" kind="main" whyNot={whyNot} onClick={() => setIsAsking("chosen")}>
          Retry {count(chosen.size)} selected…
        </Button>
      )}
      {failed === 0 ? null : (
        <Button icon="retry" whyNot={whyNot} onClick={() => setIsAsking("failed")}>
          Retry {count(failed)} failed…
        </Button>
      )}
      {isAsking === null ? null : (
        <RetryDialog
          path={path}
          choice={isAsking === "chosen" ? { ...lane, numbers: [...chosen] } : lane}
          what={
            isAsking === "chosen" ? `selected tasks of ${lane.handler}` : `failed tasks of ${lane.handler}`
          }
          onClose={() => setIsAsking(null)}
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

function StatusFilter({
  chosen,
  counts,
}: {
  readonly chosen: TaskState | null;
  readonly counts: HandlerView | undefined;
}) {
  const shown = TASK_STATES.filter((state) => state === chosen || (counts?.[state] ?? 0) > 0);
  return (
    <div class="choice small" role="group" aria-label="Tasks in state">
      <button
        type="button"
        aria-pressed={chosen === null}
        onClick={() => choose({ status: null, error: null })}
      >
        all <b>{count(counts?.total ?? 0)}</b>
      </button>
      {shown.map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={state === chosen}
          onClick={() => choose({ status: state === chosen ? null : state, error: null })}
        >
          {state} <b>{count(counts?.[state] ?? 0)}</b>
        </button>
      ))}
    </div>
  );
}

function Outcome(props: { readonly row: TaskRow; readonly wait: string }) {
  const { error, result, reason, status } = props.row;
  if (error !== undefined) return <span class="failed-text">{messageOf(error)}</span>;
  if (result !== undefined) return <span class="mono muted">{JSON.stringify(result)}</span>;
  // The last reason of such a task says nothing about the present.
  const text =
    status === "waiting" ? props.wait : status === "pending" ? "waits for a worker" : reasonText(reason);
  return <span class="muted">{text}</span>;
}

/** What a waiting task of a handler waits for. The definition says it for phases; a task of code may do both. */
function waitOf(definition: Workflow | null, { phase, handler }: LaneName): string {
  const phases = (definition?.definition.phases ?? []) as readonly {
    readonly name: string;
    readonly handlers?: Readonly<Record<string, { readonly waitFor?: unknown; readonly sleep?: unknown }>>;
  }[];
  const { waitFor, sleep } = phases.find(({ name }) => name === phase)?.handlers?.[handler] ?? {};
  if (typeof waitFor === "string") return `waits for the signal ${waitFor}`;
  return sleep === undefined ? "sleeps or waits for a signal" : "sleeps";
}
