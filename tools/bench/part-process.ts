/**
 * Runs one part of a scenario in its own process, so that it has its own peak memory and starts cold. Both sides are here: the
 * parent starts the bench's main module again with `--part` and a `PartTask`; the child answers with one message and is killed.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { scenarioNamed } from "./catalog.ts";
import { type CpuProfile, hotFunctions, type ThreadProfile } from "./hot-functions.ts";
import { Profiler } from "./profiler.ts";
import type { Figures } from "./scenario.ts";

const HOTTEST = 15;

export interface PartTask {
  readonly scenario: string;
  readonly part: number;
  readonly directory: string;
  readonly database: string | null;
  readonly short: boolean;
  readonly profile: boolean;
}

export interface PartResult {
  readonly figures: Figures;
  readonly profiles: readonly ThreadProfile[];
}

type PartAnswer =
  | { readonly kind: "done"; readonly result: PartResult }
  | { readonly kind: "failed"; readonly why: string };

/** Runs a part in a new process; throws the child's error. */
export async function startPart(mainModule: string, task: PartTask): Promise<PartResult> {
  // The child's stdout goes to stderr, because stdout is for the report alone.
  const child = fork(mainModule, ["--part", JSON.stringify(task)], {
    execArgv: [...(scenarioNamed(task.scenario)?.flags ?? [])],
    stdio: ["ignore", 2, 2, "ipc"],
  });
  let answer: PartAnswer | null = null;
  child.on("message", (message) => {
    answer = message as PartAnswer;
    child.kill("SIGKILL");
  });
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  const answered = answer as PartAnswer | null;
  if (answered === null) throw new Error(`${task.scenario} ended without an answer (${code ?? signal})`);
  if (answered.kind === "failed") throw new Error(`${task.scenario}: ${answered.why}`);
  return answered.result;
}

/** The child's side: runs the part, answers, and waits to be killed. */
export async function runPart(task: PartTask): Promise<void> {
  let answer: PartAnswer;
  try {
    answer = { kind: "done", result: await measure(task) };
  } catch (error) {
    answer = { kind: "failed", why: (error as Error).stack ?? String(error) };
  }
  process.send?.(answer);
}

async function measure(task: PartTask): Promise<PartResult> {
  const part = scenarioNamed(task.scenario)?.parts[task.part];
  if (part === undefined) throw new Error("there is no such part");
  const profiler = task.profile ? new Profiler() : null;
  await profiler?.attach();
  const figures = await part({
    directory: task.directory,
    database: task.database,
    isShort: task.short,
    isProfiled: task.profile,
    progress: (text) => process.stderr.write(`${task.scenario}: ${text}\n`),
    section: (run) => profiler?.section(run) ?? run(),
  });
  const peakRssMb = process.resourceUsage().maxRSS / 1_024;
  return {
    figures: { ...figures, peakRssMb },
    profiles:
      profiler === null
        ? []
        : [...profilesOf(profiler, task.directory), ...profilesOfProcesses(task.directory)],
  };
}

function profilesOf(profiler: Profiler, directory: string): ThreadProfile[] {
  const threads = [
    ["main thread", "main", profiler.main],
    ["store thread", "store", profiler.store],
  ] as const;
  return threads.flatMap(([thread, file, profiles]) => {
    if (profiles.length === 0) return [];
    profiles.forEach((profile, i) =>
      writeFileSync(join(directory, `${file}-${i}.cpuprofile`), JSON.stringify(profile)),
    );
    return [hotFunctions(thread, profiles, HOTTEST)];
  });
}

/** The profiles of processes that the part has started: a folder for each process, a file for each thread. */
function profilesOfProcesses(directory: string): ThreadProfile[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".cpuprofile") && entry.parentPath !== directory)
    .map(({ name, parentPath }) => {
      const profile = JSON.parse(readFileSync(join(parentPath, name), "utf8")) as CpuProfile;
      return hotFunctions(`${basename(parentPath)} ${name}`, [profile], HOTTEST);
    });
}
