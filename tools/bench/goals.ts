/** The goals of figures, and the verdicts on the measured values. */
import type { Figures } from "./scenario.ts";

export interface Goal {
  /** The name of the figure in its scenario. */
  readonly figure: string;
  /** The figure in words. */
  readonly label: string;
  /** Whether the value is a minimum or a maximum. */
  readonly bound: "least" | "most";
  /** The value of the goal; missing if it follows from the raw limit alone. */
  readonly value?: number;
  /** The figure with the raw limit, measured in the same run, and the share of it that is the goal. */
  readonly raw?: { readonly figure: string; readonly share?: number };
}

/** If the raw limit makes the goal impossible, the goal becomes this share of the limit. */
const REACHABLE = 0.7;

/** A budget fails only beyond this multiple of the goal: machines differ and are shared, so only a real regression fails. */
const BUDGET_FACTOR = 3;

/** A goal and the measured value. */
export interface Judgement extends Omit<Goal, "raw"> {
  readonly scenario: string;
  /** The goal, as the raw limit of the run makes it. */
  readonly value: number;
  /** The raw limit; null if the goal has none. */
  readonly rawLimit: number | null;
  readonly reached: number;
  /** How many times worse than the goal the value is. Up to 1, the goal is met. */
  readonly factor: number;
  readonly verdict: "met" | "missed" | "broken";
}

/** Judges figures. `slowness` (1 or more) is how much slower this machine is now than the one that the goals are for. */
export function judge(scenario: string, goals: readonly Goal[], figures: Figures, slowness = 1): Judgement[] {
  return goals.map(({ raw, ...goal }) => {
    const limit = raw === undefined ? null : (figures[raw.figure] as number | undefined);
    const rawLimit = limit ?? null;
    const value = valueOf({ ...goal, ...(raw === undefined ? {} : { raw }) }, rawLimit);
    const figure = figures[goal.figure];
    const reached = typeof figure === "number" ? figure : Number.NaN;
    const factor = goal.bound === "most" ? reached / value : value / reached;
    const verdict = factor <= 1 ? "met" : factor <= BUDGET_FACTOR * slowness ? "missed" : "broken";
    return { scenario, ...goal, value, rawLimit, reached, factor, verdict };
  });
}

function valueOf({ bound, value, raw }: Goal, limit: number | null): number {
  if (limit === null) return value ?? Number.NaN;
  const share = (raw?.share ?? 0) * limit;
  if (bound === "most") return value === undefined ? share : Math.max(value, limit / REACHABLE);
  return Math.min(Math.max(value ?? 0, share), REACHABLE * limit);
}
