/**
 * `rondo sim`: runs seeds of the simulator, and prints each broken seed with a command line that replays it. `rondo sim --help`
 * lists the options.
 */
import { parseArgs } from "node:util";
import { monotonicMs } from "../../src/std/monotonic.ts";
import { systemRandom } from "../../src/std/random.ts";
import { HAPPENINGS } from "./faults.ts";
import { type Modes, modesOf, nodesOf, runAnySeed } from "./run.ts";
import { runSeeds, type SeedReport, type SeedRun } from "./seed-threads.ts";
import { TALKING_FROM } from "./workload/program.ts";

/** The highest first seed of a soak. */
const SOAK_FROM_MAX = 1_000_000_000;
/** The number of seeds between two progress lines. */
const PROGRESS_EVERY = 10;
/** The faults that happen in runs of a cluster. Races of signals with ends have runs of their own. */
const CLUSTER_HAPPENINGS = HAPPENINGS.filter((what) => !what.startsWith("signal "));

const SIMULATE_HINT =
  "to simulate a workflow of yours: `simulate` of rondo/testing, see docs/guides/testing.md";

export const SIM_HELP = `rondo sim: runs the engine, its store, workers, network and clocks under seeds, and checks all invariants

  --seeds N          the number of seeds (default: 200), from seed --from N (default: 1)
  --seed N           one seed, with its trace (--quiet: without the trace)
  --drill            a handler with a limit on three nodes, of which one dies every 7 s
  --races            signals with starts meet the ends of executions; every item is taken exactly once
  --events           events start, signal and cancel executions by triggers; each has its effect exactly once
  --versions         executions move between versions of a workflow, while code of the versions comes and goes
  --entities         executions continue as others under one id; every item is taken exactly once, in its order
  --alerts           several nodes look for causes of alerts and send them; each cause is told once
  --sessions         workers claim and report over HTTP that loses, delays and repeats messages; nothing is lost or done twice
  --talk             code writes streams, publishes values and answers updates (seeds from 1,000,000,001 on)
  --endings          workflows clean up when they end; a payment service counts charges and refunds
  --rates            handlers have rates by key, and rates that are spread
  --cluster          2 to 7 nodes over one database (--nodes N: exactly N)
  --executions N     only N executions; --without a,b leaves out these faults (both as printed for a broken seed)
  --twice            run each seed twice and compare the traces
  --complete         with --cluster: fail unless every kind of fault has happened
  --soak             run seeds from a random one on (or from --from N) until it is stopped
  --threads N        the number of seeds that run at a time (default: one for each core)
  --hashes           print the hash of each trace
  --bugs             plant known bugs in copies of the code and expect each to be found (--within N seeds, --only NAME, --every N: each Nth bug)
  --replay           with --bugs: begin at the seed that is known to find the bug
  --json             print JSON

It simulates Rondo itself; ${SIMULATE_HINT}.
`;

const OPTIONS = {
  seed: { type: "string" },
  seeds: { type: "string" },
  from: { type: "string" },
  executions: { type: "string" },
  nodes: { type: "string" },
  cluster: { type: "boolean" },
  drill: { type: "boolean" },
  endings: { type: "boolean" },
  rates: { type: "boolean" },
  races: { type: "boolean" },
  events: { type: "boolean" },
  versions: { type: "boolean" },
  entities: { type: "boolean" },
  alerts: { type: "boolean" },
  sessions: { type: "boolean" },
  talk: { type: "boolean" },
  without: { type: "string" },
  bugs: { type: "boolean" },
  within: { type: "string" },
  every: { type: "string" },
  only: { type: "string" },
  replay: { type: "boolean" },
  twice: { type: "boolean" },
  complete: { type: "boolean" },
  first: { type: "boolean" },
  soak: { type: "boolean" },
  threads: { type: "string" },
  help: { type: "boolean", short: "h" },
  hashes: { type: "boolean" },
  json: { type: "boolean" },
  quiet: { type: "boolean" },
} as const;

/** Loads the hunt for planted bugs; null: its parser is not installed, and the user was told. */
async function loadHunt(): Promise<typeof import("./hunt.ts") | null> {
  try {
    return await import("./hunt.ts");
  } catch (thrown) {
    if ((thrown as { code?: string }).code !== "ERR_MODULE_NOT_FOUND") throw thrown;
    process.stderr.write("rondo sim: --bugs needs a checkout of Rondo with its development packages\n");
    return null;
  }
}

