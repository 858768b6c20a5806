/** The execution over time: a lane per handler of a visit, on one axis. Few tasks are bars, many are bands. */
import { useMemo, useState } from "preact/hooks";
import type { Lanes as Facts, HandlerView, Lane, PhaseView } from "../../api/shapes.ts";
import { count, duration, short } from "../../core/format.ts";
import { Bar } from "../../ui/bar.tsx";
import { Panel } from "../../ui/panel.tsx";
import { Empty, Loading } from "../../ui/state.tsx";
import { ticksOf } from "./axis.ts";
import { LaneCanvas } from "./lane-canvas.tsx";
import { chooseLane, type LaneName, laneText } from "./place.ts";

/** Lanes that are shown before one asks for more: loops can have thousands of visits. */
const SHOWN = 24;

/** All lanes. */
export function Lanes({
  lanes,
  phases,
  chosen,
}: {
  readonly lanes: Facts | null;
  readonly phases: readonly PhaseView[];
  readonly chosen: LaneName | null;
}) {
  const [isAll, setIsAll] = useState(false);
  const counts = useMemo(() => countsOf(phases), [phases]);
  const all = lanes?.lanes ?? [];
  const shown = isAll ? all : all.slice(-SHOWN);
  const ahead = phases.filter(({ visit, status }) => visit === 0 && status === "pending");
  return (
    <Panel title="Over time" isFlush aside={<Key />}>
      {lanes === null ? (
        <Loading rows={3} />
      ) : all.length === 0 ? (
        <Empty title="No handler has started yet." />
      ) : (
        <div class="lanes">
          {all.length > shown.length ? (
            <button type="button" class="lanes-more" onClick={() => setIsAll(true)}>
              Show {count(all.length - shown.length)} earlier lanes
            </button>
          ) : null}
          <Axis from={lanes.from} to={lanes.to} />
          {shown.map((lane) => (
            <LaneRow
              key={laneText(lane)}
              lane={lane}
              window={lanes}
              counts={counts.get(laneText(lane))}
              isChosen={chosen !== null && laneText(chosen) === laneText(lane)}
            />
          ))}
          {ahead.map(({ name }) => (
            <div key={name} class="lane is-ahead">
              <span class="lane-name clip">{name}</span>
              <span class="lane-track muted small">not reached yet</span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}

function Key() {
  return (
    <>
      {(["done", "failed", "running", "retrying", "waiting"] as const).map((state) => (
        <span key={state} class="key">
          <i class={`fill-${state}`} />
          {state}
        </span>
      ))}
    </>
  );
}

function Axis({ from, to }: { readonly from: number; readonly to: number }) {
  return (
    <div class="lane lane-axis" aria-hidden="true">
      <span class="lane-name" />
      <span class="lane-track">
        {ticksOf(from, to, 7).map(({ place, text }) => (
          <span
            key={text}
            class={`tick${place > 0.93 ? " is-last" : ""}`}
            style={{ left: `${place * 100}%` }}
          >
            {text}
          </span>
        ))}
      </span>
    </div>
  );
}

function LaneRow({
  lane,
  window,
  counts,
  isChosen,
}: {
  readonly lane: Lane;
  readonly window: { readonly from: number; readonly to: number };
  readonly counts: HandlerView | undefined;
  readonly isChosen: boolean;
}) {
  const { phase, visit, handler, startedAt, endedAt, total } = lane;
  const name = phase === handler ? phase : `${phase} / ${handler}`;
  const took = duration((endedAt ?? window.to) - startedAt);
  return (
    <button
      type="button"
      class={`lane${isChosen ? " is-chosen" : ""}`}
      aria-pressed={isChosen}
      onClick={() => chooseLane(lane)}
    >
      <span class="lane-name">
        <span class="clip">
          {name}
          {visit > 1 ? <span class="muted"> ×{visit}</span> : null}
        </span>
        <span class="lane-count">
          {short(total)}
          <span class="unseen"> tasks, </span> <span class="muted">{took}</span>
        </span>
        {counts === undefined ? null : <Bar counts={counts} />}
      </span>
      <span class="lane-track">
        <LaneCanvas lane={lane} from={window.from} to={window.to} />
      </span>
    </button>
  );
}

function countsOf(phases: readonly PhaseView[]): ReadonlyMap<string, HandlerView> {
  return new Map(
    phases.flatMap(({ name, visit, handlers }) =>
      handlers.map((handler) => [laneText({ phase: name, visit, handler: handler.name }), handler] as const),
    ),
  );
}
