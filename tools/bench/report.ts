/** The report for people: facts, a table of goals and measured values, the bottleneck, and profiles. */
import type { Judgement } from "./goals.ts";
import type { ThreadProfile } from "./hot-functions.ts";
import type { Machine } from "./machine.ts";
import type { Figures, Scenario } from "./scenario.ts";

const VERDICTS = { met: "met", missed: "missed", broken: "broken, beyond 3 times" } as const;

export function showMachine(machine: Machine): string {
  const { cores, processor, node, platform, store, fileSystem, fdatasyncP50Ms } = machine;
  return [
    `${cores} cores (${processor}), ${platform}, Node ${node}`,
    `${store} on ${fileSystem}, one fdatasync of 4 KiB takes ${number(fdatasyncP50Ms)} ms (p50)`,
  ].join("\n");
}

/** One row per goal. The ratio is that to the raw limit; the factor tells how many times worse than the goal the value is. */
export function showGoals(judgements: readonly Judgement[], figures: ReadonlyMap<string, Figures>): string {
  const rows = judgements.map((goal, i) => [
    judgements[i - 1]?.scenario === goal.scenario ? "" : goal.scenario,
    goal.label,
    `${goal.bound === "least" ? ">=" : "<="} ${number(goal.value)}`,
    number(goal.reached),
    goal.rawLimit === null ? "" : number(goal.rawLimit),
    goal.rawLimit === null ? "" : number(goal.reached / goal.rawLimit),
    range(figures.get(goal.scenario)?.[`${goal.figure}Spread`]),
    number(goal.factor),
    VERDICTS[goal.verdict],
  ]);
  return table(
    [["scenario", "figure", "goal", "reached", "raw limit", "ratio", "spread", "factor", "verdict"], ...rows],
    [3, 4, 5, 7],
  );
}

/** All figures of each scenario, one line each, with the scenario's name in front. */
export function showFigures(scenarios: readonly Scenario[], figures: ReadonlyMap<string, Figures>): string {
  return scenarios
    .flatMap(({ name, about }) => {
      const found = figures.get(name);
      if (found === undefined) return [];
      const texts = Object.entries(found)
        .filter((entry): entry is [string, number] => typeof entry[1] === "number")
        .map(([figure, value]) => `${figure} ${number(value)}`);
      return [`${name}: ${about}${bounds(found)}`, `  ${texts.join(", ")}`];
    })
    .join("\n");
}

export function showProfile(scenario: string, { thread, ms, ...profile }: ThreadProfile): string {
  const share = (part: number): string => `${((part / ms) * 100).toFixed(1)} %`;
  const rows = profile.hottest.map(({ name, place, ms: self }) => [
    `  ${share(self)}`,
    `${number(self)} ms`,
    name,
    place,
  ]);
  const facts = `idle ${share(profile.idleMs)}, garbage collector ${share(profile.collectorMs)}, program ${share(profile.programMs)}`;
  return `${scenario}, ${thread}: ${number(ms)} ms, ${facts}\n${table([["  self", "", "function", "place"], ...rows], [0, 1])}`;
}

/** The part that is busy all the time is the bottleneck. */
function bounds(figures: Figures): string {
  const { mainThreadBusy: main, commitUnderWay: commit } = figures;
  if (typeof main !== "number" || typeof commit !== "number") return "";
  const what = main > 0.85 ? "the main thread" : commit > 0.85 ? "the store" : "both in turn";
  return `; bound by ${what} (main thread ${percent(main)} busy, a commit under way ${percent(commit)} of the time)`;
}

/** Columns as wide as needed; those in `right` are aligned to the right. */
function table(rows: readonly (readonly string[])[], right: readonly number[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function range(found: Figures[string] | undefined): string {
  return typeof found === "object" ? `${number(found[0])} to ${number(found[1])}` : "";
}

function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
