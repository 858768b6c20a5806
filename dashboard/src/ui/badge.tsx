import type { ExecutionStatus, TaskState, Waits } from "../api/shapes.ts";

export type BadgeState =
  | ExecutionStatus
  | TaskState
  | "skipped"
  | "sleeping"
  | "signal"
  | "worker"
  | "limit"
  | "child"
  | "receipt"
  | "scheduled"
  | "draining"
  | "recovering"
  | "held"
  | "lost";

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
  sleeping: "☾",
  signal: "✉",
  worker: "!",
  limit: "≡",
  child: "↳",
  receipt: "◷",
  scheduled: "◷",
  draining: "◌",
  recovering: "↻",
  held: "‖",
  lost: "?",
};

type Tone = "done" | "running" | "retrying" | "waiting" | "failed" | "cancelled" | "pending" | "paused";

/** States that share the colours of another state. */
const TONES: Partial<Record<BadgeState, Tone>> = {
  cancelling: "cancelled",
  cleaning: "cancelled",
  skipped: "pending",
  damaged: "failed",
  sleeping: "waiting",
  signal: "waiting",
  worker: "retrying",
  limit: "retrying",
  child: "waiting",
  receipt: "waiting",
  scheduled: "pending",
  draining: "cancelled",
  recovering: "retrying",
  held: "paused",
  lost: "failed",
};

const TEXTS: Partial<Record<BadgeState, string>> = {
  signal: "needs a signal",
  worker: "no worker",
  limit: "at a limit",
  child: "child runs",
  receipt: "needs a receipt",
  held: "held back",
};

/** The words of a state. */
export function stateText(state: BadgeState): string {
  return TEXTS[state] ?? state;
}

/** A badge with a state, as a word and a sign. */
export function Badge({
  state,
  text,
  title,
}: {
  readonly state: BadgeState;
  readonly text?: string;
  readonly title?: string;
}) {
  const tone = TONES[state] ?? state;
  return (
    <span class={`badge tone-${tone}`} title={title}>
      <span aria-hidden="true" class={state === "running" ? "sign alive" : "sign"}>
        {SIGNS[state]}
      </span>
      {text ?? stateText(state)}
    </span>
  );
}

/** The badge of what a running execution waits for. */
const ACTIVITIES: Readonly<Record<Waits, BadgeState>> = {
  running: "running",
  worker: "worker",
  queue: "paused",
  limit: "limit",
  signal: "signal",
  sleep: "sleeping",
  retry: "retrying",
  child: "child",
  receipt: "receipt",
  start: "scheduled",
  drain: "draining",
  restart: "recovering",
  upgrade: "held",
};

/** The state of an execution as the badge shows it: for a running one, what it does or waits for. */
export function activityOf(status: ExecutionStatus, waits: Waits | null): BadgeState {
  return status === "running" && waits !== null ? ACTIVITIES[waits] : status;
}
