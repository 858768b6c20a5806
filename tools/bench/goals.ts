/** Goals: what a figure should reach, and the verdict on what it reached. */
import type { Figures } from "./scenario.ts";

export interface Goal {
  /** The name of the figure among those of its scenario. */
  readonly figure: string;
  /** The figure in words. */
  readonly label: string;
  /** Whether the value is the least or the most that is fine. */
  readonly bound: "least" | "most";
  readonly value: number;
}

/** A budget is broken beyond this many times the goal: machines differ and are shared, so only a real loss fails. */
const BUDGET_FACTOR = 3;

/** A goal and what was reached. */
export interface Judgement extends Goal {
  readonly scenario: string;
  readonly reached: number;
  /** How many times worse than the goal: up to 1 it is met. */
  readonly factor: number;
  readonly verdict: "met" | "missed" | "broken";
}

/** Judges figures; `slowness` (1 or more) is how much slower the machine is just now than the one the goals are for. */
export function judge(scenario: string, goals: readonly Goal[], figures: Figures, slowness = 1): Judgement[] {
  return goals.map((goal) => {
    const figure = figures[goal.figure];
    const reached = typeof figure === "number" ? figure : Number.NaN;
    const factor = goal.bound === "most" ? reached / goal.value : goal.value / reached;
    const verdict = factor <= 1 ? "met" : factor <= BUDGET_FACTOR * slowness ? "missed" : "broken";
    return { scenario, ...goal, reached, factor, verdict };
  });
}
