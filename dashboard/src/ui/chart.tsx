/** A line chart over time, drawn by uPlot on a canvas; its colours come from the theme. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useCell } from "../core/cell.ts";
import { count, rate } from "../core/format.ts";
import { theme } from "../shell/theme.ts";

export interface Series {
  readonly label: string;
  /** The name of a colour of the theme, such as `--fill-done`. */
  readonly colour: string;
  readonly isFilled?: boolean;
  readonly isDashed?: boolean;
}

export interface ChartProps {
  readonly label: string;
  /** The data: times in seconds since 1970, then a list of values per series. */
  readonly data: readonly (readonly (number | null)[])[];
  readonly series: readonly Series[];
  readonly height?: number;
  /** Whether the chart is a sparkline without axes. */
  readonly isSpark?: boolean;
  /** Whether values are milliseconds on a logarithmic axis. */
  readonly isLog?: boolean;
}

/** The possible distances between two lines of the grid. */
const STEPS = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => (n * 10 ** i) / 10)).flat();

export function Chart(props: ChartProps) {
  const { label, data, series, height = 160, isSpark = false, isLog = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useCell(theme);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const options = optionsOf({ series, height, isSpark, isLog, width: element.clientWidth });
    const made = new uPlot(options, data as uPlot.AlignedData, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shown, series, height, isSpark]);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);
  return (
    <div
      ref={box}
      class={isSpark ? "spark" : "chart"}
      role="img"
      aria-label={label}
      style={{ height: `${height}px` }}
    />
  );
}

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function optionsOf(parts: {
  series: readonly Series[];
  height: number;
  width: number;
  isSpark: boolean;
  isLog: boolean;
}): uPlot.Options {
  const { series, height, width, isSpark, isLog } = parts;
  const show = isLog ? showMs : rate;
  const axis = {
    stroke: colourOf("--ink-3"),
    grid: { stroke: colourOf("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${colourOf("--sans")}`,
  };
  return {
    width,
    height,
    padding: isSpark ? [2, 0, 2, 0] : [8, 20, 0, 0],
    cursor: isSpark ? { show: false } : { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      x: { time: true },
      y: isLog
        ? { distr: 3, range: (_plot, min, max) => wholePowers(Math.max(1, min), Math.max(10, max)) }
        : { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [
      { ...axis, show: !isSpark, size: 24, space: 56, values: (_plot, splits) => splits.map(clockOf) },
      {
        ...axis,
        show: !isSpark,
        size: 46,
        space: 26,
        ...(isLog
          ? { splits: (_plot: uPlot, _axis: number, min: number, max: number) => powersOfTen(min, max) }
          : { incrs: STEPS }),
        values: (_plot, splits) => splits.map((n) => (n === null ? "" : show(n))),
      },
    ],
    series: [
      {},
      ...series.map(({ label, colour, isFilled, isDashed }): uPlot.Series => {
        const stroke = colourOf(colour);
        return {
          label,
          stroke,
          width: isSpark ? 1.25 : 1.5,
          points: isSpark ? { show: false } : { show: true, size: 5, filter: isolatedPoints },
          ...(isFilled === true ? { fill: `${stroke}22` } : {}),
          ...(isDashed === true ? { dash: [4, 4] } : {}),
        };
      }),
    ],
  };
}

/** The points without neighbours: no line is drawn through them. */
function isolatedPoints(plot: uPlot, series: number): number[] {
  const line = plot.data[series] ?? [];
  const isThere = (i: number): boolean => (line[i] ?? null) !== null;
  return Array.from(line, (_, i) => i).filter((i) => isThere(i) && !isThere(i - 1) && !isThere(i + 1));
}

/** The range between the surrounding powers of ten. */
function wholePowers(min: number, max: number): [number, number] {
  return [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max))];
}

function powersOfTen(min: number, max: number): number[] {
  const [first, last] = [Math.ceil(Math.log10(min)), Math.floor(Math.log10(max))];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i));
}

/** Formats a power of ten of milliseconds in few characters. */
function showMs(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${count(ms / 1_000)} s`;
}

function clockOf(s: number): string {
  const date = new Date(s * 1_000);
  const text = [date.getHours(), date.getMinutes()].map((n) => String(n).padStart(2, "0")).join(":");
  return date.getSeconds() === 0 ? text : `${text}:${String(date.getSeconds()).padStart(2, "0")}`;
}
