import { addressOf } from "../../core/address.ts";
import { count } from "../../core/format.ts";
import { type LaneName, laneText } from "./place.ts";

/** A link to the details of a task. */
export function TaskLink({
  execution,
  lane,
  task,
}: {
  readonly execution: string;
  readonly lane: LaneName;
  readonly task: number;
}) {
  const to = addressOf(`/executions/${encodeURIComponent(execution)}`, { lane: laneText(lane), task });
  return (
    <a href={to}>
      {lane.handler}, task {count(task)}
    </a>
  );
}
