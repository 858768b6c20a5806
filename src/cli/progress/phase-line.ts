/** Formats a phase as one line: with a progress bar while it runs, and as plain text otherwise. */
import { showDuration } from "../../std/duration.ts";
import type { Piece, Style } from "../style.ts";
import type { PhaseProgress } from "./progress.ts";

const BAR_MAX = 24;
const BAR_MIN = 8;
/** The width of the text beside the progress bar. */
const BESIDE = 56;
const ETA_MAX_MS = 100 * 86_400_000;

const MARKS: Readonly<Record<PhaseProgress["status"], readonly [mark: string, style: Style]>> = {
  running: ["▸", "cyan"],
  done: ["✓", "green"],
  failed: ["✗", "red"],
  cancelled: ["–", "yellow"],
};

export interface LineOptions {
  readonly now: number;
  /** The number of tasks that are settled per second, if the phase runs. */
  readonly perSecond: number;
  readonly columns: number;
  /** The width to which names of phases are padded. */
  readonly nameWidth: number;
}

/** Returns the line of a running phase on a terminal, which is redrawn. */
export function phaseLine(phase: PhaseProgress, options: LineOptions): Piece[] {
  const pieces: Piece[] = [MARKS[phase.status], ` ${phaseName(phase).padEnd(options.nameWidth)}  `];
  const { timer } = phase;
  if (timer !== null && phase.status === "running" && phase.total <= 1) {
    const left = showDuration(Math.max(0, Math.ceil((timer.due - options.now) / 1_000) * 1_000));
    const what = timer.purpose === "sleep" ? "sleeps for another" : "waits for a signal, at most";
    return [...pieces, [`${what} ${left}`, "dim"]];
  }
  const settled = settledOf(phase);
  if (phase.total > 1) {
    const room = options.columns - options.nameWidth - BESIDE;
    pieces.push(...bar(phase, Math.max(BAR_MIN, Math.min(BAR_MAX, room))));
    pieces.push(`  ${showCount(settled)}/${showCount(phase.total)}${phase.isSealed ? "" : "+"}`);
  } else if (phase.status === "running") pieces.push(["running", "dim"]);
  pieces.push(...mishaps(phase));
  const ms = lasted(phase);
  if (ms !== null) {
    if (settled > 1 && ms > 0) pieces.push([`  ${showRate((settled * 1_000) / ms)}`, "dim"]);
    pieces.push([`  ${showDuration(ms)}`, "dim"]);
  } else if (options.perSecond > 0 && phase.total > 1 && phase.status === "running") {
    pieces.push([`  ${showRate(options.perSecond)}`, "dim"]);
    const leftMs = ((phase.total - settled) * 1_000) / options.perSecond;
    if (phase.isSealed && leftMs < ETA_MAX_MS)
      pieces.push([
        `  ETA ${showDuration(leftMs < 10_000 ? leftMs : Math.round(leftMs / 1_000) * 1_000)}`,
        "dim",
      ]);
  }
  return pieces;
}

/** Returns the line of a phase that has begun or ended, for output that cannot be redrawn. */
export function phaseNews(phase: PhaseProgress): string {
  if (phase.finishedAt === null) return `${phaseName(phase)}: started`;
  const settled = settledOf(phase);
  const tasks = settled > 1 ? `, ${showCount(settled)} tasks` : "";
  const counts = [
    ...(phase.failed > 0 ? [`, ${showCount(phase.failed)} failed`] : []),
    ...(phase.cancelled > 0 ? [`, ${showCount(phase.cancelled)} cancelled`] : []),
    ...(phase.retried > 0 ? [`, ${showCount(phase.retried)} retried`] : []),
  ];
  const ms = lasted(phase);
  const time = ms === null ? "" : `, ${showDuration(ms)}`;
  return `${phaseName(phase)}: ${phase.status}${tasks}${counts.join("")}${time}`;
}

/** The name of a phase, with the number of the visit from the second visit on. */
export function phaseName({ label, visit }: PhaseProgress): string {
  return visit > 1 ? `${label} (visit ${visit})` : label;
}

/** A number with thousands separators, such as 100,000. */
export function showCount(n: number): string {
  return Math.round(n)
    .toString()
    .replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
}

export function settledOf(phase: PhaseProgress): number {
  return phase.done + phase.failed + phase.cancelled;
}

/** Returns how long the phase took; null if it has not ended, or if its start is not known. */
function lasted({ startedAt, finishedAt }: PhaseProgress): number | null {
  return startedAt === null || finishedAt === null ? null : finishedAt - startedAt;
}

function mishaps(phase: PhaseProgress): Piece[] {
  return [
    ...(phase.failed > 0 ? [[`  ${showCount(phase.failed)} failed`, "red"] as const] : []),
    ...(phase.cancelled > 0 ? [[`  ${showCount(phase.cancelled)} cancelled`, "yellow"] as const] : []),
    ...(phase.retried > 0 ? [[`  ${showCount(phase.retried)} retried`, "yellow"] as const] : []),
  ];
}

function bar(phase: PhaseProgress, width: number): Piece[] {
  const full = Math.min(width, Math.floor((settledOf(phase) / Math.max(1, phase.total)) * width));
  return [
    ["━".repeat(full), phase.failed > 0 ? "yellow" : "green"],
    ["─".repeat(width - full), "dim"],
  ];
}

function showRate(perSecond: number): string {
  if (perSecond >= 10) return `${showCount(perSecond)}/s`;
  return perSecond >= 1 ? `${perSecond.toFixed(1)}/s` : `${(perSecond * 60).toFixed(1)}/min`;
}
