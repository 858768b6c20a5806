import type { ExecutionStatus, TaskState } from "../api/shapes.ts";

export type BadgeState = ExecutionStatus | TaskState | "skipped";

/** The sign of each state, so that colour is never the only distinction. */
const SIGNS: Readonly<Record<BadgeState, string>> = {
  pending: "○",
  running: "●",
  retrying: "↻",
  waiting: "◷",
  done: "✓",
  failed: "✕",
  damaged: "!",
  cancelled: "–",
  cancelling: "–",
  cleaning: "↶",
  paused: "‖",
  skipped: "→",
};

/** States that share the colours of another state. */
const TONES: Partial<Record<BadgeState, BadgeState>> = {
  cancelling: "cancelled",
  cleaning: "cancelled",
  skipped: "pending",
  damaged: "failed",
};

/** A badge with a state, as a word and a sign. */
export function Badge({ state, text }: { readonly state: BadgeState; readonly text?: string }) {
  const tone = TONES[state] ?? state;
  return (
    <span class={`badge tone-${tone}`}>
      <span aria-hidden="true" class={state === "running" ? "sign alive" : "sign"}>
        {SIGNS[state]}
      </span>
      {text ?? state}
    </span>
  );
}
