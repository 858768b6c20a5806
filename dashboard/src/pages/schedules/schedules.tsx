/** The page of schedules: next due times, missed due times, and a button that runs a schedule now. */
import { useEffect, useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Page, Schedule, Summary } from "../../api/shapes.ts";
import { type Live, useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count, moment, momentIn, plural, relative } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { useFinder } from "../../ui/finder.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { RunList } from "../../ui/run-list.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell, tellUndo } from "../../ui/toast.tsx";
import { BackfillDialog } from "./backfill-dialog.tsx";
import { cronWords } from "./cron-words.ts";
import { ScheduleDialog } from "./schedule-dialog.tsx";
import "./schedules.css";

export function Schedules() {
  const who = useSession();
  const [isMaking, setIsMaking] = useState(false);
  const { data, problem, reload, isPart } = useSchedules();
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  // Failing schedules come first: they are what an operator looks for.
  const sorted = (data?.data ?? []).toSorted(
    (a, b) => Number(b.state.lastError !== null) - Number(a.state.lastError !== null),
  );
  const { shown, field, foot } = useFinder("schedules", sorted, textOf, isPart);
  const isSought = (usePlace().query.get("q") ?? "") !== "";
  return (
    <>
      <PageHead title="Schedules" about={data === null ? "" : isPart ? "" : aboutOf(data.data)}>
        {field}
        <Button icon="plus" whyNot={whyNot} onClick={() => setIsMaking(true)}>
          New schedule
        </Button>
      </PageHead>
      {data === null ? (
        problem === null ? (
          <Loading rows={5} />
        ) : (
          <Trouble problem={problem} onRetry={reload} />
        )
      ) : data.data.length === 0 && !isSought ? (
        <section class="panel">
          <Empty title="No schedules yet">
            <span>
              A schedule starts a workflow at the times of a cron expression, in a time zone of your choice.
            </span>
          </Empty>
        </section>
      ) : (
        <>
          <div class="schedule-list">
            {shown.map((schedule) => (
              <ScheduleCard
                key={schedule.id}
                {...{ schedule, whyNot }}
                opensRuns={sorted.length <= FEW}
                onChange={reload}
              />
            ))}
          </div>
          {foot}
        </>
      )}
      {isMaking ? <ScheduleDialog onClose={() => setIsMaking(false)} onDone={reload} /> : null}
    </>
  );
}

/** The most schedules that are loaded. If there are more, the server looks for the sought ones. */
const LOADED = 500;
const TYPING_MS = 250;
const EVERY_MS = 8_000;

