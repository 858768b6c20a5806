/** The page of workers: the handlers that each serves, the attempts that each holds, and all open attempts. */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { OpenAttempt, Page, Worker } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { executionPage } from "../../core/address.ts";
import { bytes, count, duration, plural, workerName } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { choose, usePlace } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { useFinder } from "../../ui/finder.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { tell } from "../../ui/toast.tsx";
import { Wide } from "../../ui/wide.tsx";
import "./workers.css";

const EVERY_MS = 8_000;
const ATTEMPTS_SHOWN = 100;
const SERVED_SHOWN = 8;
/** More workers than this are rows of a table: cards would take too much room. */
const CARDS_MAX = 12;
/** The name under which workers register to run scripts. */
const SCRIPTS = "~script";

export function Workers() {
  const chosen = usePlace().query.get("worker");
  const workers = useLive("workers", (signal) => get<Page<Worker>>("/v1/workers", { signal }), EVERY_MS);
  const attempts = useLive(
    `attempts ${chosen ?? ""}`,
    (signal) =>
      get<Page<OpenAttempt>>("/v1/attempts", { query: { worker: chosen, limit: ATTEMPTS_SHOWN }, signal }),
    EVERY_MS,
  );
  const { data, problem } = workers;
  // The chosen worker comes first, so that it is in sight; then those that stop, then the busiest.
  const sorted = (data?.data ?? []).toSorted(
    (a, b) =>
      Number(b.id === chosen) - Number(a.id === chosen) ||
      Number(b.draining) - Number(a.draining) ||
      b.held - a.held ||
      a.name.localeCompare(b.name, undefined, { numeric: true }),
  );
  const { shown, field, foot } = useFinder("workers", sorted, textOf);
  if (data === null)
    return problem === null ? <Loading rows={6} /> : <Trouble problem={problem} onRetry={workers.reload} />;
  const held = data.data.reduce((sum, worker) => sum + worker.held, 0);
  const capacity = data.data.reduce((sum, worker) => sum + worker.capacity, 0);
  return (
    <>
      <PageHead
        title="Workers"
        about={
          data.data.length === 0
            ? ""
            : `${plural(data.data.length, "worker")}, ${count(held)} of ${count(capacity)} slots in use`
        }
      >
        {field}
      </PageHead>
      <div class="stack">
        {data.data.length === 0 ? (
          <section class="panel">
            <Empty title="No worker is connected. Tasks wait until one is.">
              <code>rondo worker my-workflows.ts</code>
            </Empty>
          </section>
        ) : (
          <>
            {data.data.length > CARDS_MAX ? (
              <WorkerTable workers={shown} chosen={chosen} onChange={workers.reload} />
            ) : (
              <ul class="worker-list">
                {shown.map((worker) => (
                  <WorkerCard
                    key={worker.id}
                    worker={worker}
                    isChosen={worker.id === chosen}
                    onChange={workers.reload}
                  />
                ))}
              </ul>
            )}
            {foot}
          </>
        )}
        <Attempts attempts={attempts.data?.data ?? null} chosen={chosen} />
      </div>
    </>
  );
}

/** The text in which a worker is found. */
function textOf({ id, name, url, version, handlers, topics, draining }: Worker): string {
  const serves = [...handlers.map(({ use }) => use), ...topics].join(" ");
  return `${id} ${name} ${url ?? ""} ${version ?? ""} ${serves}${draining ? " draining" : ""}`;
}

