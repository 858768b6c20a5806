/** Steps through the journal event by event: the whole page shows the execution as it was after the event. */
import { get } from "../../api/client.ts";
import type { JournalEvent, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { useCell } from "../../core/cell.ts";
import { lostSince } from "../../core/connection.ts";
import { clock, count } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { useKeys } from "../../shell/keys.ts";
import { Button } from "../../ui/button.tsx";
import { describeEvent } from "./describe-event.ts";

/** The scrubber; `at` is null for the present state. */
export function Scrubber({
  path,
  revision,
  at,
  isOver,
}: {
  readonly path: string;
  readonly revision: number;
  readonly at: number | null;
  /** Whether the execution has ended. */
  readonly isOver: boolean;
}) {
  const shown = at ?? revision;
  const isLost = useCell(lostSince) !== null;
  const step = (by: number): void => {
    const next = Math.min(revision, Math.max(1, shown + by));
    choose({ at: next >= revision ? null : String(next) });
  };
  useKeys("Execution", [
    { keys: "[", label: "Previous event", run: () => step(-1) },
    { keys: "]", label: "Next event", run: () => step(1) },
    { keys: "0", label: "Back to now", run: () => choose({ at: null }) },
  ]);
  const { data } = useLive(`${path} event ${shown}`, (signal) =>
    get<Page<JournalEvent>>(`${path}/events`, { query: { from: shown, limit: 1 }, signal }),
  );
  const event = data?.data[0];
  return (
    <div class={`scrubber${at === null ? "" : " is-past"}`}>
      <Button kind="bare" icon="play" label="Previous event" keys="[" onClick={() => step(-1)} />
      <input
        type="range"
        min={1}
        max={revision}
        value={shown}
        aria-label="Event"
        aria-valuetext={`event ${shown} of ${revision}`}
        onInput={(input) => {
          const value = Number(input.currentTarget.value);
          choose({ at: value >= revision ? null : String(value) });
        }}
      />
      <Button kind="bare" icon="play" label="Next event" keys="]" onClick={() => step(1)} />
      <span class="scrubber-text clip">
        Event <b>{count(shown)}</b> of {count(revision)}
        {event === undefined ? "" : ` · ${clock(event.at, { withMs: true })} · ${describeEvent(event)}`}
      </span>
      {at === null ? (
        <span class={isOver || isLost ? "light off" : "light ok"}>
          {isOver ? "final state" : isLost ? "not live" : "live"}
        </span>
      ) : (
        <Button onClick={() => choose({ at: null })}>Back to now</Button>
      )}
    </div>
  );
}
