/** The goals of figures, and the verdicts on the measured values. */
import type { Figures } from "./scenario.ts";

export interface Goal {
  /** The name of the figure in its scenario. */
  readonly figure: string;
  /** The figure in words. */
  readonly label: string;
  /** Whether the value is a minimum or a maximum. */
  readonly bound: "least" | "most";
  readonly value: number;
}

/** A budget fails only beyond this multiple of the goal: machines differ and are shared, so only a real regression fails. */
const BUDGET_FACTOR = 3;

/** A goal and the measured value. */
export interface Judgement extends Goal {
  readonly scenario: string;
  readonly reached: number;
  /** How many times worse than the goal. Up to 1, the goal is met. */
  readonly factor: number;
  readonly verdict: "met" | "missed" | "broken";
}

/** Judges figures. `slowness` (1 or more) is how much slower this machine is now than the one that the goals are for. */
export function judge(scenario: string, goals: readonly Goal[], figures: Figures, slowness = 1): Judgement[] {
  return goals.map((goal) => {
    const figure = figures[goal.figure];
    const reached = typeof figure === "number" ? figure : Number.NaN;
    const factor = goal.bound === "most" ? reached / goal.value : goal.value / reached;
    const verdict = factor <= 1 ? "met" : factor <= BUDGET_FACTOR * slowness ? "missed" : "broken";
    return { scenario, ...goal, reached, factor, verdict };
  });
}
