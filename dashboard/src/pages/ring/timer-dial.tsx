/** A dial with the timers of the next hour: the whole circle is an hour, and the hand shows the present time. */
import type { Timer } from "../../api/shapes.ts";
import { coarse, count, moment, relative } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { Empty, Loading } from "../../ui/state.tsx";

const SIZE = 220;
const MIDDLE = SIZE / 2;
const HOUR_MS = 3_600_000;
const LISTED = 6;

/** The dial, and a list of the soonest timers. */
export function TimerDial({ timers }: { readonly timers: readonly Timer[] | null }) {
  const now = useNow();
  if (timers === null) return <Loading rows={3} />;
  if (timers.length === 0) return <Empty title="No timer is set." />;
  const near = timers.filter(({ due }) => due - now < HOUR_MS);
  return (
    <div class="dial-box">
      <svg
        class="dial"
        viewBox={`0 0 ${SIZE} ${SIZE}`}
        role="img"
        aria-label={`${count(near.length)} timers within an hour`}
      >
        <circle class="ring-line" cx={MIDDLE} cy={MIDDLE} r={86} />
        {Array.from({ length: 12 }, (_, i) => (
          <Mark key={i} share={i / 12} from={80} to={86} kind="dial-tick" />
        ))}
        {near.map(({ execution, timer, due }) => (
          <Mark
            key={`${execution} ${timer}`}
            share={Math.max(0, due - now) / HOUR_MS}
            from={62}
            to={84}
            kind="dial-timer"
          />
        ))}
        <Mark share={0} from={0} to={92} kind="dial-hand" />
        <text class="ring-middle" x={MIDDLE} y={MIDDLE + 20} text-anchor="middle">
          {count(near.length)}
        </text>
        <text class="ring-sub" x={MIDDLE} y={MIDDLE + 36} text-anchor="middle">
          within an hour
        </text>
      </svg>
      <ul class="dial-list">
        {timers.slice(0, LISTED).map(({ execution, timer, due }) => (
          <li key={`${execution} ${timer}`}>
            <a class="mono clip" href={`/executions/${encodeURIComponent(execution)}`}>
              {execution}
            </a>
            <span class="muted clip">{describe(timer)}</span>
            <span class="nowrap" title={moment(due)}>
              {due <= now ? `due ${coarse(now - due)} ago` : relative(due, now)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Describes the purpose of a timer: `phase.visit.handler`, a task with its number, or a start. */
function describe(timer: string): string {
  const match = /^([^.]+)\.(\d+)\.([^.]+)(?:\.(\d+))?$/.exec(timer);
  if (match === null) return timer;
  const [, phase = "", visit, handler, task] = match;
  return [
    handler === phase ? phase : `${phase} / ${handler}`,
    ...(visit === "1" ? [] : [`visit ${visit}`]),
    ...(task === undefined ? [] : [`task ${count(Number(task))}`]),
  ].join(", ");
}

function Mark({
  share,
  from,
  to,
  kind,
}: {
  readonly share: number;
  readonly from: number;
  readonly to: number;
  readonly kind: string;
}) {
  const angle = share * 2 * Math.PI - Math.PI / 2;
  const at = (radius: number): [number, number] => [
    MIDDLE + radius * Math.cos(angle),
    MIDDLE + radius * Math.sin(angle),
  ];
  const [x1, y1] = at(from);
  const [x2, y2] = at(to);
  return <line class={kind} x1={x1} y1={y1} x2={x2} y2={y2} />;
}
