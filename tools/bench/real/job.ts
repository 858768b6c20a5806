/** A job of `bench --real`: the same load over an embedded store and over PostgreSQL, with a goal for each. */
import type { Rondo } from "../../../src/index.ts";
import type { Goal } from "../goals.ts";
import { type Meter, openMetered } from "../metered-rondo.ts";
import { openMeteredNode } from "../postgres/metered-node.ts";
import { type Bench, type Figures, NODE_FLAGS, type Part, type Scenario } from "../scenario.ts";
import { openRawStore, type RawStore } from "./raw-store.ts";

/** A goal with a value for each store. */
export interface JobGoal extends Omit<Goal, "value"> {
  readonly file?: number;
  readonly postgres?: number;
}

export interface Job {
  readonly name: string;
  readonly about: string;
  readonly goals: readonly JobGoal[];
  readonly parts: readonly Part[];
  /** How many times the job runs, each time from nothing; the median of each figure counts. */
  readonly times?: number;
  /** Whether the job runs only in the long form, or if it is named. */
  readonly isLong?: boolean;
  readonly needsRabbit?: boolean;
  /** Node's flags, if not those of the container image. */
  readonly flags?: readonly string[];
}

/** The scenarios of a job, one for each store. */
export function scenariosOf(job: Job): readonly Scenario[] {
  return (["file", "postgres"] as const).map((store) => ({
    name: `real-${job.name}-${store}`,
    job: job.name,
    about: job.about,
    store,
    goals: job.goals.flatMap(({ file, postgres, ...goal }): Goal[] => {
      const value = store === "file" ? file : postgres;
      if (value === undefined && goal.raw?.share === undefined) return [];
      return [value === undefined ? goal : { ...goal, value }];
    }),
    parts: job.parts,
    flags: job.flags ?? NODE_FLAGS,
    ...(job.times === undefined ? {} : { times: job.times }),
    ...(job.isLong === true ? { isLong: true } : {}),
    ...(job.needsRabbit === true ? { needsRabbit: true } : {}),
  }));
}

/** Rondo in this process as a program has it, a meter on its commits, and the raw limits of its store. */
export interface Opened {
  readonly rondo: Rondo;
  readonly meter: Meter;
  /** Opens the raw store. Jobs that do not need it leave its memory out of the figures. */
  readonly openRaw: () => Promise<RawStore>;
}

/** A part that runs in one process over the scenario's store. */
export function inProcess(run: (bench: Bench, opened: Opened) => Promise<Figures>): Part {
  return async (bench) => {
    const { rondo, meter } =
      bench.database === null ? await openMetered(bench.directory) : await openMeteredNode(bench.database);
    const opened: RawStore[] = [];
    const openRaw = async (): Promise<RawStore> => {
      const raw = await openRawStore(bench);
      opened.push(raw);
      return raw;
    };
    const figures = await run(bench, { rondo, meter, openRaw });
    for (const raw of opened) await raw.close();
    await rondo.close();
    return figures;
  };
}
