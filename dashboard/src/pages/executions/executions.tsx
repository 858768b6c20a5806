/** The page of all executions: searched, filtered (the filter is in the address), counted exactly, and changed in bulk. */
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { LetterGroup, Page, Progress as ProgressFacts, Summary } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count, duration, grouped, plural } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { choose, go, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { activityOf, Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead } from "../../ui/panel.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { type Column, type Sort, sorted, Table } from "../../ui/table.tsx";
import { Ago } from "../../ui/time.tsx";
import { tell, warn } from "../../ui/toast.tsx";
import { BulkDialog } from "./bulk-dialog.tsx";
import {
  type Counted,
  isFiltered,
  type ListFilter,
  NO_FILTER,
  readFilter,
  StatusChoice,
  WorkflowChoice,
} from "./filters.tsx";
import { MiniBars } from "./mini-bars.tsx";
import { useExecutions } from "./use-executions.ts";
import { useProgress } from "./use-progress.ts";
import { Views } from "./views.tsx";
import "./executions.css";

/** How long after the last key the search begins. */
const TYPING_MS = 250;
/** The most rows that are loaded to sort them. */
const SORTED_MAX = 1_000;

export function Executions() {
  const filter = readFilter(usePlace().query);
  const who = useSession();
  const list = useExecutions(filter);
  const counts = useCounts(filter);
  const [bulk, setBulk] = useState<"cancel" | "retry" | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const search = useRef<HTMLInputElement>(null);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const only = (status: "failed" | "running"): void =>
    choose({ status: filter.status.includes(status) ? null : status });
  useKeys("Executions", [
    { keys: "/", label: "Search", run: () => search.current?.focus() },
    { keys: "f", label: "Failed only, and back", run: () => only("failed") },
    { keys: "r", label: "Running only, and back", run: () => only("running") },
    { keys: "x", label: "Clear all filters", run: () => choose(NO_FILTER) },
  ]);
  return (
    <>
      <PageHead title="Executions">
        {chosen.size === 0 ? (
          <>
            <Button icon="retry" whyNot={whyNot} onClick={() => setBulk("retry")}>
              Retry all…
            </Button>
            <Button icon="stop" whyNot={whyNot} onClick={() => setBulk("cancel")}>
              Cancel all…
            </Button>
          </>
        ) : (
          <Selected ids={[...chosen]} whyNot={whyNot} onDone={() => setChosen(new Set())} />
        )}
      </PageHead>
      <div class="filters">
        <SearchField input={search} value={filter.q ?? ""} />
        <WorkflowChoice chosen={filter.workflow} />
        <StatusChoice counted={counts} chosen={filter.status} isWaiting={filter.isWaiting} />
        <div class="filter-dates">
          <DateField name="since" label="From" value={filter.since} />
          <DateField name="until" label="to" value={filter.until} />
        </div>
        <label class="field inline">
          <input
            type="checkbox"
            checked={filter.isTop}
            onChange={(event) => choose({ top: event.currentTarget.checked ? "true" : null })}
          />
          <span>Top level only</span>
        </label>
        {filter.project === undefined ? null : (
          <Button icon="close" label="Show all projects" onClick={() => choose({ project: null })}>
            Project {filter.project}
          </Button>
        )}
        <Views filter={filter} />
      </div>
      {filter.q === undefined ? null : <TaskErrors q={filter.q} />}
      <List list={list} filter={filter} chosen={chosen} onChoose={setChosen} />
      {bulk === null ? null : (
        <BulkDialog action={bulk} filter={filter} onClose={() => setBulk(null)} onDone={list.reload} />
      )}
    </>
  );
}

/** The search text. The search begins when the user pauses typing. */
function SearchField({
  input,
  value,
}: {
  readonly input: RefObject<HTMLInputElement | null>;
  readonly value: string;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => choose({ q: text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      ref={input}
      class="input filter-search"
      type="search"
      aria-label="Search executions by id, workflow, tag or error"
      placeholder="Search id, workflow, tag=value, error"
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}

const GROUPS_MAX = 3;

/** Groups of task errors that contain the search text. The list itself is searched by the errors of executions. */
function TaskErrors({ q }: { readonly q: string }) {
  const { data } = useLive("error groups", (signal) =>
    get<Page<LetterGroup>>("/v1/dead-letter-groups", { signal }),
  );
  const text = q.toLowerCase();
  const found = (data?.data ?? []).filter(({ name, message }) =>
    `${name}: ${message}`.toLowerCase().includes(text),
  );
  if (text.length < 3 || found.length === 0) return null;
  return (
    <ul class="task-errors" aria-label="Task errors with this text">
      {found.slice(0, GROUPS_MAX).map(({ id, tasks, name, message, workflow }) => (
        <li key={id} class="clip">
          <a href={addressOf("/dead-letters", { group: id })}>
            {plural(tasks, "task")} of {workflow} failed with {name}: {message}
          </a>
        </li>
      ))}
    </ul>
  );
}

function DateField(props: {
  readonly name: string;
  readonly label: string;
  readonly value: string | undefined;
}) {
  return (
    <label class="field inline">
      <span class="muted">{props.label}</span>
      <input
        class="input"
        type="date"
        value={props.value ?? ""}
        onChange={(event) => choose({ [props.name]: event.currentTarget.value })}
      />
    </label>
  );
}

/** Actions on the selected executions. */
function Selected(props: {
  readonly ids: readonly string[];
  readonly whyNot: string | null;
  readonly onDone: () => void;
}) {
  const { ids, whyNot, onDone } = props;
  const [action, setAction] = useState<"cancel" | "pause" | "retry" | null>(null);
  const run = async (reason: string | undefined): Promise<void> => {
    let changed = 0;
    const refused: string[] = [];
    for (const id of ids)
      try {
        const path = `/v1/executions/${encodeURIComponent(id)}/${action}`;
        await change("POST", path, reason === undefined ? {} : { reason });
        changed++;
      } catch (thrown) {
        refused.push(asProblem(thrown).message);
      }
    const says = `${action}: ${plural(changed, "execution")} changed.`;
    if (refused.length === 0) tell(says);
    else warn(says, `${plural(refused.length, "execution")} refused: ${refused[0]}`);
    onDone();
  };
  return (
    <>
      <span class="muted">{count(ids.length)} selected</span>
      {(["retry", "pause", "cancel"] as const).map((one) => (
        <Button key={one} whyNot={whyNot} onClick={() => setAction(one)}>
          {one[0]?.toUpperCase()}
          {one.slice(1)}…
        </Button>
      ))}
      <Button kind="bare" icon="close" label="Clear the selection" onClick={onDone} />
      {action === null ? null : (
        <ReasonDialog
          title={`${action[0]?.toUpperCase()}${action.slice(1)} ${plural(ids.length, "execution")}?`}
          text="Executions whose status does not allow it are left as they are."
          action={`${action[0]?.toUpperCase()}${action.slice(1)} ${count(ids.length)}`}
          isDanger={action === "cancel"}
          onClose={() => setAction(null)}
          run={run}
        />
      )}
    </>
  );
}

/** The numbers of executions by status; null if other filters are set that the counts do not know. */
function useCounts(filter: ListFilter): Counted | null {
  const { project, workflow } = filter;
  const isKnown = !filter.isTop && (filter.q ?? filter.since ?? filter.until) === undefined;
  const key = `counts ${project ?? ""} ${workflow ?? ""}`;
  const { data } = useLive(
    isKnown ? key : null,
    (signal) => get<Counted>("/v1/counts", { query: { project, workflow }, signal }),
    4_000,
  );
  return isKnown ? (data ?? { counts: {}, waiting: 0 }) : null;
}

function List({
  list,
  filter,
  chosen,
  onChoose,
}: {
  readonly list: ReturnType<typeof useExecutions>;
  readonly filter: ListFilter;
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: (chosen: ReadonlySet<string>) => void;
}) {
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChoose(next);
  };
  const [seen, setSeen] = useState<readonly Summary[]>([]);
  const progress = useProgress(seen);
  const now = useNow();
  const columns = columnsOf({ progress, now, chosen, toggle });
  const sortText = usePlace().query.get("sort");
  const sort = readSort(sortText, columns);
  // The same array until something changes: the table reports its visible rows whenever they are others.
  const rows = useMemo(() => sorted(list.rows, columns, sort), [list.rows, sortText]);
  // All rows that may come first are loaded before they are sorted, up to a limit.
  const isLoadingAll = sort !== null && list.hasMore && list.rows.length < SORTED_MAX;
  useEffect(() => {
    if (isLoadingAll) list.more();
  }, [isLoadingAll, list.rows.length]);
  if (list.problem !== null && list.rows.length === 0)
    return <Trouble problem={list.problem} onRetry={list.reload} />;
  if (list.isLoading) return <Loading rows={10} />;
  if (list.rows.length === 0)
    return (
      <section class="panel">
        <Empty title={isFiltered(filter) ? "No execution matches these filters." : "No executions yet."}>
          {isFiltered(filter) ? (
            <Button onClick={() => choose(NO_FILTER)}>Clear the filters</Button>
          ) : (
            <a href="/">See how to start one</a>
          )}
        </Empty>
      </section>
    );
  return (
    <section class="panel">
      <Table
        label="Executions"
        narrowHeight={78}
        columns={columns}
        rows={rows}
        sort={sort}
        onSort={(next) => choose({ sort: next === null ? null : `${next.isDown ? "-" : ""}${next.id}` })}
        keyOf={({ id }) => id}
        onOpen={({ id }) => go(`/executions/${encodeURIComponent(id)}`)}
        onEnd={list.hasMore ? list.more : undefined}
        onView={setSeen}
        foot={
          !list.hasMore
            ? plural(list.rows.length, "execution")
            : sort === null || isLoadingAll
              ? "Loading more…"
              : `The newest ${count(list.rows.length)} executions, sorted. Filter by date, status or workflow to sort others.`
        }
      />
    </section>
  );
}

/** Reads the column to sort by: its id, with a minus for the downward order. */
function readSort(text: string | null, columns: readonly Column<Summary>[]): Sort | null {
  const id = text?.replace(/^-/, "");
  const isKnown = columns.some((column) => column.id === id && column.compare !== undefined);
  return isKnown && id !== undefined ? { id, isDown: text?.startsWith("-") === true } : null;
}

const WORKFLOW: Column<Summary> = {
  id: "workflow",
  head: "Workflow",
  width: "minmax(90px, 0.9fr)",
  isExtra: true,
  compare: (a, b) => a.workflow.localeCompare(b.workflow),
  cell: ({ workflow }) => workflow,
};

function columnsOf(parts: {
  readonly progress: ReadonlyMap<string, ProgressFacts>;
  readonly now: number;
  readonly chosen: ReadonlySet<string>;
  readonly toggle: (id: string) => void;
}): readonly Column<Summary>[] {
  const { progress, now, chosen, toggle } = parts;
  const about = ({ id, phase, error, tags, status }: Summary) => (
    <About
      phase={phase}
      error={status === "cancelled" ? null : error}
      tags={tags}
      why={progress.get(id)?.waits === "running" ? null : (progress.get(id)?.why ?? null)}
      isOpen={status === "running" || status === "paused" || status === "cancelling"}
    />
  );
  const badge = ({ id, status }: Summary) => {
    const seen = progress.get(id);
    return <Badge state={activityOf(seen?.status ?? status, seen?.waits ?? null)} />;
  };
  return [
    {
      id: "pick",
      head: <span class="unseen">Selected</span>,
      width: "38px",
      isExtra: true,
      cell: ({ id }) => (
        <input
          type="checkbox"
          aria-label={`Select ${id}`}
          tabIndex={-1}
          checked={chosen.has(id)}
          onChange={() => toggle(id)}
        />
      ),
    },
    {
      id: "status",
      head: "Status",
      width: "152px",
      compare: (a, b) => a.status.localeCompare(b.status),
      isExtra: true,
      cell: badge,
    },
    {
      id: "id",
      head: "Execution",
      width: "minmax(140px, 1.3fr)",
      compare: (a, b) => a.id.localeCompare(b.id, undefined, { numeric: true }),
      cell: (row, _, isNarrow) => (
        <>
          {isNarrow ? <>{badge(row)} </> : null}
          <a class="mono" href={`/executions/${encodeURIComponent(row.id)}`} tabIndex={-1}>
            {row.id}
          </a>
          {isNarrow ? (
            <div class="small two-lines about-lines">
              <span class="muted">
                {row.workflow}, <Ago at={row.createdAt} />{" "}
              </span>
              {about(row)}
            </div>
          ) : null}
        </>
      ),
    },
    WORKFLOW,
    {
      id: "progress",
      head: "Phases",
      width: "minmax(80px, 1.1fr)",
      isExtra: true,
      cell: ({ id }) => <MiniBars phases={progress.get(id)?.phases ?? null} />,
    },
    {
      id: "about",
      head: "Status detail",
      width: "minmax(130px, 1.9fr)",
      isExtra: true,
      cell: about,
    },
    ...timeColumns(now),
  ];
}

function timeColumns(now: number): readonly Column<Summary>[] {
  return [
    {
      id: "took",
      head: "Took",
      width: "84px",
      isNumber: true,
      isExtra: true,
      compare: (a, b) => tookOf(a, now) - tookOf(b, now),
      cell: (row) => duration(tookOf(row, now)),
    },
    {
      id: "started",
      head: "Started",
      width: "92px",
      isNumber: true,
      isExtra: true,
      compare: (a, b) => a.createdAt - b.createdAt,
      cell: ({ createdAt }) => <Ago at={createdAt} />,
    },
  ];
}

function tookOf({ createdAt, finishedAt }: Summary, now: number): number {
  return (finishedAt ?? now) - createdAt;
}

function About({
  phase,
  error,
  tags,
  why,
  isOpen,
}: Pick<Summary, "phase" | "error" | "tags"> & { readonly why: string | null; readonly isOpen: boolean }) {
  if (error !== null)
    return (
      <span class="failed-text" title={error}>
        {error.replace(/^[a-z]+_failed: /, "")}
      </span>
    );
  const shown = isOpen && why !== null ? grouped(why) : null;
  return (
    <>
      {shown !== null ? (
        <span title={shown}>{shown} </span>
      ) : phase === null ? null : (
        <span class="muted">{phase} </span>
      )}
      {Object.entries(tags).map(([name, value]) => (
        <span key={name} class="tag">
          {name}={value}
        </span>
      ))}
    </>
  );
}

/** A page of the list. */
export type ExecutionPage = Page<Summary>;
