import { type HandlerView, TASK_STATES, type TaskState } from "../api/shapes.ts";
import { count } from "../core/format.ts";

/** The order of the bar's parts: settled tasks are on the left. */
const ORDER: readonly TaskState[] = [
  "done",
  "failed",
  "cancelled",
  "running",
  "retrying",
  "waiting",
  "pending",
];

export type Counts = Readonly<Record<TaskState, number>>;

/** Adds the counts of several handlers. */
export function sumCounts(handlers: readonly HandlerView[]): Record<TaskState, number> {
  const sum = Object.fromEntries(TASK_STATES.map((state) => [state, 0])) as Record<TaskState, number>;
  for (const handler of handlers) for (const state of TASK_STATES) sum[state] += handler[state];
  return sum;
}

/** A bar with the number of tasks in each state. */
export function Bar({ counts, label }: { readonly counts: Counts; readonly label?: string }) {
  const total = ORDER.reduce((sum, state) => sum + counts[state], 0);
  const parts = ORDER.filter((state) => counts[state] > 0);
  const text = parts.map((state) => `${count(counts[state])} ${state}`).join(", ") || "nothing yet";
  return (
    <span
      class="bar"
      role="img"
      aria-label={`${label === undefined ? "" : `${label}: `}${text}`}
      title={text}
    >
      {parts.map((state) => (
        <span
          key={state}
          class={`fill-${state}`}
          style={{ flexGrow: Math.max(counts[state] / total, 0.012) }}
        />
      ))}
    </span>
  );
}
