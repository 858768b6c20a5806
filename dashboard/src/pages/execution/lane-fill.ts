import type { TimeBar } from "../../api/shapes.ts";

/** The state whose colour a bar of the timeline has. */
export function fillOf({ kind, state }: TimeBar): string {
  if (kind === "retry") return "retrying";
  if (kind === "sleep" || kind === "signal") return state === "failed" ? "failed" : "waiting";
  return state === "lost" ? "failed" : state === "suspended" ? "done" : state;
}
