/** The legend of a heat map: the meaning of its bytes, their colours, and how many tasks have each. */
import { TASK_STATES } from "../../api/shapes.ts";
import { count, duration, workerName } from "../../core/format.ts";

export const HEAT_BYS = ["state", "ms", "attempts", "worker"] as const;

export type HeatBy = (typeof HEAT_BYS)[number];

export interface HeatStates {
  readonly bytes: Uint8Array;
  /** The name of each value. */
  readonly names: readonly string[];
}

export interface LegendEntry {
  readonly value: number;
  readonly label: string;
  readonly colour: string;
  /** The number of tasks with this value. */
  readonly n: number;
}

const ATTEMPTS = Array.from({ length: 16 }, (_, n) =>
  n === 0 ? "no attempt yet" : n === 15 ? "15 attempts or more" : n === 1 ? "1 attempt" : `${n} attempts`,
);
/** Colours from quick to slow, or from few to many. */
const RAMP = [
  "#2f6fd0",
  "#2f8fc4",
  "#2ba39d",
  "#4fae6c",
  "#8fb440",
  "#c9ab2c",
  "#e6902a",
  "#e36a35",
  "#d94448",
  "#b0285e",
];
const HUES = [
  "#3f83e6",
  "#e59a23",
  "#37a169",
  "#9a74d8",
  "#d93f4f",
  "#1f9aa8",
  "#c05fa8",
  "#7d8f2a",
  "#a8672f",
  "#5b6ee1",
];

/** Returns the value in the byte of a task: its state in the lower four bits, its attempts in the upper four; other maps use the whole byte. */
export function valueOf(by: HeatBy, byte: number): number {
  if (by === "state") return byte & 15;
  return by === "attempts" ? byte >> 4 : byte;
}

/** Parses the header of the answer that describes the bytes. */
export function parseLegend(by: HeatBy, text: string): readonly string[] {
  if (by === "state") return TASK_STATES;
  if (by === "attempts") return ATTEMPTS;
  const { upToMs, workers } = JSON.parse(text) as {
    upToMs?: (number | string | null)[];
    workers?: (string | null)[];
  };
  if (by === "worker")
    return (workers ?? []).map((name) => (name === null ? "no worker yet" : workerName(name)));
  const bounds = upToMs ?? [];
  return bounds.map((bound, i) => {
    if (bound === null) return "not ended";
    return typeof bound === "number" ? `≤ ${duration(bound)}` : `> ${duration(Number(bounds[i - 1]))}`;
  });
}

/** The values that occur, each with its colour and its number of tasks. */
export function legendOf(by: HeatBy, { bytes, names }: HeatStates): readonly LegendEntry[] {
  const counts = new Uint32Array(256);
  for (let i = 0; i < bytes.length; i++) {
    const value = valueOf(by, bytes[i] as number);
    counts[value] = (counts[value] as number) + 1;
  }
  const style = getComputedStyle(document.documentElement);
  const themed = (name: string): string => style.getPropertyValue(name).trim();
  // The colours are spread over the values that occur.
  const present = names.flatMap((_, value) => (value > 0 && (counts[value] as number) > 0 ? [value] : []));
  return names.map((label, value) => ({
    value,
    label,
    colour: colourOf(by, value, { themed, rank: present.indexOf(value), many: present.length }),
    n: counts[value] as number,
  }));
}

function colourOf(
  by: HeatBy,
  value: number,
  { themed, rank, many }: { themed: (name: string) => string; rank: number; many: number },
): string {
  if (by === "state") return themed(`--fill-${TASK_STATES[value] ?? "pending"}`);
  if (value === 0 || rank < 0) return themed("--fill-pending");
  if (by === "worker") return HUES[(value - 1) % HUES.length] as string;
  return RAMP[many < 2 ? 0 : Math.round((rank / (many - 1)) * (RAMP.length - 1))] as string;
}

/** Describes a cell in words. */
export function describeCell(task: number, { bytes, names }: HeatStates, by: HeatBy): string {
  const byte = bytes[task];
  if (byte === undefined) return "";
  const what = names[valueOf(by, byte)] ?? "";
  const attempts = by === "state" && byte >> 4 > 1 ? `, attempt ${byte >> 4}` : "";
  return `Task ${count(task)}: ${what}${attempts}`;
}
