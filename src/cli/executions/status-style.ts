import type { Style } from "../style.ts";

const STYLES: Readonly<Record<string, Style>> = {
  running: "cyan",
  retrying: "yellow",
  waiting: "cyan",
  paused: "yellow",
  cancelling: "yellow",
  cleaning: "yellow",
  done: "green",
  failed: "red",
  damaged: "red",
  cancelled: "yellow",
  pending: "dim",
  skipped: "dim",
};

/** The colour of a status. */
export function statusStyle(status: string): Style | null {
  return STYLES[status] ?? null;
}
