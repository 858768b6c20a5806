/**
 * The execution over time: a lane per handler of a visit, on one axis. Few tasks are drawn as bars, with rows for their attempts,
 * steps, waits and children below; many are drawn as bands.
 */
import { useMemo, useRef, useState } from "preact/hooks";
import type { Lanes as Facts, HandlerView, PhaseView } from "../../api/shapes.ts";
import { count, duration } from "../../core/format.ts";
import { Button } from "../../ui/button.tsx";
import { Panel } from "../../ui/panel.tsx";
import { Empty, Loading } from "../../ui/state.tsx";
import { useWidth } from "../../ui/use-width.ts";
import { type Tick, ticksOf } from "./axis.ts";
import { LaneRow } from "./lane-rows.tsx";
import { type LaneName, laneText } from "./place.ts";
import type { Span } from "./time-view.ts";
import { useTimePointer } from "./use-time-pointer.ts";
import { type TimeView, useTimeView } from "./use-time-view.ts";
import "./lanes.css";

/** The number of lanes that are shown at first: loops can have thousands of visits. */
const SHOWN = 24;
/** The width of a tick with its text, and the most ticks of an axis. */
const TICK_PX = 84;
const TICKS_MAX = 7;
/** From this position on, the text of a tick is to its left. */
const LAST_FROM = 0.93;

/** All lanes of an execution. `whole` is the time from its start to its end, or to now. */
export function Lanes({
  execution,
  lanes,
  phases,
  chosen,
  whole,
}: {
  readonly execution: string;
  readonly lanes: Facts | null;
  readonly phases: readonly PhaseView[];
  readonly chosen: LaneName | null;
  readonly whole: Span;
}) {
  const view = useTimeView(whole);
  return (
    <Panel title="Timeline" isFlush aside={<Aside view={view} whole={whole} />}>
      {lanes === null ? (
        <Loading rows={3} />
      ) : lanes.lanes.length === 0 ? (
        <Empty title="No handler has started yet." />
      ) : (
        <Rows {...{ execution, lanes, phases, chosen, view }} start={whole.from} />
      )}
    </Panel>
  );
}

function Aside({ view, whole }: { readonly view: TimeView; readonly whole: Span }) {
  const { span, isWhole } = view;
  return (
    <>
      <Key />
      <span class="zoom" role="group" aria-label="Shown time">
        {isWhole ? null : (
          <>
            <span class="muted">
              {duration(span.to - span.from)} of {duration(whole.to - whole.from)}
            </span>
            <Button kind="bare" icon="back" label="Earlier" keys="," onClick={() => view.panBy(-0.25)} />
            <Button kind="bare" icon="right" label="Later" keys="." onClick={() => view.panBy(0.25)} />
          </>
        )}
        <Button
          kind="bare"
          icon="minus"
          label="Zoom out"
          keys="-"
          whyNot={isWhole ? "The whole time is shown." : null}
          onClick={() => view.zoomBy(1.6)}
        />
        <Button
          kind="bare"
          icon="plus"
          label="Zoom in"
          keys="+, or Ctrl and wheel, or drag"
          onClick={() => view.zoomBy(1 / 1.6)}
        />
        {isWhole ? null : (
          <Button label="Reset the zoom" keys="z" onClick={view.reset}>
            Reset
          </Button>
        )}
      </span>
    </>
  );
}

function Rows({
  execution,
  lanes,
  phases,
  chosen,
  view,
  start,
}: {
  readonly execution: string;
  readonly lanes: Facts;
  readonly phases: readonly PhaseView[];
  readonly chosen: LaneName | null;
  readonly view: TimeView;
  readonly start: number;
}) {
  const [isAll, setIsAll] = useState(false);
  const counts = useMemo(() => countsOf(phases), [phases]);
  const box = useRef<HTMLDivElement>(null);
  const marked = useTimePointer(box, view);
  const shown = isAll ? lanes.lanes : lanes.lanes.slice(-SHOWN);
  const hidden = lanes.lanes.length - shown.length;
  const ahead = phases.filter(({ visit, status }) => visit === 0 && status === "pending");
  // If the whole time is shown, the visible span grows with the data.
  const span = view.isWhole ? { from: lanes.from, to: lanes.to } : view.span;
  return (
    <div class={`lanes${view.isWhole ? "" : " is-piece"}`} ref={box}>
      {hidden > 0 ? (
        <button type="button" class="lanes-more" onClick={() => setIsAll(true)}>
          Show {count(hidden)} earlier lanes
        </button>
      ) : null}
      <Axis span={span} start={start} marked={marked} />
      {shown.map((lane) => (
        <LaneRow
          key={laneText(lane)}
          lane={lane}
          drawn={{ execution, isOwn: true, data: lanes, view: span, depth: 0 }}
          counts={counts.get(laneText(lane))}
          isChosen={chosen !== null && laneText(chosen) === laneText(lane)}
        />
      ))}
      {ahead.map(({ name }) => (
        <div key={name} class="lane is-ahead">
          <span class="lane-name clip">{name}</span>
          <span class="lane-track muted small">not started</span>
        </div>
      ))}
    </div>
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

function Axis({
  span,
  start,
  marked,
}: {
  readonly span: Span;
  readonly start: number;
  readonly marked: { readonly from: number; readonly to: number } | null;
}) {
  const track = useRef<HTMLSpanElement>(null);
  const width = useWidth(track);
  const ticks = ticksOf(span, start, Math.min(TICKS_MAX, Math.max(2, Math.floor(width / TICK_PX))));
  // The text of the last tick and the one before it lie between the two.
  const hasRoom = ({ place }: Tick, i: number): boolean =>
    place <= LAST_FROM || (place - (ticks[i - 1]?.place ?? 0)) * width > 1.5 * TICK_PX;
  return (
    <div class="lane lane-axis" aria-hidden="true">
      <span class="lane-name" />
      <span class="lane-track" ref={track}>
        {ticks.filter(hasRoom).map(({ place, text }) => (
          <span
            key={text}
            class={`tick${place > LAST_FROM ? " is-last" : ""}`}
            style={{ left: `${place * 100}%` }}
          >
            {text}
          </span>
        ))}
        {marked === null ? null : (
          <span
            class="lane-mark"
            style={{
              left: `${Math.min(marked.from, marked.to) * 100}%`,
              width: `${Math.abs(marked.to - marked.from) * 100}%`,
            }}
          />
        )}
      </span>
    </div>
  );
}

function countsOf(phases: readonly PhaseView[]): ReadonlyMap<string, HandlerView> {
  return new Map(
    phases.flatMap(({ name, visit, handlers }) =>
      handlers.map((handler) => [laneText({ phase: name, visit, handler: handler.name }), handler] as const),
    ),
  );
}
