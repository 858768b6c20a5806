/** The page of the ring: the nodes in order, the token, whose map agrees, who watches whose timers, and the next timers. */
import { get } from "../../api/client.ts";
import type { Ring as Facts, Page, RingNode, Timer } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, duration, plural } from "../../core/format.ts";
import { Badge } from "../../ui/badge.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { Wide } from "../../ui/wide.tsx";
import { isSilent, useLeaseLeft } from "./lease-left.ts";
import { RingDrawing } from "./ring-drawing.tsx";
import { shortUrl } from "./short-url.ts";
import { TimerDial } from "./timer-dial.tsx";
import "./ring.css";

const EVERY_MS = 4_000;

export function Ring() {
  const ring = useLive("ring", (signal) => get<Facts>("/v1/ring", { signal }), EVERY_MS);
  const timers = useLive(
    "timers",
    (signal) => get<Page<Timer>>("/v1/timers", { query: { limit: 200 }, signal }),
    20_000,
  );
  const { data, problem } = ring;
  if (data === null)
    return problem === null ? <Loading rows={6} /> : <Trouble problem={problem} onRetry={ring.reload} />;
  const isAlone = data.nodes.length === 1;
  return (
    <>
      <PageHead
        title="Ring"
        about={
          isAlone
            ? `A single node, ${shortUrl(data.url)}`
            : `${plural(data.nodes.length, "node")}, ${count(data.cycle.count)} cycles`
        }
      />
      {isAlone ? (
        // One node has no order, no token, no map and no lease.
        <Panel title="Next timers">
          <TimerDial timers={timers.data?.data ?? null} />
        </Panel>
      ) : (
        <div class="columns ring-columns">
          <Panel title="Nodes in order">
            <RingDrawing ring={data} />
          </Panel>
          <div class="stack">
            <Panel title="Next timers">
              <TimerDial timers={timers.data?.data ?? null} />
            </Panel>
            <Panel title="Token and map">
              <RingFacts ring={data} />
            </Panel>
          </div>
        </div>
      )}
      {isAlone ? null : (
        <div class="stack ring-below">
          <NodeTable ring={data} />
        </div>
      )}
    </>
  );
}

function NodeTable({ ring }: { readonly ring: Facts }) {
  return (
    <Panel title="Nodes" isFlush>
      <Wide label="Nodes">
        <table class="rows">
          <thead>
            <tr>
              <th>Node</th>
              <th class="num">Partitions</th>
              <th>Map</th>
              <th>Answers</th>
              <th>Lease</th>
              <th>Its timers are watched by</th>
            </tr>
          </thead>
          <tbody>
            {ring.nodes.map((node) => (
              <tr key={node.incarnation}>
                <td class="mono">
                  {node.url}
                  {node.url === ring.url ? <span class="muted"> this one</span> : null}
                </td>
                <td class="num">{count(node.partitions)}</td>
                <td>
                  <MapState node={node} isAway={isSilent(ring, node)} />
                </td>
                <td>
                  {isSilent(ring, node) ? (
                    <Badge state="failed" text="no" />
                  ) : (
                    <Badge state="done" text="yes" />
                  )}
                </td>
                <td>
                  <LeaseState until={node.leaseUntil} isAway={isSilent(ring, node)} />
                </td>
                <td class="mono">{node.clockworkers.map(shortUrl).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </Panel>
  );
}

function MapState({ node, isAway }: { readonly node: RingNode; readonly isAway: boolean }) {
  if (isAway) return <span class="muted">unknown</span>;
  if (node.hash === null) return <span class="muted">not heard yet</span>;
  const text = node.hash === "" ? "" : ` ${node.hash.slice(0, 8)}`;
  return node.agrees ? (
    <Badge state="done" text={`agrees${text}`} />
  ) : (
    <Badge state="failed" text={`differs${text}`} />
  );
}

/** Counts down to the time at which a silent node is no longer a member. */
function LeaseState({ until, isAway }: { readonly until: number | null; readonly isAway: boolean }) {
  const left = useLeaseLeft(until, isAway);
  if (left === null) return <span class="muted">needs none</span>;
  const text = `${Math.ceil(left.ms / 1_000)} s left`;
  if (left.tone === "ok") return <span class="nowrap">{text}</span>;
  return left.tone === "warn" ? (
    <Badge state="retrying" text={`not renewed: ${text}`} />
  ) : (
    <Badge state="failed" text="ended" />
  );
}

/** The last deaths, each node once: several nodes can report the same one. */
function newestDeaths(deaths: Facts["deaths"]): Facts["deaths"] {
  return [...new Map(deaths.map((death) => [death.incarnation, death])).values()].slice(-5);
}

function RingFacts({ ring }: { readonly ring: Facts }) {
  const { token, cycle, watch, queued, deaths } = ring;
  return (
    <dl class="pairs ring-facts">
      <div>
        <dt>Token</dt>
        <dd>
          {token === null ? (
            "none"
          ) : (
            <>
              number {count(token.number)} of epoch {count(token.epoch)}, at {shortUrl(token.at)}, seen{" "}
              <Ago at={token.seenAt} />
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Cycle time</dt>
        <dd>
          {cycle.averageMs === null
            ? "–"
            : `${duration(cycle.averageMs)} on average, the last ${duration(cycle.lastMs ?? 0)}`}
        </dd>
      </div>
      <div>
        <dt>Tokens reissued</dt>
        <dd>
          {count(ring.made)} by this node; {count(ring.dropped)} outdated ones dropped
        </dd>
      </div>
      <div>
        <dt>Outgoing queue</dt>
        <dd>
          {plural(queued.hints, "hint")}, {plural(queued.timers, "timer")}
        </dd>
      </div>
      <div>
        <dt>Watches</dt>
        <dd>
          {watch.executors.length === 0
            ? "only its own timers"
            : `${plural(watch.timers, "timer")} of ${watch.executors.map(shortUrl).join(", ")}`}
          {watch.lateness.count === 0
            ? ""
            : `; ${count(watch.lateness.count)} were late, by ${duration(watch.lateness.maxMs)} at most`}
        </dd>
      </div>
      <div>
        <dt>Failures</dt>
        <dd>
          {deaths.length === 0
            ? "none"
            : newestDeaths(deaths).map((death, i) => (
                <span key={death.incarnation} class="nowrap">
                  {i === 0 ? "" : ", "}
                  {shortUrl(death.url ?? "a node")} <Ago at={death.at} />
                </span>
              ))}
        </dd>
      </div>
    </dl>
  );
}
