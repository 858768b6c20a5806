/** Runs one seed, and shrinks a failure. */

import { Payments } from "./check/payments.ts";
import { drillWorld } from "./drill.ts";
import { FAULTS, faultsWithout, type Happening } from "./faults.ts";
import { runAlerts } from "./modes/alerts.ts";
import { entitiesWorld } from "./modes/entities.ts";
import { eventsWorld } from "./modes/event-races.ts";
import { racesWorld } from "./modes/races.ts";
import { versionsWorld } from "./modes/version-moves.ts";
import { runSessions } from "./sessions/sessions.ts";
import { Violation } from "./trace.ts";
import { World } from "./world.ts";

/** Kinds of runs and of workloads. Each is an option of the command line. */
export const MODES = [
  /** A drill instead of the random run. */
  "drill",
  /** Workflows clean up when they end, and executions are cancelled often. */
  "endings",
  /** Handlers have rates by key and rates that are spread. */
  "rates",
  /** Races of signals with the ends of executions, instead of the random run. */
  "races",
  /** Events with triggers, instead of the random run. */
  "events",
  /** Moves of executions between versions of a workflow, instead of the random run. */
  "versions",
  /** Executions that continue as others, instead of the random run. */
  "entities",
  /** Alerts of several nodes, instead of the random run. */
  "alerts",
  /** Worker sessions over simulated HTTP, instead of the random run. */
  "sessions",
] as const;
export type Modes = Partial<Record<(typeof MODES)[number], boolean | undefined>>;

/** The modes that a bug or a command line asks for. */
export function modesOf(asked: Modes): Modes {
  return Object.fromEntries(MODES.map((mode) => [mode, asked[mode] === true]));
}

export interface RunOptions extends Modes {
  readonly seed: number;
  readonly executions?: number | undefined;
  /** The number of nodes over one database; 0: one node with its own disk. Undefined, for a cluster: chosen by the seed. */
  readonly nodes?: number | undefined;
  readonly without?: readonly string[];
  readonly show?: ((line: string) => void) | null;
}

export interface RunResult {
  readonly hash: string;
  readonly violation: string | null;
  readonly kinds: ReadonlySet<string>;
  readonly lines: number;
  /** The count of each happening. */
  readonly happened: ReadonlyMap<Happening, number>;
  /** The counts of the payment service. */
  readonly payments: Readonly<Payments["counts"]>;
}

/** The number of nodes in the cluster of a seed. */
export function nodesOf(seed: number): number {
  return 2 + (seed % 6);
}

/** Runs a seed in any mode. */
export async function runAnySeed(options: RunOptions): Promise<RunResult> {
  const { seed, show = null, alerts, sessions } = options;
  if (alerts !== true && sessions !== true) return runSeed(options);
  const ran = await (alerts === true ? runAlerts : runSessions)(seed, show);
  return { ...ran, happened: new Map(), payments: new Payments().counts };
}

/** Runs a seed of any mode but alerts and sessions, whose code is asynchronous. */
export function runSeed(options: RunOptions): RunResult {
  const world = worldOf(options);
  const done = (violation: string | null): RunResult => ({
    hash: world.trace.hash,
    violation,
    kinds: world.ledger.kinds,
    lines: world.trace.lines,
    happened: world.happened,
    payments: world.ledger.payments.counts,
  });
  try {
    world.run();
    return done(null);
  } catch (thrown) {
    if (thrown instanceof Violation) return done(thrown.message);
    return done(`bug: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)}`);
  }
}

function worldOf(options: RunOptions): World {
  const { seed, executions, nodes, without, show = null, drill, endings, rates, races, events } = options;
  if (options.versions === true) return versionsWorld(seed, show);
  if (options.entities === true) return entitiesWorld(seed, show);
  if (drill === true) return drillWorld(seed, show);
  if (races === true) return racesWorld(seed, show);
  if (events === true) return eventsWorld(seed, show);
  return new World({
    seed,
    executions: executions ?? 1 + (seed % 5),
    nodes: nodes ?? 0,
    faults: faultsWithout(without ?? []),
    show,
    endings: endings === true,
    rates: rates === true,
  });
}

/** The smallest run that still fails. */
interface Smallest {
  readonly seed: number;
  readonly executions: number;
  readonly nodes: number;
  readonly without: readonly string[];
  readonly endings: boolean;
  readonly rates: boolean;
}

/** Finds the smallest run of the seed that still fails: fewer executions, fewer kinds of faults. */
export function shrink(options: RunOptions): Smallest {
  let best = {
    seed: options.seed,
    executions: options.executions ?? 1 + (options.seed % 5),
    nodes: options.nodes ?? 0,
    without: [...(options.without ?? [])],
    endings: options.endings === true,
    rates: options.rates === true,
  };
  const fails = (candidate: typeof best) => runSeed(candidate).violation !== null;
  for (const fault of FAULTS) {
    const candidate = { ...best, without: [...best.without, fault] };
    if (!best.without.includes(fault) && fails(candidate)) best = candidate;
  }
  for (let executions = 1; executions < best.executions; executions++) {
    if (fails({ ...best, executions })) {
      best = { ...best, executions };
      break;
    }
  }
  return best;
}

/** The command line that runs it again. */
export function replayLine(run: ReturnType<typeof shrink>): string {
  const { seed, executions, nodes, without, endings, rates } = run;
  const kind = `${nodes > 0 ? ` --nodes ${nodes}` : ""}${endings ? " --endings" : ""}${rates ? " --rates" : ""}`;
  return `rondo sim --seed ${seed}${kind} --executions ${executions}${without.length > 0 ? ` --without ${without.join(",")}` : ""}`;
}
