/** The overview: present activity, rates, waiting work and failures. */
import { get } from "../../api/client.ts";
import type { Overview as Facts, LetterGroup, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count, short } from "../../core/format.ts";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { Attention } from "./attention.tsx";
import { FirstSteps } from "./first-steps.tsx";
import { recent, Throughput, Waits } from "./rates.tsx";
import "./overview.css";

const SECONDS = 300;
const EVERY_MS = 5_000;

export function Overview() {
  const live = useLive(
    "overview",
    (signal) => get<Facts>("/v1/overview", { query: { seconds: SECONDS }, signal }),
    EVERY_MS,
  );
  const groups = useLive(
    "groups",
    (signal) => get<Page<LetterGroup>>("/v1/dead-letter-groups", { signal }),
    30_000,
  );
  const { data, problem, reload } = live;
  if (data === null)
    return problem === null ? <Loading rows={8} /> : <Trouble problem={problem} onRetry={reload} />;
  const total = Object.values(data.counts).reduce((sum, n) => sum + n, 0);
  return (
    <>
      <PageHead title="Overview" about={`Rondo ${data.version}`}>
        <Lights lights={data.lights} />
      </PageHead>
      {total === 0 ? (
        <FirstSteps workers={data.workers} />
      ) : (
        <div class="stack">
          <Attention />
          <Tiles facts={data} />
          {data.pulse === null ? null : (
            <div class="overview-rates">
              <Throughput pulse={data.pulse} />
              <Waits pulse={data.pulse} />
            </div>
          )}
          <div class="columns">
            <Failing groups={groups.data?.data ?? null} />
            <Waiting facts={data} />
          </div>
        </div>
      )}
    </>
  );
}

/** The names of parts that the server does not have. */
const NONE = { store: "no store", broker: "no broker", ring: "single node" } as const;

function Lights({ lights }: { readonly lights: Facts["lights"] }) {
  return (
    <ul class="lights" aria-label="Parts">
      {(["store", "broker", "ring"] as const).map((part) => (
        <li key={part} class={`light ${lights[part].state}`} title={lights[part].text}>
          {lights[part].state === "off" ? NONE[part] : part}
          <span class="unseen">: {lights[part].text}</span>
          {lights[part].state === "bad" || lights[part].state === "warn" ? (
            <span>{lights[part].text}</span>
          ) : null}
        </li>
      ))}
    </ul>
  );
}

function Tiles({ facts }: { readonly facts: Facts }) {
  const { counts, pulse } = facts;
  const waiting = facts.ready.reduce((sum, { tasks }) => sum + tasks, 0);
  const tiles: readonly Tile[] = [
    {
      label: facts.waiting === 0 ? "running" : `running, ${count(facts.waiting)} asleep or waiting`,
      value: count(counts.running ?? 0),
      tone: (counts.running ?? 0) > 0 ? "running" : "",
      to: addressOf("/executions", { status: "running" }),
    },
    ...((counts.paused ?? 0) > 0
      ? [
          {
            label: "paused",
            value: count(counts.paused ?? 0),
            tone: "paused",
            to: addressOf("/executions", { status: "paused" }),
          },
        ]
      : []),
    {
      label: "failed",
      value: count(counts.failed ?? 0),
      tone: (counts.failed ?? 0) > 0 ? "failed" : "",
      to: addressOf("/executions", { status: "failed" }),
    },
    {
      label: "done",
      value: count(counts.done ?? 0),
      tone: "",
      to: addressOf("/executions", { status: "done" }),
    },
    ...(pulse === null
      ? []
      : [
          { label: "tasks queued", value: short(waiting), tone: "", to: "/queues" },
          {
            label: `of ${count(facts.capacity)} slots in use`,
            value: count(facts.held),
            tone: "",
            to: "/workers",
          },
          { label: "tasks per second", value: recent(pulse.tasksDone), tone: "", to: "/executions" },
        ]),
  ];
  return (
    <ul class="tiles">
      {tiles.map(({ label, value, tone, to }) => (
        <li key={label}>
          <a href={to} class={`tile ${tone === "" ? "" : `is-${tone}`}`}>
            <b>{value}</b>
            <span>{label}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

interface Tile {
  readonly label: string;
  readonly value: string;
  readonly tone: string;
  readonly to: string;
}

function Failing({ groups }: { readonly groups: readonly LetterGroup[] | null }) {
  const top = groups?.slice(0, 6) ?? [];
  const most = Math.max(1, ...top.map(({ tasks }) => tasks));
  return (
    <Panel title="Failing handlers" aside={<a href="/dead-letters">All dead letters</a>} isFlush>
      {groups === null ? (
        <Loading rows={3} />
      ) : top.length === 0 ? (
        <Empty title="No failed tasks." />
      ) : (
        <ul class="failing">
          {top.map((group) => (
            <li key={group.id}>
              <a href={addressOf("/dead-letters", { group: group.id })}>
                <span class="failing-name clip">
                  {group.workflow}
                  <span class="muted"> / {group.handler ?? group.phase ?? ""}</span>
                </span>
                <span class="failing-count">{count(group.tasks)}</span>
                <span class="failing-text clip">
                  {group.name}: {group.message}
                </span>
                <span class="failing-bar">
                  <i style={{ width: `${Math.max(2, (group.tasks / most) * 100)}%` }} />
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Waiting({ facts: { oldest, ready } }: { readonly facts: Facts }) {
  const most = Math.max(1, ...ready.map(({ tasks }) => tasks));
  const sorted = [...ready].sort((a, b) => b.tasks - a.tasks).slice(0, 6);
  return (
    <Panel title="Waiting" aside={<a href="/queues">Queues and limits</a>} isFlush>
      {oldest === null ? (
        <Empty title="Nothing waits." />
      ) : (
        <div class="oldest">
          <p class="muted small">
            Oldest execution with open work, started <Ago at={oldest.createdAt} />
          </p>
          <p class="clip">
            <a href={`/executions/${encodeURIComponent(oldest.id)}`} class="mono">
              {oldest.id}
            </a>{" "}
            <span class="muted">{oldest.workflow}</span>
          </p>
          <p class="why">{oldest.why}</p>
        </div>
      )}
      {sorted.length === 0 ? null : (
        <ul class="ready">
          {sorted.map(({ use, tasks }) => (
            <li key={use}>
              <a class="clip mono" href="/queues">
                {use}
              </a>
              <span class="ready-bar">
                <i style={{ width: `${Math.max(1, (tasks / most) * 100)}%` }} />
              </span>
              <span class="num">{short(tasks)}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