function WorkerTable(props: {
  readonly workers: readonly Worker[];
  readonly chosen: string | null;
  readonly onChange: () => void;
}) {
  return (
    <section class="panel">
      <Wide label="Workers">
        <table class="rows worker-rows">
          <thead>
            <tr>
              <th>Worker</th>
              <th>Running</th>
              <th>Address</th>
              <th>Last contact</th>
              <th>Serves</th>
              <th>
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {props.workers.map((worker) => (
              <tr key={worker.id} class={`worker-row${worker.id === props.chosen ? " is-chosen" : ""}`}>
                <td>
                  <WorkerName worker={worker} isChosen={worker.id === props.chosen} />
                </td>
                <td>
                  <Gauge worker={worker} />
                  <span class="small">
                    {count(worker.held)} of {count(worker.capacity)}
                  </span>
                </td>
                <td>{addressOf(worker)}</td>
                <td class="nowrap">{worker.lastSeenAt === null ? "" : <Ago at={worker.lastSeenAt} />}</td>
                <td>
                  <Serves worker={worker} max={2} />
                </td>
                <td>
                  {worker.kind === "local" ? null : <Drain worker={worker} onChange={props.onChange} />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

function addressOf({ kind, url, version }: Worker): string {
  const address = kind === "local" ? "in the server's process" : (url ?? "unknown");
  return version === null ? address : `${address}, ${version}`;
}

function Gauge({ worker: { held, capacity } }: { readonly worker: Worker }) {
  const share = capacity === 0 ? 0 : held / capacity;
  return (
    <div class="worker-gauge" role="img" aria-label={`${held} of ${capacity} slots in use`}>
      <i style={{ width: `${Math.min(100, share * 100)}%` }} />
    </div>
  );
}

/** The name of a worker, which selects its attempts. */
function WorkerName({ worker, isChosen }: { readonly worker: Worker; readonly isChosen: boolean }) {
  return (
    <div class="row spread">
      <button
        type="button"
        class="worker-name clip"
        aria-pressed={isChosen}
        title={`${worker.id}: show its attempts`}
        onClick={() => choose({ worker: isChosen ? null : worker.id })}
      >
        {worker.name}
      </button>
      {worker.draining ? <Badge state="cancelling" text="draining" /> : null}
    </div>
  );
}

function WorkerCard(props: {
  readonly worker: Worker;
  readonly isChosen: boolean;
  readonly onChange: () => void;
}) {
  const { worker, isChosen, onChange } = props;
  return (
    <li class={`panel worker${isChosen ? " is-chosen" : ""}`}>
      <WorkerName worker={worker} isChosen={isChosen} />
      <Gauge worker={worker} />
      <dl class="pairs">
        <div>
          <dt>Running</dt>
          <dd>
            {count(worker.held)} of {count(worker.capacity)}
          </dd>
        </div>
        <div>
          <dt>Address</dt>
          <dd>{addressOf(worker)}</dd>
        </div>
        {worker.memoryBytes === undefined || worker.memoryBytes === null ? null : (
          <div>
            <dt>Memory</dt>
            <dd>{bytes(worker.memoryBytes)}</dd>
          </div>
        )}
        {worker.lastSeenAt === null ? null : (
          <div>
            <dt>Last contact</dt>
            <dd>
              <Ago at={worker.lastSeenAt} />
            </dd>
          </div>
        )}
      </dl>
      <Serves worker={worker} max={SERVED_SHOWN} />
      {worker.kind === "local" ? null : <Drain worker={worker} onChange={onChange} />}
    </li>
  );
}

/** The handlers and topics that a worker serves: the first ones, or all of them. */
function Serves({ worker, max }: { readonly worker: Worker; readonly max: number }) {
  const [isAll, setIsAll] = useState(false);
  const names = [...worker.handlers.map(served), ...worker.topics];
  const isLong = names.length > max + 1;
  return (
    <div class="worker-serves" role="group" aria-label={`Served by ${workerName(worker.id)}`}>
      {(isAll || !isLong ? names : names.slice(0, max)).map((name) => (
        <span key={name} class="tag mono">
          {name}
        </span>
      ))}
      {isLong ? (
        <button type="button" class="tag" aria-expanded={isAll} onClick={() => setIsAll(!isAll)}>
          {isAll ? "show fewer" : `${count(names.length - max)} more`}
        </button>
      ) : null}
    </div>
  );
}

function Drain({ worker, onChange }: { readonly worker: Worker; readonly onChange: () => void }) {
  const who = useSession();
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <Button
        icon="leave"
        whyNot={
          may("operator", who)
            ? worker.draining
              ? "It is draining already."
              : null
            : `This needs the role operator; ${who.name} is ${who.role}.`
        }
        onClick={() => setIsAsking(true)}
      >
        Drain…
      </Button>
      {isAsking ? (
        <ReasonDialog
          title={`Drain ${worker.name}?`}
          text={`It finishes the ${plural(worker.held, "task")} that it runs, takes no further ones, and stops.`}
          action="Drain"
          isDanger
          onClose={() => setIsAsking(false)}
          run={async (reason) => {
            await change("POST", `/v1/workers/${encodeURIComponent(worker.id)}/drain`, undefined, reason);
            tell(`${worker.name} drains.`);
            onChange();
          }}
        />
      ) : null}
    </>
  );
}

/** The name of a handler that a worker serves, for display. */
function served({ use, version }: Worker["handlers"][number]): string {
  if (use === SCRIPTS) return "all scripts";
  return version === undefined ? use : `${use}@${version}`;
}

function Attempts({
  attempts,
  chosen,
}: {
  readonly attempts: readonly OpenAttempt[] | null;
  readonly chosen: string | null;
}) {
  const now = useNow();
  return (
    <Panel
      title={chosen === null ? "Open attempts" : `Attempts of ${workerName(chosen)}`}
      aside={
        attempts === null
          ? null
          : attempts.length === ATTEMPTS_SHOWN
            ? `the first ${ATTEMPTS_SHOWN}`
            : count(attempts.length)
      }
      isFlush
    >
      {attempts === null ? (
        <Loading rows={2} />
      ) : attempts.length === 0 ? (
        <Empty title="Nothing is running." />
      ) : (
        <Wide label="Open attempts">
          <table class="rows">
            <thead>
              <tr>
                <th>Execution</th>
                <th>Handler</th>
                <th class="num">Task</th>
                <th class="num">Attempt</th>
                <th>Worker</th>
                <th class="num">Runs for</th>
                <th>Heartbeat timeout</th>
              </tr>
            </thead>
            <tbody>
              {attempts.map((one) => (
                <tr key={one.attempt}>
                  <td>
                    <a
                      class="mono nowrap"
                      href={executionPage(one.execution, {
                        lane: `${one.phase}.${one.visit}.${one.handler}`,
                        task: one.task < 0 ? null : one.task,
                      })}
                    >
                      {one.execution}
                    </a>
                  </td>
                  <td>{one.handler}</td>
                  <td class="num">{one.task < 0 ? "list" : count(one.task)}</td>
                  <td class="num" title={one.attempt}>
                    {one.n}
                  </td>
                  <td class="mono nowrap" title={one.worker}>
                    {workerName(one.worker)}
                  </td>
                  <td class="num">
                    {one.startedAt === null ? "not started" : duration(now - one.startedAt)}
                  </td>
                  <td>
                    <Countdown until={one.leaseUntil} now={now} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}

/** The time that is left until a silent attempt is lost. */
function Countdown({ until, now }: { readonly until: number | null; readonly now: number }) {
  if (until === null) return <span class="muted">none</span>;
  const left = Math.max(0, until - now);
  const isLow = left < 8_000;
  return (
    <span class={`countdown${isLow ? " is-low" : ""}`}>
      <i style={{ width: `${Math.min(100, (left / 30_000) * 100)}%` }} />
      <span>{left === 0 ? "lost" : duration(left)}</span>
    </span>
  );
}
