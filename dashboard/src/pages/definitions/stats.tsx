/** The figures of the newest executions of a workflow: success, durations, starts by hour, and the last runs. */
import { get } from "../../api/client.ts";
import type { Page, Summary, WorkflowStats } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { count, duration, moment, plural } from "../../core/format.ts";
import { Badge } from "../../ui/badge.tsx";
import { Panel } from "../../ui/panel.tsx";
import { Ago } from "../../ui/time.tsx";

const EVERY_MS = 15_000;
const LAST = 8;
/** The most hours that are drawn. */
const HOURS = 48;

export function Stats({ name }: { readonly name: string }) {
  const path = `/v1/workflows/${encodeURIComponent(name)}/stats`;
  const stats = useLive(path, (signal) => get<WorkflowStats>(path, { signal }), EVERY_MS);
  const runs = useLive(
    `${path} runs`,
    (signal) => get<Page<Summary>>("/v1/executions", { query: { workflow: name, limit: LAST }, signal }),
    EVERY_MS,
  );
  const { data } = stats;
  if (data === null || data.runs === 0) return null;
  const ended = data.done + data.failed;
  return (
    <Panel
      title="Runs"
      aside={data.isAll ? plural(data.runs, "execution") : `the newest ${count(data.runs)} executions`}
    >
      <dl class="figures">
        <Figure
          label="success rate"
          value={ended === 0 ? "–" : `${Math.round((data.done / ended) * 1_000) / 10} %`}
        />
        <Figure label="failed" value={count(data.failed)} />
        <Figure label="open" value={count(data.open)} />
        <Figure label="median" value={ms(data.p50Ms)} />
        <Figure label="p95" value={ms(data.p95Ms)} />
        <Figure label="p99" value={ms(data.p99Ms)} />
      </dl>
      <Volume hours={data.hours.slice(-HOURS)} />
      <ul class="last-runs">
        {(runs.data?.data ?? []).map(({ id, status, createdAt, finishedAt }) => (
          <li key={id}>
            <Badge state={status} />
            <a class="mono clip" href={executionPage(id)}>
              {id}
            </a>
            <span class="muted nowrap">
              {finishedAt === null ? "" : `${duration(finishedAt - createdAt)}, `}
              <Ago at={createdAt} />
            </span>
          </li>
        ))}
      </ul>
      <p>
        <a href={addressOf("/executions", { workflow: name })}>All executions</a>
      </p>
    </Panel>
  );
}

function Figure({ label, value }: { readonly label: string; readonly value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function ms(value: number | null): string {
  return value === null ? "–" : duration(value);
}

/** Starts by hour, as bars; failed ones are red. */
function Volume({ hours }: { readonly hours: WorkflowStats["hours"] }) {
  const most = Math.max(1, ...hours.map(({ started }) => started));
  if (hours.length < 2) return null;
  return (
    <div class="volume" role="img" aria-label={`Starts by hour, at most ${most}`}>
      {hours.map(({ at, started, failed }) => (
        <span
          key={at}
          title={`${moment(at).slice(0, 16)}: ${plural(started, "start")}, ${count(failed)} failed`}
          style={{ height: `${Math.max(4, (started / most) * 100)}%` }}
        >
          <i style={{ height: `${(failed / started) * 100}%` }} />
        </span>
      ))}
    </div>
  );
}
