/** What a scenario is: parts that each run in a process of their own, the figures they give, and the goals for those. */
import type { Goal } from "./goals.ts";

/** Figures by name: a number, or the lowest and highest of several runs. */
export type Figures = Readonly<Record<string, number | readonly [number, number]>>;

/** What a part gets from the process around it. */
export interface Bench {
  /** For the store; empty before the scenario's first part. */
  readonly directory: string;
  /** The URL of a database, empty before the scenario's first part; null: stores are made in the directory. */
  readonly database: string | null;
  /** Small sizes: to see that it works and is not far off. */
  readonly isShort: boolean;
  /** Processes that a part starts write their profiles into a folder of the directory, named after them. */
  readonly isProfiled: boolean;
  /** Says on stderr how far it is. */
  progress(text: string): void;
  /** Runs what counts: this, and not the warm-up, is profiled. */
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
  /** What is done, in a few words. */
  readonly about: string;
  readonly goals: readonly Goal[];
  /**
   * Run one after the other on the same directory. The process of each is killed when it has answered, so a part
   * that closes its store ends cleanly, and one that does not, ends as by a crash. `peakRssMb` is added to what a
   * part gives.
   */
  readonly parts: readonly Part[];
  /** Flags of Node for its processes. */
  readonly flags?: readonly string[];
}

/** The flags of Node that the image of Rondo sets for a node (Dockerfile). */
export const NODE_FLAGS: readonly string[] = ["--max-semi-space-size=64"];
