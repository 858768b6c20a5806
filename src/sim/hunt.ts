/**
 * `rondo sim --bugs`: does the simulator find what it is for? Copies the compiled code, plants one bug at a time,
 * and runs seeds until one breaks, which must hold on the code as it is. With `--replay` it begins at the seed that is
 * known to find the bug and goes a little further only: a change of the engine moves what a seed does.
 */
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PLANTED_BUGS, type PlantedBug } from "./bugs.ts";
import { CLUSTER_BUGS } from "./cluster-bugs.ts";
import { COMMAND_BUGS } from "./command-bugs.ts";
import { DAMAGE_BUGS } from "./damage-bugs.ts";
import { nodesOf, runSeed } from "./run.ts";
import { WORKER_BUGS } from "./worker-bugs.ts";

/** Seeds from the known one on that are tried at a replay. */
const REPLAY_WITHIN = 60;
const WITHIN = 2_000;

interface HuntOptions {
  /** So many seeds at most; null: as is usual. */
  readonly within: number | null;
  readonly only: string | null;
  readonly replay: boolean;
  readonly json: boolean;
  /** Only those of a cluster. */
  readonly cluster: boolean;
}

interface Found {
  readonly name: string;
  readonly seed: number | null;
  readonly violation: string;
}

/** Hunts each planted bug; 0 if all are found. */
export async function huntBugs(options: HuntOptions): Promise<number> {
  const bugs = [...PLANTED_BUGS, ...WORKER_BUGS, ...COMMAND_BUGS, ...DAMAGE_BUGS, ...CLUSTER_BUGS].filter(
    ({ name, cluster }) =>
      (options.only === null || name.includes(options.only)) && (!options.cluster || cluster === true),
  );
  if (bugs.length === 0) {
    process.stderr.write(`no planted bug is called "${options.only}"\n`);
    return 2;
  }
  const compiled = fileURLToPath(new URL("..", import.meta.url));
  // Beside the compiled code, so that its imports resolve as they do there.
  const copies = await mkdtemp(join(compiled, "..", ".rondo-bugs-"));
  const found: Found[] = [];
  try {
    const queue = [...bugs];
    const hunters = Array.from({ length: Math.min(availableParallelism(), bugs.length) }, async (_, i) => {
      const copy = join(copies, String(i));
      await cp(compiled, copy, { recursive: true, filter: isRun });
      for (let bug = queue.shift(); bug !== undefined; bug = queue.shift()) {
        const result = await hunt(bug, copy, options);
        found.push(result);
        if (!options.json)
          process.stdout.write(
            `${result.seed === null ? "MISSED" : "found "} ${bug.name}${result.seed === null ? "" : ` (seed ${result.seed})`}: ${result.violation}\n`,
          );
      }
    });
    await Promise.all(hunters);
  } finally {
    await rm(copies, { recursive: true, force: true });
  }
  const missed = found.filter(({ seed }) => seed === null);
  if (options.json)
    process.stdout.write(`${JSON.stringify({ bugs: bugs.length, missed: missed.length, found })}\n`);
  else process.stdout.write(`${bugs.length} bugs planted, ${bugs.length - missed.length} found\n`);
  return missed.length === 0 ? 0 : 1;
}

/** Only what is run is copied. */
function isRun(source: string): boolean {
  return !/\.(d\.ts|map)$/.test(source);
}

/** Plants the bug in the copy, and takes it out again when it is found. */
async function hunt(bug: PlantedBug, copy: string, options: HuntOptions): Promise<Found> {
  const { name } = bug;
  const clean = new Map<string, string>();
  const planted = new Map<string, string>();
  for (const { file = bug.file, find, replace } of bug.also === undefined ? [bug] : [bug, bug.also]) {
    const code = planted.get(file) ?? (await readFile(join(copy, file), "utf8"));
    if (!code.includes(find))
      return { name, seed: null, violation: `it does not fit ${file} any more: "${find}"` };
    if (!clean.has(file)) clean.set(file, code);
    planted.set(file, code.replaceAll(find, replace));
  }
  const cluster = bug.cluster === true;
  const from = options.replay ? bug.seed : 1;
  const seeds = options.within ?? (options.replay ? REPLAY_WITHIN : WITHIN);
  for (const [file, code] of planted) await writeFile(join(copy, file), code);
  const said = await search(join(copy, "sim", "main.js"), { from, seeds, cluster });
  for (const [file, code] of clean) await writeFile(join(copy, file), code);
  const { seed, violation = `not found within ${seeds} seeds from ${from}` } = said;
  if (seed === null) return { name, seed, violation };
  const without = runSeed({ seed, nodes: cluster ? nodesOf(seed) : 0 }).violation;
  if (without === null) return { name, seed, violation };
  return { name, seed: null, violation: `seed ${seed} breaks without the bug too: ${without}` };
}

async function search(
  main: string,
  { from, seeds, cluster }: { from: number; seeds: number; cluster: boolean },
): Promise<{ seed: number | null; violation?: string }> {
  try {
    const args = ["--first", "--from", String(from), "--seeds", String(seeds)];
    return JSON.parse(await run(main, cluster ? [...args, "--cluster"] : args));
  } catch (thrown) {
    return { seed: null, violation: (thrown as Error).message };
  }
}

/** Runs a copy's simulator in a process of its own; gives the last line it printed. */
function run(main: string, args: readonly string[]): Promise<string> {
  const program = `const { runSim } = await import(${JSON.stringify(main)}); process.exitCode = await runSim(${JSON.stringify(args)});`;
  return new Promise((resolve, fail) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
    });
    child.on("error", fail);
    child.on("close", (code) => {
      const last = out.trim().split("\n").at(-1);
      if (last === undefined || last === "")
        fail(new Error(`the simulator ended with ${code} and said nothing`));
      else resolve(last);
    });
  });
}
