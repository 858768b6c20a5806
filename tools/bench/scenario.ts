/** A scenario: parts that each run in their own process, their figures, and the goals of the figures. */
import type { Goal } from "./goals.ts";

/** Figures by name: a number, or the lowest and highest of several runs. */
export type Figures = Readonly<Record<string, number | readonly [number, number]>>;

/** The services of the surrounding process for a part. */
export interface Bench {
  /** The directory for the store; empty before the scenario's first part. */
  readonly directory: string;
  /** The URL of a database, which is empty before the scenario's first part; null: stores are in the directory. */
  readonly database: string | null;
  /** Whether sizes are small, for a quick check. */
  readonly isShort: boolean;
  /** Whether processes that a part starts write their profiles into a folder of the directory that has their name. */
  readonly isProfiled: boolean;
  /** Prints a progress line on stderr. */
  progress(text: string): void;
  /** Runs the measured section, without the warm-up. Only this is profiled. */
  section<T>(run: () => Promise<T>): Promise<T>;
}

/** The database of a scenario that needs one. */
export function databaseOf({ database }: Bench): string {
  if (database === null) throw new Error("this scenario needs --store postgres");
  return database;
}

export type Part = (bench: Bench) => Promise<Figures>;

export interface Scenario {
  readonly name: string;
  /** A short description of the scenario. */
  readonly about: string;
  readonly goals: readonly Goal[];
  /**
   * The parts run one after the other on the same directory. The process of each is killed after its answer. So a part that
   * closes its store ends cleanly, and one that does not ends as by a crash. `peakRssMb` is added to the figures of a part.
   */
  readonly parts: readonly Part[];
  /** Node's flags for its processes. */
  readonly flags?: readonly string[];
  /** The store that the scenario uses; if it is missing, the one of the command line. */
  readonly store?: "file" | "postgres";
  /** The job of `--real` that the scenario belongs to. */
  readonly job?: string;
  /** How many times the scenario runs, each time from nothing; the median of each figure counts. */
  readonly times?: number;
  /** Whether the scenario runs only in the long form, or if it is named. */
  readonly isLong?: boolean;
  readonly needsRabbit?: boolean;
}

/** The Node flags that Rondo's container image sets for a node (Dockerfile). */
export const NODE_FLAGS: readonly string[] = ["--max-semi-space-size=64", "--min-semi-space-size=16"];