/** Runs the simulator with command-line arguments; returns the exit code. */
export async function runSim(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: OPTIONS,
  });
  if (values.help === true) {
    process.stdout.write(SIM_HELP);
    return 0;
  }
  if (positionals.length > 0) {
    process.stderr.write(
      `rondo sim: takes no arguments, but was given "${positionals.join(" ")}"\n  ${SIMULATE_HINT}\n`,
    );
    return 2;
  }
  for (const name of [
    "seed",
    "seeds",
    "from",
    "executions",
    "nodes",
    "within",
    "every",
    "threads",
  ] as const) {
    const given = values[name];
    if (given === undefined || /^\d{1,12}$/.test(given)) continue;
    process.stderr.write(`rondo sim: --${name} takes a whole number, not "${given}"\n`);
    return 2;
  }
  if (values.bugs === true) {
    const hunt = await loadHunt();
    if (hunt === null) return 2;
    return hunt.huntBugs({
      within: values.within === undefined ? null : Number(values.within),
      only: values.only ?? null,
      replay: values.replay === true,
      json: values.json === true,
      cluster: values.cluster === true,
      every: Math.max(1, Number(values.every ?? 1)),
    });
  }
  const without = values.without?.split(",") ?? [];
  const executions = values.executions === undefined ? undefined : Number(values.executions);
  const nodesFor = (seed: number) =>
    values.nodes !== undefined ? Number(values.nodes) : values.cluster === true ? nodesOf(seed) : 0;
  const talking = values.talk === true ? TALKING_FROM : 0;
  if (values.seed !== undefined)
    return runOne({
      seed: talking + Number(values.seed),
      nodes: nodesFor(talking + Number(values.seed)),
      modes: modesOf(values),
      executions,
      without,
      quiet: values.quiet === true,
    });
  const isSoak = values.soak === true;
  const many = {
    from:
      values.from === undefined && isSoak
        ? 1 + (systemRandom.u32() % SOAK_FROM_MAX)
        : talking + Number(values.from ?? 1),
    seeds: isSoak ? Number.POSITIVE_INFINITY : Number(values.seeds ?? (values.first === true ? 2_000 : 200)),
    executions,
    nodesOf: nodesFor,
    modes: modesOf(values),
    without,
    twice: values.twice === true,
    complete: values.complete === true,
    hashes: values.hashes === true,
    json: values.json === true,
    threads: values.threads === undefined ? undefined : Number(values.threads),
  };
  return values.first === true ? runToFirst(many) : runMany(many);
}

async function runOne({
  modes,
  ...options
}: {
  seed: number;
  executions: number | undefined;
  nodes: number;
  modes: Modes;
  without: readonly string[];
  quiet: boolean;
}): Promise<number> {
  const result = await runAnySeed({
    ...options,
    ...modes,
    show: options.quiet ? null : (line) => process.stdout.write(`${line}\n`),
  });
  process.stdout.write(
    result.violation === null
      ? `seed ${options.seed}: ok, trace ${result.hash}\n`
      : `seed ${options.seed}: ${result.violation}\n`,
  );
  return result.violation === null ? 0 : 1;
}

interface Many {
  readonly from: number;
  readonly seeds: number;
  readonly executions: number | undefined;
  readonly nodesOf: (seed: number) => number;
  readonly modes: Modes;
  readonly without: readonly string[];
  readonly twice: boolean;
  readonly complete: boolean;
  readonly hashes: boolean;
  readonly json: boolean;
  readonly threads: number | undefined;
}

function* runsOf(options: Many, shrinks: boolean): Generator<SeedRun> {
  const { executions, without, twice, nodesOf, modes } = options;
  const { endings: _, rates: __, ...others } = modes;
  for (let seed = options.from; seed < options.from + options.seeds; seed++)
    yield {
      ...{ seed, executions, nodes: nodesOf(seed), ...modes, without, twice },
      shrinks: shrinks && !Object.values(others).includes(true),
    };
}

/** Runs seeds until one breaks, and prints it as JSON for the hunt for planted bugs. */
async function runToFirst(options: Many): Promise<number> {
  let found: SeedReport | null = null;
  await runSeeds(runsOf(options, false), {
    threads: options.threads ?? 1,
    onReport: (report) => {
      if (report.violation !== null) found ??= report;
      return report.violation === null;
    },
  });
  const first = found as SeedReport | null;
  const said = { seed: first?.seed ?? null, ...(first === null ? {} : { violation: firstLine(first) }) };
  process.stdout.write(`${JSON.stringify(said)}\n`);
  return first === null ? 0 : 1;
}

function firstLine({ violation }: SeedReport): string {
  return violation?.split("\n")[0] ?? "";
}

async function runMany(options: Many): Promise<number> {
  const kinds = new Set<string>();
  const happened: Record<string, number> = {};
  let ran = 0;
  let failed = 0;
  const isSoak = options.seeds === Number.POSITIVE_INFINITY;
  const since = monotonicMs();
  let isStopped = false;
  const stop = () => {
    isStopped = true;
  };
  // Runs under way are still reported, and then the totals are printed.
  if (isSoak) process.once("SIGINT", stop).once("SIGTERM", stop);
  await runSeeds(runsOf(options, true), {
    ...(options.threads === undefined ? {} : { threads: options.threads }),
    onReport: (report) => {
      ran++;
      for (const kind of report.kinds) kinds.add(kind);
      for (const [what, times] of report.happened) happened[what] = (happened[what] ?? 0) + times;
      if (options.hashes) process.stdout.write(`${report.seed} ${report.hash}\n`);
      if (report.violation !== null) {
        failed++;
        process.stdout.write(`seed ${report.seed}: ${report.violation.split("\n").slice(0, 4).join("\n")}\n`);
        process.stdout.write(`  replay: ${report.replay}\n`);
      }
      if (isSoak && ran % PROGRESS_EVERY === 0) {
        const perSecond = (ran * 1_000) / (monotonicMs() - since);
        process.stderr.write(
          `${ran} seeds from ${options.from}: ${failed} broke (${perSecond.toFixed(1)} a second)\n`,
        );
      }
      return !isStopped;
    },
  });
  process.off("SIGINT", stop);
  process.off("SIGTERM", stop);
  const summary = { seeds: ran, failed, kinds: [...kinds].sort(), happened };
  if (options.json) process.stdout.write(`${JSON.stringify(summary)}\n`);
  else
    process.stdout.write(
      `${ran} seeds from ${options.from}: ${ran - failed} held, ${failed} broke; ${kinds.size} kinds of events seen\n`,
    );
  const absent = options.complete ? CLUSTER_HAPPENINGS.filter((what) => happened[what] === undefined) : [];
  if (absent.length > 0) process.stdout.write(`these faults have not happened: ${absent.join(", ")}\n`);
  return failed === 0 && absent.length === 0 ? 0 : 1;
}
