/** Charts of the activity in the last minutes. */
import { useMemo } from "preact/hooks";
import type { Pulse } from "../../api/shapes.ts";
import { duration, rate } from "../../core/format.ts";
import { Chart, type Series } from "../../ui/chart.tsx";
import { Panel } from "../../ui/panel.tsx";

/** How many seconds one point of a chart covers: single seconds vary too much. */
const STEP = 3;

const THROUGHPUT: readonly Series[] = [
  { label: "tasks done", colour: "--fill-done", isFilled: true },
  { label: "tasks failed", colour: "--fill-failed" },
  { label: "executions started", colour: "--fill-running" },
  { label: "executions done", colour: "--ink-3", isDashed: true },
];

const WAITS: readonly Series[] = [
  { label: "waited", colour: "--fill-waiting" },
  { label: "ran", colour: "--fill-running" },
];

/**
 * The seconds at the end that do not make a whole point yet. Points begin at whole steps of the clock, so that no point changes
 * later.
 */
function spare({ until }: Pulse): number {
  return until % STEP;
}

function timesOf(pulse: Pulse): number[] {
  const points = Math.floor((pulse.started.length - spare(pulse)) / STEP);
  const end = pulse.until - spare(pulse);
  return Array.from({ length: points }, (_, i) => end - (points - i) * STEP);
}

function sums(pulse: Pulse, list: readonly number[]): number[] {
  const seconds = list.length - spare(pulse);
  const skip = seconds % STEP;
  return Array.from({ length: Math.floor(seconds / STEP) }, (_, i) =>
    list.slice(skip + i * STEP, skip + (i + 1) * STEP).reduce((sum, n) => sum + n, 0),
  );
}

/** The rate per second over the last ten seconds. */
export function recent(list: readonly number[]): string {
  const last = list.slice(-10);
  return rate(last.reduce((sum, n) => sum + n, 0) / Math.max(1, last.length));
}

/** A chart of executions started, done and failed per second. */
export function Throughput({ pulse }: { readonly pulse: Pulse }) {
  const lines = [pulse.tasksDone, pulse.tasksFailed, pulse.started, pulse.done];
  const data = useMemo(
    () => [timesOf(pulse), ...lines.map((line) => sums(pulse, line).map((n) => n / STEP))],
    [pulse],
  );
  return (
    <Panel title="Per second" aside={<Legend series={THROUGHPUT} values={lines.map(recent)} />}>
      <Chart
        label="Tasks and executions per second, last five minutes"
        data={data}
        series={THROUGHPUT}
        height={190}
      />
    </Panel>
  );
}

/** A chart of how long tasks waited and how long they ran. */
export function Waits({ pulse }: { readonly pulse: Pulse }) {
  const data = useMemo(() => {
    const means = (total: readonly number[], n: readonly number[]): (number | null)[] => {
      const counts = sums(pulse, n);
      return sums(pulse, total).map((ms, i) =>
        (counts[i] ?? 0) === 0 ? null : Math.max(0.5, ms / (counts[i] ?? 1)),
      );
    };
    return [timesOf(pulse), means(pulse.waitMs, pulse.waits), means(pulse.runMs, pulse.runs)];
  }, [pulse]);
  const latest = data.slice(1).map((line) => {
    const known = line.filter((value) => value !== null);
    return known.length === 0 ? "–" : duration(known.at(-1) ?? 0);
  });
  return (
    <Panel title="Queue wait against run time" aside={<Legend series={WAITS} values={latest} />}>
      <Chart
        label="How long tasks waited and ran, last five minutes"
        data={data}
        series={WAITS}
        height={190}
        isLog
      />
    </Panel>
  );
}

function Legend({
  series,
  values,
}: {
  readonly series: readonly Series[];
  readonly values: readonly string[];
}) {
  return (
    <>
      {series.map(({ label, colour }, i) => (
        <span key={label} class="key">
          <i style={{ background: `var(${colour})` }} />
          {label} <b>{values[i]}</b>
        </span>
      ))}
    </>
  );
}
