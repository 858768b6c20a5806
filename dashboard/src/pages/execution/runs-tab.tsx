/** The runs of scripts: in order, each with the state it left and what it cost. */
import type { JournalEvent } from "../../api/shapes.ts";
import { bytes, clock, duration } from "../../core/format.ts";
import { JsonView } from "../../ui/json.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import type { About } from "./execution.tsx";
import { textOf } from "./message-of.ts";
import { useKinds } from "./use-kinds.ts";

/** The tab. */
export function RunsTab({ path, facts, at }: About) {
  const { events, problem } = useKinds(path, "task.run,task.step", { revision: facts.revision, at });
  if (events === null) return problem === null ? <Loading /> : <Trouble problem={problem} />;
  if (events.length === 0) return <Empty title="It has no script runs and no journaled steps." />;
  return (
    <ol class="runs">
      {events.map((event) => (
        <Run key={event.seq} event={event} />
      ))}
    </ol>
  );
}

function Run({ event }: { readonly event: JournalEvent }) {
  const stats = event["stats"] as { durationMs?: number; memoryBytes?: number } | undefined;
  const value = event["state"] ?? event["result"];
  return (
    <li>
      <details>
        <summary>
          <b>{textOf(event["name"])}</b>
          <span class="muted">
            {event.kind.endsWith("run") ? "run" : "step"} of {textOf(event["handler"])} {textOf(event["n"])},
            attempt {textOf(event["attempt"])}
          </span>
          <span class="muted mono">{clock(event.at, { withMs: true })}</span>
          {stats?.durationMs === undefined ? null : <span class="muted">{duration(stats.durationMs)}</span>}
          {stats?.memoryBytes === undefined || stats.memoryBytes === 0 ? null : (
            <span class="muted">{bytes(stats.memoryBytes)}</span>
          )}
        </summary>
        <JsonView value={value ?? null} label={`What ${textOf(event["name"])} left`} />
      </details>
    </li>
  );
}
