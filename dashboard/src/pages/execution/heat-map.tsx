/** One cell per task, all on one canvas: coloured by state, duration, attempts or worker. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask } from "../../api/client.ts";
import { useLive } from "../../api/use-live.ts";
import { useCell } from "../../core/cell.ts";
import { count } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { useKeys } from "../../shell/keys.ts";
import { theme } from "../../shell/theme.ts";
import { Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { useWidth } from "../../ui/use-width.ts";
import type { About } from "./execution.tsx";
import { drawHeat, type Grid, gridOf } from "./heat-canvas.ts";
import {
  describeCell,
  HEAT_BYS,
  type HeatBy,
  type HeatStates,
  type LegendEntry,
  legendOf,
  parseLegend,
} from "./heat-legend.ts";
import { type LaneName, laneText, useExecutionPlace } from "./place.ts";

const LIVE_MS = 2_000;
/** The polling interval grows with the number of tasks: this many tasks per second. */
const TASKS_PER_SECOND = 100_000;

/** The heat map of one handler. */
export function HeatMap({
  path,
  at,
  stamp,
  lane,
  facts,
  liveMs = LIVE_MS,
}: Pick<About, "path" | "at" | "stamp" | "facts"> & {
  readonly lane: LaneName;
  /** The shortest interval between two reloads, in milliseconds. */
  readonly liveMs?: number;
}) {
  const place = useExecutionPlace();
  const by = HEAT_BYS.find((one) => one === place.by) ?? "state";
  const total = facts.phases
    .find(({ name, visit }) => name === lane.phase && visit === lane.visit)
    ?.handlers.find(({ name }) => name === lane.handler)?.total;
  const timing = {
    follows: at === null ? stamp : null,
    gapMs: Math.max(liveMs, ((total ?? 0) / TASKS_PER_SECOND) * (liveMs / 2)),
  };
  const key = `${path} ${laneText(lane)} ${by} ${at ?? ""}`;
  const { data, problem } = useLive(key, (signal) => readStates(path, { lane, by, at, signal }), timing);
  const { span } = place;
  const within = useLive(
    span === null ? null : `${key} ${span.from} ${span.to}`,
    async (signal) => {
      const query = { ...lane, at, by: "within", ...span };
      const response = await ask("GET", `${path}/tasks/states`, { query, signal });
      return { bytes: new Uint8Array(await response.arrayBuffer()) };
    },
    timing,
  );
  useKeys("Execution", [
    {
      keys: "m",
      label: "Colour the map by state, duration, attempts or worker",
      run: () => choose({ by: HEAT_BYS[(HEAT_BYS.indexOf(by) + 1) % HEAT_BYS.length] ?? null }),
    },
  ]);
  return (
    <Panel
      title={
        <>
          Tasks of {lane.handler} <span class="muted">{data === null ? "" : count(data.bytes.length)}</span>
        </>
      }
      aside={<ByChoice chosen={by} />}
    >
      {data !== null ? (
        data.bytes.length === 0 ? (
          <Empty title="No tasks yet." />
        ) : (
          <Cells
            lane={lane}
            states={data}
            by={by}
            task={place.task}
            isBright={span === null ? null : (within.data?.bytes ?? null)}
          />
        )
      ) : problem !== null && problem.code !== "not_found" ? (
        <Trouble problem={problem} />
      ) : (
        <Loading rows={3} />
      )}
    </Panel>
  );
}

async function readStates(
  path: string,
  options: { lane: LaneName; by: HeatBy; at: number | null; signal: AbortSignal },
): Promise<HeatStates> {
  const { lane, by, at, signal } = options;
  const response = await ask("GET", `${path}/tasks/states`, {
    query: { ...lane, at, by: by === "attempts" ? "state" : by },
    signal,
  });
  return {
    bytes: new Uint8Array(await response.arrayBuffer()),
    names: parseLegend(by, response.headers.get("rondo-legend") ?? "{}"),
  };
}

