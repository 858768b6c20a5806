/** The page of schedules: next due times, missed due times, and a button that runs a schedule now. */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Page, Schedule } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, moment, momentIn, plural, relative } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell } from "../../ui/toast.tsx";
import { ScheduleDialog } from "./schedule-dialog.tsx";
import "./schedules.css";

export function Schedules() {
  const who = useSession();
  const [isMaking, setIsMaking] = useState(false);
  const { data, problem, reload } = useLive(
    "schedules",
    (signal) => get<Page<Schedule>>("/v1/schedules", { query: { limit: 500 }, signal }),
    5_000,
  );
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  return (
    <>
      <PageHead title="Schedules">
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
      ) : data.data.length === 0 ? (
        <section class="panel">
          <Empty title="Nothing starts by the clock.">
            <span>
              A schedule starts a workflow at the times that a cron expression says, in a time zone of your
              choice.
            </span>
          </Empty>
        </section>
      ) : (
        <div class="schedule-list">
          {data.data.map((schedule) => (
            <ScheduleCard key={schedule.id} schedule={schedule} whyNot={whyNot} onChange={reload} />
          ))}
        </div>
      )}
      {isMaking ? <ScheduleDialog onClose={() => setIsMaking(false)} onDone={reload} /> : null}
    </>
  );
}

function ScheduleCard(props: {
  readonly schedule: Schedule;
  readonly whyNot: string | null;
  readonly onChange: () => void;
}) {
  const { schedule, whyNot, onChange } = props;
  const { id, workflow, cron, timeZone, state } = schedule;
  const path = `/v1/schedules/${encodeURIComponent(id)}`;
  const run = (action: "pause" | "resume"): void =>
    attempt(async () => {
      await change("POST", `${path}/${action}`);
      tell(action === "pause" ? `${id} does not fire until it is resumed.` : `${id} fires again.`);
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
          {id} {state.paused ? <Badge state="paused" /> : null}
        </span>
      }
      aside={<a href={`/definitions/${encodeURIComponent(workflow)}`}>{workflow}</a>}
    >
      <div class="stack">
        <p>
          <code class="cron">{cron}</code> <span class="muted">{timeZone}</span>
        </p>
        <Next next={schedule.next} timeZone={schedule.timeZone} isPaused={state.paused} />
        <Past schedule={schedule} />
        <div class="row">
          {state.paused ? (
            <Button icon="play" whyNot={whyNot} onClick={() => run("resume")}>
              Resume
            </Button>
          ) : (
            <Button icon="pause" whyNot={whyNot} onClick={() => run("pause")}>
              Pause
            </Button>
          )}
          <Button icon="play" whyNot={whyNot} onClick={runNow}>
            Run now
          </Button>
        </div>
      </div>
    </Panel>
  );
}

/** The next due time, in the schedule's own time zone. */
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
  if (isPaused) return <p class="muted">It is paused: it does not fire.</p>;
  if (next.length === 0) return <p class="muted">It never fires again.</p>;
  return (
    <ol class="firings" aria-label="Next firings">
      {next.slice(0, 5).map((at, i) => (
        <li key={at} class={i === 0 ? "is-first" : ""}>
          <span title={`${moment(at)} here`}>{momentIn(timeZone, at)}</span>
          <span class="muted">{relative(at, now)}</span>
        </li>
      ))}
    </ol>
  );
}

function Past({ schedule: { misfire, overlap, state } }: { readonly schedule: Schedule }) {
  const { misfires, lastDue, lastExecution, skipped, dropped, lastError } = state;
  return (
    <dl class="pairs">
      <div>
        <dt>last</dt>
        <dd>
          {lastDue === null ? "has not fired yet" : <Ago at={lastDue} />}
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
        <dt>misfires</dt>
        <dd>
          {misfires === null
            ? "none"
            : `${plural(misfires.missed, "due time")} missed, the last ${moment(misfires.last).slice(0, 16)}`}
          <span class="muted">
            {" "}
            ({misfire}
            {dropped > 0 ? `, ${count(dropped)} never fired` : ""})
          </span>
        </dd>
      </div>
      <div>
        <dt>overlap</dt>
        <dd>
          {overlap}
          {skipped > 0 ? <span class="muted"> ({count(skipped)} skipped)</span> : null}
        </dd>
      </div>
      {lastError === null ? null : (
        <div>
          <dt>error</dt>
          <dd class="failed-text">{lastError.message ?? JSON.stringify(lastError)}</dd>
        </div>
      )}
    </dl>
  );
}
