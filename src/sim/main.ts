/**
 * `rondo sim`: runs seeds, prints what breaks with a line that replays it.
 *
 * --seed N        one seed, with its trace      --seeds N      so many seeds from --from (default 1)
 * --executions N  --without a,b                 a smaller run: what a shrunk failure says
 * --bugs          plants each known bug in a copy and expects it to be found within --within seeds
 * --twice         runs each seed twice and compares the trace hashes      --hashes  prints them     --json
 */
import { parseArgs } from "node:util";
import { replayLine, runSeed, shrink } from "./run.ts";

const HELP = `rondo sim: runs the engine, its store, workers, network and clocks under seeds, and checks every promise

  --seeds N          so many seeds (200), from --from N (1)
  --seed N           one seed, with its trace (--quiet: without)
  --cluster          2 to 7 nodes over one database (--nodes N: so many)
  --executions N     --without a,b      a smaller run, as a shrunk failure says
  --twice            each seed twice, comparing the traces
  --hashes           prints the hash of each trace
  --bugs             plants known bugs in copies and expects each to be found (--within N seeds, --only NAME, --replay)
  --json             for programs
`;

/** Runs the simulator by command-line arguments; gives the exit code. */
export async function runSim(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: "string" },
      seeds: { type: "string" },
      from: { type: "string" },
      executions: { type: "string" },
      nodes: { type: "string" },
      cluster: { type: "boolean" },
      without: { type: "string" },
      bugs: { type: "boolean" },
      within: { type: "string" },
      only: { type: "string" },
      replay: { type: "boolean" },
      twice: { type: "boolean" },
      first: { type: "boolean" },
      help: { type: "boolean", short: "h" },
      hashes: { type: "boolean" },
      json: { type: "boolean" },
      quiet: { type: "boolean" },
    },
  });
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  for (const name of ["seed", "seeds", "from", "executions", "nodes", "within"] as const) {
    const given = values[name];
    if (given === undefined || /^\d{1,12}$/.test(given)) continue;
    process.stderr.write(`rondo sim: --${name} takes a whole number, not "${given}"\n`);
    return 2;
  }
  if (values.bugs === true) {
    const { huntBugs } = await import("./hunt.ts");
    return huntBugs({
      within: Number(values.within ?? 2_000),
      only: values.only ?? null,
      replay: values.replay === true,
      json: values.json === true,
    });
  }
  if (values.first === true) return runToFirst(Number(values.from ?? 1), Number(values.seeds ?? 2_000));
  const without = values.without?.split(",") ?? [];
  const executions = values.executions === undefined ? undefined : Number(values.executions);
  const nodesOf = (seed: number) =>
    values.nodes !== undefined ? Number(values.nodes) : values.cluster === true ? 2 + (seed % 6) : 0;
  if (values.seed !== undefined)
    return runOne({
      seed: Number(values.seed),
      nodes: nodesOf(Number(values.seed)),
      executions,
      without,
      quiet: values.quiet === true,
    });
  return runMany({
    from: Number(values.from ?? 1),
    seeds: Number(values.seeds ?? 200),
    executions,
    nodesOf,
    without,
    twice: values.twice === true,
    hashes: values.hashes === true,
    json: values.json === true,
  });
}

function runOne(options: {
  seed: number;
  executions: number | undefined;
  nodes: number;
  without: readonly string[];
  quiet: boolean;
}): number {
  const result = runSeed({
    ...options,
    show: options.quiet ? null : (line) => process.stdout.write(`${line}\n`),
  });
  process.stdout.write(
    result.violation === null
      ? `seed ${options.seed}: ok, trace ${result.hash}\n`
      : `seed ${options.seed}: ${result.violation}\n`,
  );
  return result.violation === null ? 0 : 1;
}

/** Runs seeds until one breaks and says which, as JSON: what the hunt for planted bugs asks. */
function runToFirst(from: number, seeds: number): number {
  for (let seed = from; seed < from + seeds; seed++) {
    const { violation } = runSeed({ seed });
    if (violation === null) continue;
    process.stdout.write(`${JSON.stringify({ seed, violation: violation.split("\n")[0] })}\n`);
    return 1;
  }
  process.stdout.write(`${JSON.stringify({ seed: null })}\n`);
  return 0;
}

interface Many {
  readonly from: number;
  readonly seeds: number;
  readonly executions: number | undefined;
  readonly nodesOf: (seed: number) => number;
  readonly without: readonly string[];
  readonly twice: boolean;
  readonly hashes: boolean;
  readonly json: boolean;
}

function runMany(options: Many): number {
  const kinds = new Set<string>();
  let failed = 0;
  for (let seed = options.from; seed < options.from + options.seeds; seed++) {
    const { executions, without } = options;
    const run = { seed, executions, nodes: options.nodesOf(seed), without };
    const result = runSeed(run);
    for (const kind of result.kinds) kinds.add(kind);
    if (options.hashes) process.stdout.write(`${seed} ${result.hash}\n`);
    const again = options.twice ? runSeed(run).hash : result.hash;
    const violation =
      result.violation ?? (again === result.hash ? null : `two runs differ: ${result.hash} and ${again}`);
    if (violation === null) continue;
    failed++;
    process.stdout.write(`seed ${seed}: ${violation.split("\n").slice(0, 4).join("\n")}\n`);
    process.stdout.write(
      `  replay: ${result.violation === null ? `rondo sim --from ${seed} --seeds 1 --twice` : replayLine(shrink(run))}\n`,
    );
  }
  const summary = { seeds: options.seeds, failed, kinds: [...kinds].sort() };
  if (options.json) process.stdout.write(`${JSON.stringify(summary)}\n`);
  else
    process.stdout.write(
      `${options.seeds} seeds from ${options.from}: ${options.seeds - failed} held, ${failed} broke; ${kinds.size} kinds of events seen\n`,
    );
  return failed === 0 ? 0 : 1;
}