function ByChoice({ chosen }: { readonly chosen: HeatBy }) {
  return (
    <div class="choice small" role="group" aria-label="Colour tasks by">
      {HEAT_BYS.map((by) => (
        <button
          key={by}
          type="button"
          aria-pressed={by === chosen}
          onClick={() => choose({ by: by === "state" ? null : by })}
        >
          {by === "ms" ? "duration" : by}
        </button>
      ))}
    </div>
  );
}

/** The frame around the selected cell. */
function Chosen({ task, grid }: { readonly task: number; readonly grid: Grid }) {
  const { size, columns } = grid;
  const side = Math.max(size + 3, 9);
  const place = (cells: number): string => `${cells * size + size / 2 - side / 2}px`;
  return (
    <i
      class="heat-chosen"
      style={{
        left: place(task % columns),
        top: place(Math.floor(task / columns)),
        width: `${side}px`,
        height: `${side}px`,
      }}
    />
  );
}

function Cells({
  lane,
  states,
  by,
  task,
  isBright,
}: {
  readonly lane: LaneName;
  readonly states: HeatStates;
  readonly by: HeatBy;
  readonly task: number | null;
  readonly isBright: Uint8Array | null;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const shown = useCell(theme);
  const width = useWidth(box);
  const [over, setOver] = useState<number | null>(null);
  const legend = useMemo(() => legendOf(by, states), [by, states, shown]);
  const grid = gridOf(states.bytes.length, width);
  useEffect(() => {
    if (canvas.current !== null && width > 0)
      drawHeat(canvas.current, { states, by, grid, legend, isBright });
  }, [states, by, width, legend, isBright]);
  const cellAt = (event: MouseEvent): number | null => {
    const element = canvas.current;
    if (element === null) return null;
    const place = element.getBoundingClientRect();
    const column = Math.floor((event.clientX - place.left) / grid.size);
    const n = Math.floor((event.clientY - place.top) / grid.size) * grid.columns + column;
    return column >= 0 && column < grid.columns && n >= 0 && n < states.bytes.length ? n : null;
  };
  const move = (by: number): void => {
    const n = Math.min(states.bytes.length - 1, Math.max(0, (task ?? -1) + by));
    choose({ lane: laneText(lane), task: String(n) });
  };
  const words = legend.filter(({ n }) => n > 0).map(({ label, n }) => `${count(n)} ${label}`);
  return (
    <div class="heat" ref={box}>
      <div class="heat-scroll">
        {task === null || task >= states.bytes.length ? null : <Chosen task={task} grid={grid} />}
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`${count(states.bytes.length)} tasks: ${words.join(", ")}`}
          style={{
            width: `${grid.columns * grid.size}px`,
            height: `${grid.rows * grid.size}px`,
            imageRendering: grid.size < 1 ? "auto" : "pixelated",
          }}
          onMouseMove={(event) => setOver(cellAt(event))}
          onMouseLeave={() => setOver(null)}
          onClick={(event) => {
            const n = cellAt(event);
            if (n !== null) choose({ lane: laneText(lane), task: String(n) });
          }}
          onKeyDown={(event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: grid.columns, ArrowUp: -grid.columns }[
              event.key
            ];
            if (by === undefined) return;
            event.preventDefault();
            move(by);
          }}
        />
      </div>
      <div class="heat-foot">
        <Legend legend={legend} by={by} />
        <span class="heat-over muted">
          {over === null
            ? task === null
              ? "\u00a0"
              : describeCell(task, states, by)
            : describeCell(over, states, by)}
        </span>
      </div>
    </div>
  );
}

function Legend({ legend, by }: { readonly legend: readonly LegendEntry[]; readonly by: HeatBy }) {
  return (
    <ul class="heat-legend">
      {legend
        .filter(({ n }) => n > 0)
        .map(({ label, colour, n }) => (
          <li key={label} class="key">
            {by === "state" ? (
              <button
                type="button"
                title={`List the tasks that are ${label}`}
                onClick={() => choose({ status: label, tab: null })}
              >
                <i style={{ background: colour }} />
                {label} <b>{count(n)}</b>
              </button>
            ) : (
              <>
                <i style={{ background: colour }} />
                {label} <b>{count(n)}</b>
              </>
            )}
          </li>
        ))}
    </ul>
  );
}
