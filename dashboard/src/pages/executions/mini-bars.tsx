import type { PhaseView } from "../../api/shapes.ts";
import { Bar, sumCounts } from "../../ui/bar.tsx";

/** The most phases that fit into a row; if there are more, the last ones are shown. */
const SHOWN = 8;

/** A small bar per phase. */
export function MiniBars({ phases }: { readonly phases: readonly PhaseView[] | null }) {
  if (phases === null) return <span class="mini-bars" />;
  const shown = phases.slice(-SHOWN);
  return (
    <span class="mini-bars">
      {phases.length > SHOWN ? <span class="muted small">+{phases.length - SHOWN}</span> : null}
      {shown.map((phase) => (
        <Bar
          key={`${phase.name} ${phase.visit}`}
          label={phase.name}
          counts={phase.handlers.length === 0 ? emptyOf(phase) : sumCounts(phase.handlers)}
        />
      ))}
    </span>
  );
}

/** The bar of a phase without tasks: empty, or full if the phase is done. */
function emptyOf({ status }: PhaseView) {
  const none = sumCounts([]);
  return status === "done" ? { ...none, done: 1 } : none;
}
