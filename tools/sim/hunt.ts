/**
 * `rondo sim --bugs`: checks that the simulator finds bugs. It copies the compiled code, plants one bug at a time, and runs
 * seeds until one breaks that passes on the original code. With `--replay` it starts at the seed that is known to find the bug
 * and tries only a few more, because a change of the engine changes what a seed does.
 */
import { spawn } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PLANTED_BUGS, type PlantedBug } from "./bugs.ts";
import { findPlaces, type Places, plant } from "./plant.ts";
import { MODES, modesOf, nodesOf, runAnySeed } from "./run.ts";
import { TALKING_FROM } from "./workload/program.ts";

/** The number of seeds that a replay tries. */
const REPLAY_WITHIN = 60;
const WITHIN = 2_000;

interface HuntOptions {
  /** The most seeds to try; null for the default. */
  readonly within: number | null;
  readonly only: string | null;
  readonly replay: boolean;
  readonly json: boolean;
  /** Whether to hunt only the bugs of a cluster. */
  readonly cluster: boolean;
  /** Which share of the bugs to hunt: 3 is every third bug, beginning with the first; 1 is all. */
  readonly every: number;
}

interface Found {
  readonly name: string;
  readonly seed: number | null;
  readonly violation: string;
}

/** Hunts each planted bug; returns 0 if all are found. */
export async function huntBugs(options: HuntOptions): Promise<number> {
  const bugs = PLANTED_BUGS.filter(
    ({ name, cluster }) =>
      (options.only === null || name.includes(options.only)) && (!options.cluster || cluster === true),
  ).filter((_, i) => i % options.every === 0);
  if (bugs.length === 0) {
    process.stderr.write(`no planted bug is called "${options.only}"\n`);
    return 2;
  }
  const compiled = fileURLToPath(new URL("../..", import.meta.url));
  // Beside the compiled code, so that imports resolve the same way.
  const copies = await mkdtemp(join(compiled, "..", ".rondo-bugs-"));
  const found: Found[] = [];
  try {
    const queue = [...bugs];
    const hunters = Array.from({ length: Math.min(availableParallelism(), bugs.length) }, async (_, i) => {
      const copy = await copyOf(compiled, join(copies, String(i)));
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

/** Only code that is run is copied. */
function isRun(source: string): boolean {
  return !/\.(d\.ts|map)$/.test(source);
}

/** Plants the bug in the copy, and removes it when it is found. */
async function hunt(bug: PlantedBug, copy: Copy, options: HuntOptions): Promise<Found> {
  const { name, cluster = false } = bug;
  const modes = modesOf(bug);
  let planted: Map<string, string>;
  try {
    planted = plant(bug, copy.places);
  } catch (thrown) {
    return { name, seed: null, violation: (thrown as Error).message };
  }
  const from = (bug.talk === true ? TALKING_FROM : 0) + (options.replay ? bug.seed : 1);
  const seeds = options.within ?? (options.replay ? REPLAY_WITHIN : WITHIN);
  for (const [file, code] of planted) await writeFile(file, code);
  const asked = MODES.filter((mode) => modes[mode] === true).map((mode) => `--${mode}`);
  const args = [
    "--from",
    String(from),
    "--seeds",
    String(seeds),
    ...asked,
    ...(cluster ? ["--cluster"] : []),
  ];
  const said = await search(join(copy.folder, "tools", "sim", "main.js"), args);
  for (const { file, code } of copy.places.values()) if (planted.has(file)) await writeFile(file, code);
  const { seed, violation = `not found within ${seeds} seeds from ${from}` } = said;
  if (seed === null) return { name, seed, violation };
  const { violation: without } = await runAnySeed({ seed, nodes: cluster ? nodesOf(seed) : 0, ...modes });
  if (without === null) return { name, seed, violation };
  return { name, seed: null, violation: `seed ${seed} breaks without the bug too: ${without}` };
}

/** A copy of the compiled code. */
interface Copy {
  readonly folder: string;
  readonly places: Places;
}

/** Copies only the folders of the present build: an older build may have left others. */
async function copyOf(compiled: string, folder: string): Promise<Copy> {
  for (const room of ["src", "tools"])
    await cp(join(compiled, room), join(folder, room), { recursive: true, filter: isRun });
  return { folder, places: await findPlaces(folder) };
}

async function search(
  main: string,
  args: readonly string[],
): Promise<{ seed: number | null; violation?: string }> {
  try {
    return JSON.parse(await run(main, ["--first", ...args]));
  } catch (thrown) {
    return { seed: null, violation: (thrown as Error).message };
  }
}

/** Runs a copy's simulator in its own process; returns its last line. */
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
