/** The figures of a workflow: success, durations and volume over hours or days, by handler, and the last runs. */
import { get } from "../../api/client.ts";
import type { Page, Summary, WorkflowStats } from "../../api/shapes.ts";
import { type Live, useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count, duration, moment, plural } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { activityOf } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { Panel } from "../../ui/panel.tsx";
import { RunList } from "../../ui/run-list.tsx";
import { Wide } from "../../ui/wide.tsx";
import { useProgress } from "../executions/use-progress.ts";

const EVERY_MS = 15_000;
/** What the last runs wait for is loaded more rarely: the page asks for much already. */
const PROGRESS_MS = 30_000;
const LAST = 8;
const OVERS = [
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
] as const;

/** Loads the figures of a workflow over the time that the address names. */
export function useStats(name: string): { readonly over: string; readonly stats: Live<WorkflowStats> } {
  const wanted = usePlace().query.get("over");
  const over = OVERS.find(([id]) => id === wanted)?.[0] ?? "24h";
  const path = `/v1/workflows/${encodeURIComponent(name)}/stats`;
  const stats = useLive(
    `${path} ${over}`,
    (signal) => get<WorkflowStats>(path, { query: { over }, signal }),
    EVERY_MS,
  );
  return { over, stats };
}

export function Stats({
  name,
  over,
  stats,
}: {
  readonly name: string;
  readonly over: string;
  readonly stats: WorkflowStats | null;
}) {
  const runs = useLive(
    `last runs of ${name}`,
    (signal) => get<Page<Summary>>("/v1/executions", { query: { workflow: name, limit: LAST }, signal }),
    EVERY_MS,
  );
  const last = runs.data?.data ?? [];
  const progress = useProgress(last, PROGRESS_MS);
  return (
    <Panel
      title="Runs"
      aside={OVERS.map(([id, label]) => (
        <Button key={id} isPressed={over === id} onClick={() => choose({ over: id === "24h" ? null : id })}>
          {label}
        </Button>
      ))}
    >
      {stats === null ? null : (
        <>
          <dl class="figures">
            <Figure label="success rate" value={successOf(stats)} />
            <Figure label="started" value={count(stats.started)} />
            <Figure label="failed" value={count(stats.failed)} />
            <Figure label="open now" value={count(stats.open)} />
            <Figure label="median" value={ms(stats.p50Ms)} />
            <Figure label="p95" value={ms(stats.p95Ms)} />
            <Figure label="p99" value={ms(stats.p99Ms)} />
          </dl>
          <Volume stats={stats} />
        </>
      )}
      <RunList
        runs={last}
        stateOf={({ id, status }) =>
          activityOf(progress.get(id)?.status ?? status, progress.get(id)?.waits ?? null)
        }
      />
      <p>
        <a href={addressOf("/executions", { workflow: name })}>All executions</a>
      </p>
    </Panel>
  );
}

/** Outcomes and durations of the tasks of each handler. */
export function HandlerStats({ handlers }: Pick<WorkflowStats, "handlers">) {
  if (handlers.length === 0) return null;
  return (
    <Panel title="Tasks by handler" isFlush>
      <Wide label="Tasks by handler">
        <table class="rows">
          <thead>
            <tr>
              <th>Handler</th>
              <th class="num">Done</th>
              <th class="num">Failed</th>
              <th class="num">Success</th>
              <th class="num">Median</th>
              <th class="num">p95</th>
              <th class="num">p99</th>
            </tr>
          </thead>
          <tbody>
            {handlers.map((one) => (
              <tr key={`${one.phase}/${one.handler}`}>
                <td>{one.phase === one.handler ? one.phase : `${one.phase} / ${one.handler}`}</td>
                <td class="num">{count(one.done)}</td>
                <td class={`num${one.failed > 0 ? " failed-text" : ""}`}>{count(one.failed)}</td>
                <td class="num">{successOf(one)}</td>
                <td class="num">{ms(one.p50Ms)}</td>
                <td class="num">{ms(one.p95Ms)}</td>
                <td class="num">{ms(one.p99Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
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

/** The share of done ones among those that are done or failed; cancelled ones do not count. */
export function successOf({ done, failed }: { readonly done: number; readonly failed: number }): string {
  const ended = done + failed;
  if (ended === 0) return "–";
  const share = (done / ended) * 100;
  // A failure among very many is not rounded away.
  return `${failed > 0 && share > 99.9 ? "> 99.9" : Math.round(share * 10) / 10} %`;
}

/** A duration of the figures, or a dash. */
export function ms(value: number | null): string {
  return value === null ? "–" : duration(value);
}

/** Starts by hour or day up to now, as bars; the share of failed ones is red. */
function Volume({ stats: { periods, from, periodMs } }: { readonly stats: WorkflowStats }) {
  if (periods.length === 0) return null;
  const until = Math.max(Date.now(), ...periods.map(({ at }) => at));
  const byTime = new Map(periods.map((period) => [period.at, period]));
  const times = Array.from(
    { length: Math.floor((until - from) / periodMs) + 1 },
    (_, i) => from + i * periodMs,
  );
  const most = Math.max(1, ...periods.map(({ started, failed }) => Math.max(started, failed)));
  const unit = periodMs < 86_400_000 ? "hour" : "day";
  const at = (time: number): string => moment(time).slice(...(unit === "hour" ? [11, 16] : [0, 10]));
  return (
    <>
      <div class="volume" role="img" aria-label={`Starts by ${unit}, at most ${count(most)}`}>
        {times.map((time) => {
          const { started = 0, failed = 0, p95Ms = null } = byTime.get(time) ?? {};
          const height = Math.max(started, failed);
          return (
            <span
              key={time}
              title={`${moment(time).slice(0, unit === "hour" ? 16 : 10)}: ${plural(started, "start")}, ${count(failed)} failed, p95 ${ms(p95Ms)}`}
              style={{ height: `${height === 0 ? 2 : Math.max(4, (height / most) * 100)}%` }}
              class={height === 0 ? "is-none" : ""}
            >
              <i style={{ height: `${height === 0 ? 0 : (failed / height) * 100}%` }} />
            </span>
          );
        })}
      </div>
      <p class="volume-axis muted small" aria-hidden="true">
        <span>{at(from)}</span>
        <span>
          starts by {unit}, at most {count(most)}
        </span>
        <span>now</span>
      </p>
    </>
  );
}