/** All schedules, or of very many those that the address looks for; `isPart`: there are more than are loaded. */
function useSchedules(): Live<Page<Schedule>> & { readonly isPart: boolean } {
  const text = usePlace().query.get("q") ?? "";
  const [q, setQ] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setQ(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const load = (sought: string | null) => (signal: AbortSignal) =>
    get<Page<Schedule>>("/v1/schedules", { query: { limit: LOADED, q: sought }, signal });
  const all = useLive("schedules", load(null), EVERY_MS);
  const isPart = (all.data?.next ?? null) !== null;
  const found = useLive(isPart && q !== "" ? `schedules ${q}` : null, load(q), EVERY_MS);
  // What was looked for before says nothing about another text.
  const isTyping = isPart && text !== q && text !== "";
  return { ...(isPart && q !== "" ? found : all), ...(isTyping ? { data: null } : {}), isPart };
}

/** The text in which a schedule is found. */
function textOf({ id, workflow, cron, timeZone, state: { paused, lastError } }: Schedule): string {
  return `${id} ${workflow} ${cron} ${timeZone}${paused ? " paused" : ""}${lastError === null ? "" : " failing"}`;
}

function aboutOf(all: readonly Schedule[]): string {
  const failing = all.filter(({ state }) => state.lastError !== null).length;
  const paused = all.filter(({ state }) => state.paused).length;
  return [
    ...(all.length === 0 ? [] : [plural(all.length, "schedule")]),
    ...(failing === 0 ? [] : [`${count(failing)} failing`]),
    ...(paused === 0 ? [] : [`${count(paused)} paused`]),
  ].join(", ");
}

type Asked = "pause" | "delete" | "edit" | "backfill" | null;

function ScheduleCard(props: {
  readonly schedule: Schedule;
  readonly opensRuns: boolean;
  readonly whyNot: string | null;
  readonly onChange: () => void;
}) {
  const { schedule, opensRuns, whyNot, onChange } = props;
  const { id, workflow, cron, timeZone, state } = schedule;
  const path = `/v1/schedules/${encodeURIComponent(id)}`;
  const [asked, setAsked] = useState<Asked>(null);
  const resume = (): void =>
    attempt(async () => {
      await change("POST", `${path}/resume`);
      tell(`${id} is resumed.`);
      onChange();
    });
  const runNow = (): void =>
    attempt(async () => {
      const { execution } = await change<{ execution: string }>("POST", `${path}/run`);
      tell(`Started ${execution}.`);
      onChange();
    });
  return (
    <Panel
      class="schedule"
      title={
        <span class="row">
          <span class="clip">{id}</span>
          {state.paused ? <Badge state="paused" /> : null}
          {state.lastError === null ? null : <Badge state="failed" text="failing" />}
        </span>
      }
      aside={<a href={`/definitions/${encodeURIComponent(workflow)}`}>{workflow}</a>}
    >
      <div class="stack">
        <p>
          <b>{cronWords(cron)}</b>
        </p>
        <p>
          <code class="cron">{cron}</code> <span class="muted">{timeZone}</span>
        </p>
        <Next next={schedule.next} timeZone={schedule.timeZone} isPaused={state.paused} />
        <Past schedule={schedule} />
        <LastRuns schedule={schedule} opens={opensRuns} />
        <div class="row">
          {state.paused ? (
            <Button icon="play" whyNot={whyNot} onClick={resume}>
              Resume
            </Button>
          ) : (
            <Button icon="pause" whyNot={whyNot} onClick={() => setAsked("pause")}>
              Pause…
            </Button>
          )}
          <Button icon="play" whyNot={whyNot} onClick={runNow}>
            Run now
          </Button>
          <Button whyNot={whyNot} onClick={() => setAsked("edit")}>
            Edit…
          </Button>
          <Button whyNot={whyNot} onClick={() => setAsked("backfill")}>
            Backfill…
          </Button>
          <Button icon="trash" kind="danger" whyNot={whyNot} onClick={() => setAsked("delete")}>
            Delete…
          </Button>
        </div>
        <ScheduleDialogs {...{ asked, schedule, path, onChange }} onClose={() => setAsked(null)} />
      </div>
    </Panel>
  );
}

function ScheduleDialogs(props: {
  readonly asked: Asked;
  readonly schedule: Schedule;
  readonly path: string;
  readonly onChange: () => void;
  readonly onClose: () => void;
}) {
  const { asked, schedule, path, onChange, onClose } = props;
  if (asked === "edit") return <ScheduleDialog schedule={schedule} onClose={onClose} onDone={onChange} />;
  if (asked === "backfill") return <BackfillDialog schedule={schedule} path={path} onClose={onClose} />;
  if (asked === "pause")
    return (
      <ReasonDialog
        title={`Pause ${schedule.id}?`}
        text="It starts no executions until it is resumed. Executions that it has started go on."
        action="Pause"
        onClose={onClose}
        run={async (reason) => {
          await change("POST", `${path}/pause`, undefined, reason);
          tellUndo(`${schedule.id} is paused.`, async () => void (await change("POST", `${path}/resume`)));
        }}
      />
    );
  if (asked === "delete")
    return (
      <ReasonDialog
        title={`Delete ${schedule.id}?`}
        text="It starts no further executions. Executions that it has started go on."
        action="Delete"
        isDanger
        onClose={onClose}
        run={async (reason) => {
          await change("DELETE", path, undefined, reason);
          tell(`${schedule.id} is deleted.`);
        }}
      />
    );
  return null;
}

const LAST = 5;

/** With more schedules than this, their last runs are loaded when they are opened. */
const FEW = 6;

function LastRuns({ schedule, opens }: { readonly schedule: Schedule; readonly opens: boolean }) {
  const [isOpen, setIsOpen] = useState(opens);
  if (schedule.state.lastDue === null) return null;
  return (
    <details open={opens} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>Last runs</summary>
      {isOpen ? <History schedule={schedule} /> : null}
    </details>
  );
}

/** The last executions that the schedule started. Their ids begin with its own. */
function History({ schedule: { id, workflow, state, timeZone } }: { readonly schedule: Schedule }) {
  const { data } = useLive(
    `runs of ${id}`,
    (signal) =>
      get<Page<Summary>>("/v1/executions", { query: { workflow, q: `${id}~`, limit: LAST }, signal }),
    { follows: state.lastExecution, everyMs: 30_000 },
  );
  if (data === null || data.data.length === 0) return null;
  return (
    <RunList runs={data.data} labelOf={({ id: execution }) => dueOf(execution, timeZone)}>
      <li>
        <a href={addressOf("/executions", { workflow, q: `${id}~` })}>All runs</a>
      </li>
    </RunList>
  );
}

/** The time at which an execution was due: its id ends with it. */
function dueOf(execution: string, timeZone: string): string | null {
  const due = /~(\d{12,15})$/.exec(execution)?.[1];
  return due === undefined ? null : momentIn(timeZone, Number(due));
}

const NEXT = 3;

/** The next due times, in the schedule's own time zone. */
function Next({
  next,
  timeZone,
  isPaused,
}: {
  readonly next: readonly number[];
  readonly timeZone: string;
  readonly isPaused: boolean;
}) {
  const now = useNow();
  if (isPaused) return <p class="muted">Paused. It starts nothing until it is resumed.</p>;
  if (next.length === 0) return <p class="muted">No further due times.</p>;
  return (
    <ol class="firings" aria-label="Next runs">
      {next.slice(0, NEXT).map((at, i) => (
        <li key={at} class={i === 0 ? "is-first" : ""}>
          <span title={`${moment(at)} here`}>{momentIn(timeZone, at)}</span>
          <span class="muted">{relative(at, now)}</span>
        </li>
      ))}
    </ol>
  );
}

/** What a schedule does about due times that passed while no node ran. */
const MISFIRES: Readonly<Record<string, string>> = {
  fireOnce: "would start once, late",
  all: "would all start, late",
  skip: "would be skipped",
};

/** What a schedule does while its last execution still runs. */
const OVERLAPS: Readonly<Record<string, string>> = {
  allow: "starts beside a running one",
  skip: "skipped while one runs",
  queue: "waits until the running one has ended",
};

function Past({ schedule: { misfire, overlap, state } }: { readonly schedule: Schedule }) {
  const { misfires, lastDue, lastExecution, skipped, dropped, lastError } = state;
  return (
    <dl class="pairs">
      <div>
        <dt>Last run</dt>
        <dd>
          {lastDue === null ? "no run yet" : <Ago at={lastDue} />}
          {lastExecution === null ? null : (
            <>
              {" "}
              <a class="mono" href={`/executions/${encodeURIComponent(lastExecution)}`}>
                {lastExecution}
              </a>
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Missed runs</dt>
        <dd>
          {misfires === null
            ? "none"
            : `${plural(misfires.missed, "due time")} missed, the last ${moment(misfires.last).slice(0, 16)}`}
          <span class="muted">
            {" "}
            ({MISFIRES[misfire] ?? misfire}
            {dropped > 0 ? `, ${count(dropped)} never started` : ""})
          </span>
        </dd>
      </div>
      <div>
        <dt>Overlap</dt>
        <dd>
          {OVERLAPS[overlap] ?? overlap}
          {skipped > 0 ? <span class="muted"> ({count(skipped)} skipped)</span> : null}
        </dd>
      </div>
      {lastError === null ? null : (
        <div>
          <dt>Error</dt>
          <dd class="failed-text">{lastError.message ?? JSON.stringify(lastError)}</dd>
        </div>
      )}
    </dl>
  );
}
