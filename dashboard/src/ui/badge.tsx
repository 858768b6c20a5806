import type { ExecutionStatus, TaskState } from "../api/shapes.ts";

export type BadgeState = ExecutionStatus | TaskState | "skipped";

/** What a state looks like besides its colour, so that colour is never the only sign. */
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

/** States that have the colours of another one. */
const TONES: Partial<Record<BadgeState, BadgeState>> = {
  cancelling: "cancelled",
  cleaning: "cancelled",
  skipped: "pending",
  damaged: "failed",
};

/** The state of something, as a word with its sign. */
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
