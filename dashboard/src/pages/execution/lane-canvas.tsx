/**
 * Draws one lane: the time in which its handler was open, with its tasks as bars, or the numbers of running, done and failed
 * tasks.
 */
import { useEffect, useRef } from "preact/hooks";
import type { Lane } from "../../api/shapes.ts";
import { useCell } from "../../core/cell.ts";
import { theme } from "../../shell/theme.ts";
import { useWidth } from "../../ui/use-width.ts";
import { fillOf } from "./lane-fill.ts";
import type { Span } from "./time-view.ts";

const HEIGHT = 44;
const ROWS_MAX = 8;

/** The canvas of a lane. The lane's own text describes it for screen readers. */
export function LaneCanvas({
  lane,
  data,
  view,
}: {
  readonly lane: Lane;
  /** The span of time that the lane's intervals cover. */
  readonly data: Span;
  /** The visible span of time. */
  readonly view: Span;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useCell(theme);
  const width = useWidth(canvas);
  useEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext("2d") ?? null;
    if (element === null || pen === null || width === 0) return;
    const ratio = devicePixelRatio;
    element.width = Math.round(width * ratio);
    element.height = HEIGHT * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    draw(pen, lane, { view, data, width });
  }, [lane, view.from, view.to, width, shown]);
  return <canvas ref={canvas} class="lane-canvas" />;
}

interface Scale {
  readonly view: Span;
  readonly data: Span;
  readonly width: number;
}

function draw(pen: CanvasRenderingContext2D, lane: Lane, scale: Scale): void {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const { from, to } = scale.view;
  const x = (at: number): number => ((at - from) / Math.max(1, to - from)) * scale.width;
  const begin = Math.max(-8, x(lane.startedAt));
  const end = Math.min(scale.width + 8, Math.max(begin + 2, x(lane.endedAt ?? scale.data.to)));
  pen.fillStyle = colour("--sunken");
  pen.beginPath();
  pen.roundRect(begin, 4, end - begin, HEIGHT - 8, 3);
  pen.fill();
  if (lane.bars === null) drawBands(pen, lane, { left: x(scale.data.from), right: x(scale.data.to), colour });
  else drawBars(pen, lane.bars, { x, colour, width: scale.width, end: scale.data.to });
}

interface Drawing {
  /** The position of a time. */
  readonly x: (at: number) => number;
  /** The value of a colour of the page. */
  readonly colour: (name: string) => string;
}

function drawBars(
  pen: CanvasRenderingContext2D,
  bars: NonNullable<Lane["bars"]>,
  { x, colour, width, end }: Drawing & { readonly width: number; readonly end: number },
): void {
  const shown = bars.filter(({ kind }) => kind !== "step" && kind !== "run");
  const byTask = [...Map.groupBy(shown, ({ task }) => task).values()]
    .map((of) => ({
      of,
      from: Math.min(...of.map(({ from }) => from)),
      to: Math.max(...of.map(({ to }) => to ?? end)),
    }))
    .sort((a, b) => a.from - b.from);
  const ends: number[] = [];
  const placed = byTask.map(({ of, from, to }) => {
    let row = ends.findIndex((until) => until <= x(from));
    if (row < 0) row = ends.length < ROWS_MAX ? ends.length : 0;
    ends[row] = Math.max(x(from) + 2, x(to)) + 1;
    return { of, row };
  });
  const rows = Math.max(2, ends.length);
  const height = (HEIGHT - 12) / rows;
  for (const { of, row } of placed)
    for (const bar of of) {
      const from = x(bar.from);
      // Tasks that ended at the very end of the axis stay visible.
      const left = from > width ? from : Math.min(from, width - 3);
      const long = Math.max(2, x(bar.to ?? end) - left);
      const full = Math.max(2, height - 1);
      // Back-offs and waits are thinner than attempts.
      const thick = bar.kind === "retry" ? Math.min(3, full) : isPause(bar) ? Math.max(2, full * 0.5) : full;
      pen.fillStyle = colour(`--fill-${fillOf(bar)}`);
      pen.beginPath();
      pen.roundRect(left, 6 + row * height + (full - thick) / 2, long, thick, 2);
      pen.fill();
    }
}

function isPause({ kind }: NonNullable<Lane["bars"]>[number]): boolean {
  return kind === "sleep" || kind === "signal";
}

/** Draws stacked bands: done below, failed on top; and a line for the number of running tasks. */
function drawBands(
  pen: CanvasRenderingContext2D,
  { ran, done, failed }: Lane,
  { left, right, colour }: { left: number; right: number; colour: (name: string) => string },
): void {
  const pieces = done.length;
  const step = (right - left) / pieces;
  const room = HEIGHT - 10;
  const most = Math.max(1, ...done.map((n, i) => n + (failed[i] ?? 0)));
  const floor = HEIGHT - 5;
  const bar = (i: number, from: number, n: number, name: string): number => {
    if (n === 0) return from;
    const height = Math.max(1, (n / most) * room);
    pen.fillStyle = colour(name);
    pen.fillRect(left + i * step, from - height, Math.max(1, step - 0.5), height);
    return from - height;
  };
  for (let i = 0; i < pieces; i++) {
    const top = bar(i, floor, done[i] ?? 0, "--fill-done");
    bar(i, top, failed[i] ?? 0, "--fill-failed");
  }
  const peak = Math.max(1, ...ran);
  pen.strokeStyle = colour("--fill-running");
  pen.lineWidth = 1.5;
  pen.beginPath();
  let isDown = false;
  for (const [i, n] of ran.entries()) {
    const y = floor - (n / peak) * room;
    if (n === 0 && !isDown) continue;
    if (isDown) pen.lineTo(left + (i + 0.5) * step, y);
    else pen.moveTo(left + (i + 0.5) * step, y);
    isDown = true;
    if (n === 0) isDown = false;
  }
  pen.stroke();
}
