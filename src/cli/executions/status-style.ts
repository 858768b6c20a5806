import type { Style } from "../style.ts";

const STYLES: Readonly<Record<string, Style>> = {
  running: "cyan",
  retrying: "yellow",
  waiting: "cyan",
  paused: "yellow",
  cancelling: "yellow",
  done: "green",
  failed: "red",
  damaged: "red",
  cancelled: "yellow",
  pending: "dim",
  skipped: "dim",
};

/** How a status looks. */
export function statusStyle(status: string): Style | null {
  return STYLES[status] ?? null;
}
