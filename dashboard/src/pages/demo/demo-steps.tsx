/** The progress of the demo, part by part, and the state of its workers. */
import type { Execution } from "../../api/shapes.ts";
import { count } from "../../core/format.ts";
import { Badge, type BadgeState } from "../../ui/badge.tsx";
import { Bar, sumCounts } from "../../ui/bar.tsx";
import type { DemoFacts } from "./demo-shape.ts";

const ORDER = ["opening", "fan-out", "commands", "script", "proof", "done"] as const;

/** The strip of the demo's parts. */
export function Steps({
  demo,
  execution,
}: {
  readonly demo: DemoFacts;
  readonly execution: Execution | null;
}) {
  const { round, step } = demo;
  const phase = (name: string) => execution?.phases.find((one) => one.name === name);
  const stateOf = (part: (typeof ORDER)[number]): BadgeState => {
    const [here, now] = [ORDER.indexOf(part), ORDER.indexOf(step)];
    return here < now ? "done" : here === now ? "running" : "pending";
  };
  const timer = phase("pause")?.status ?? "pending";
  const isFanning = stateOf("fan-out") === "running";
  const work = phase("work");
  const counts = work === undefined ? null : sumCounts(work.handlers);
  // Tasks that are not enumerated yet count as open.
  if (counts !== null)
    counts.pending += Math.max(0, (round?.tasks ?? 0) - Object.values(counts).reduce((sum, n) => sum + n, 0));
  const parts: { label: string; state: BadgeState; to: string | null }[] = [
    {
      label: "Fan-out",
      state: isFanning && phase("check")?.status === "done" ? "done" : stateOf("fan-out"),
      to: round?.id ?? null,
    },
    { label: "Timer", state: isFanning ? timer : stateOf("fan-out"), to: round?.id ?? null },
    { label: "Commands", state: stateOf("commands"), to: round?.commands ?? null },
    { label: "Script", state: stateOf("script"), to: round?.script ?? null },
    { label: "Proof", state: stateOf("proof"), to: null },
  ];
  return (
    <section class="demo-steps" aria-label="Parts and workers">
      <ol>
        {parts.map(({ label, state, to }) => (
          <li key={label}>
            {to === null || state === "pending" ? (
              <b>{label}</b>
            ) : (
              <a href={`/executions/${encodeURIComponent(to)}`}>{label}</a>
            )}
            <Badge state={state} />
          </li>
        ))}
      </ol>
      {counts === null ? null : (
        <div class="demo-bar">
          <Bar counts={counts} label="Tasks" />
          <span class="muted">
            {count(counts.done)} of {count(round?.tasks ?? 0)}
          </span>
        </div>
      )}
      <Workers demo={demo} />
    </section>
  );
}

const WORKER_STATES = {
  starting: "pending",
  working: "done",
  frozen: "paused",
  killed: "failed",
} as const satisfies Record<string, BadgeState>;

function Workers({ demo }: { readonly demo: DemoFacts }) {
  return (
    <ul class="demo-workers">
      {demo.workers.map(({ name, pid, state }) => (
        <li key={name}>
          <a href="/workers">{name}</a> <span class="muted mono">pid {pid ?? "–"}</span>{" "}
          <Badge state={WORKER_STATES[state]} text={state} />
        </li>
      ))}
    </ul>
  );
}
