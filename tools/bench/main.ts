/**
 * The bench runs scenarios, each in its own processes, and reports their figures beside the goals and beside the bare disk or
 * database in the same run. Modes: a report for people, `--json`, `--budgets` (fails if a goal is missed by far), `--profile`
 * (shows where the time goes). The bench starts itself with `--part` for a part of a scenario, `--node` for a node of a
 * cluster, `--raw-worker` for a worker at a broker without Rondo, and `--raw-server` for a server without Rondo.
 */
import { realpathSync } from "node:fs";
import { findRabbit } from "./amqp/local-rabbitmq.ts";
import { runRawWorker } from "./amqp/raw-amqp.ts";
import { type Judgement, judge } from "./goals.ts";
import type { ThreadProfile } from "./hot-functions.ts";
import { describeMachine } from "./machine.ts";
import { type BenchOptions, readOptions, USAGE } from "./options.ts";
import { type PartTask, runPart, startPart } from "./part-process.ts";
import { Databases } from "./postgres/databases.ts";
import { findBinaries } from "./postgres/local-postgres.ts";
import { runNode } from "./postgres/node-process.ts";
import { runRawServer } from "./real/raw-server.ts";
import { showFigures, showGoals, showMachine, showProfile } from "./report.ts";
import type { Figures, Scenario } from "./scenario.ts";
import { mediansOf } from "./statistics.ts";
import { Workspace } from "./workspace.ts";

const USAGE_ERROR = 2;

/** Runs the bench with command-line arguments; returns the exit code. */
export async function runBench(args: readonly string[]): Promise<number> {
  const read = readOptions(args);
  const options = typeof read === "object" && read !== null ? withoutMissing(read) : read;
  if (options === null) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (typeof options === "string") {
    process.stderr.write(`rondo bench: ${options}\n\n${USAGE}`);
    return USAGE_ERROR;
  }
  const workspace = Workspace.make(options.directory, options.keep);
  let databases: Databases | null = null;
  const interrupted = (): void => {
    databases?.kill();
    workspace.remove();
    process.exit(130);
  };
  process.once("SIGINT", interrupted);
  try {
    if (options.postgres !== null)
      databases = await Databases.open(options.postgres.url, workspace.directory);
    return await runIn(workspace, databases, options);
  } catch (error) {
    process.stderr.write(`rondo bench: ${(error as Error).message}\n`);
    return 1;
  } finally {
    process.off("SIGINT", interrupted);
    await databases?.close(options.keep);
    workspace.remove();
    if (options.keep) process.stderr.write(`kept in ${workspace.directory}\n`);
  }
}

/** Leaves out jobs of `--real` that need a PostgreSQL or a RabbitMQ which this machine does not have, and says so. */
function withoutMissing(options: BenchOptions): BenchOptions {
  const noDatabase = options.postgres?.url === null && findBinaries() === null;
  const noBroker = (process.env["RABBITMQ_URL"] ?? "") === "" && findRabbit() === null;
  const isMissing = (one: Scenario): boolean =>
    (one.store === "postgres" && noDatabase) || (one.needsRabbit === true && noBroker);
  const missing = options.scenarios.filter(isMissing);
  if (missing.length === 0) return options;
  const what = noDatabase ? (noBroker ? "PostgreSQL and RabbitMQ" : "PostgreSQL") : "RabbitMQ";
  process.stderr.write(
    `left out, since ${what} is not on this machine: ${missing.map(({ name }) => name).join(", ")}\n`,
  );
  const scenarios = options.scenarios.filter((one) => !isMissing(one));
  return { ...options, scenarios, postgres: noDatabase ? null : options.postgres };
}

async function runIn(
  workspace: Workspace,
  databases: Databases | null,
  options: BenchOptions,
): Promise<number> {
  const say = (text: string): unknown => (options.json ? process.stderr : process.stdout).write(`${text}\n`);
  const machine = describeMachine(workspace, databases?.about ?? null);
  say(showMachine(machine));
  if (workspace.isInMemory) say("This file system is in memory: figures mean little. Use --store file:DIR.");
  const figures = new Map<string, Figures>();
  const judgements: Judgement[] = [];
  let hasFailed = false;
  for (const scenario of options.scenarios) {
    try {
      const found = await runTimes(scenario, { workspace, databases }, options);
      figures.set(scenario.name, found.figures);
      judgements.push(...judge(scenario.name, scenario.goals, found.figures, machine.slowness));
      for (const profile of found.profiles) say(`\n${showProfile(scenario.name, profile)}`);
    } catch (error) {
      hasFailed = true;
      process.stderr.write(`rondo bench: ${(error as Error).message}\n`);
    }
  }
  if (judgements.length > 0) say(`\n${showGoals(judgements, figures)}`);
  if (figures.size > 0 && !options.budgets) say(`\n${showFigures(options.scenarios, figures)}`);
  if (options.json)
    process.stdout.write(
      `${JSON.stringify({ machine, short: options.short, ...Object.fromEntries(figures), goals: judgements })}\n`,
    );
  const isBroken = options.budgets && judgements.some(({ verdict }) => verdict === "broken");
  return hasFailed || isBroken ? 1 : 0;
}

/** Runs a scenario as often as it says, each time from nothing. */
async function runTimes(
  scenario: Scenario,
  places: { workspace: Workspace; databases: Databases | null },
  options: BenchOptions,
): Promise<{ figures: Figures; profiles: readonly ThreadProfile[] }> {
  const { times = 1 } = scenario;
  const runs: { figures: Figures; profiles: readonly ThreadProfile[] }[] = [];
  for (let i = 0; i < times; i++) runs.push(await runScenario(scenario, places, options));
  return {
    figures: mediansOf(runs.map(({ figures }) => figures)),
    profiles: runs.flatMap(({ profiles }) => profiles),
  };
}

async function runScenario(
  scenario: Scenario,
  { workspace, databases }: { workspace: Workspace; databases: Databases | null },
  options: BenchOptions,
): Promise<{ figures: Figures; profiles: readonly ThreadProfile[] }> {
  const directory = workspace.directoryFor(scenario.name);
  const database = scenario.store === "file" ? null : ((await databases?.make(scenario.name)) ?? null);
  process.stderr.write(`${scenario.name}: ${scenario.about}\n`);
  let figures: Figures = {};
  const profiles: ThreadProfile[] = [];
  for (let part = 0; part < scenario.parts.length; part++) {
    const { short, profile } = options;
    const task = { scenario: scenario.name, part, directory, database, short, profile };
    const result = await startPart(import.meta.filename, task);
    profiles.push(...result.profiles);
    const peakRssMb = Math.max(peakOf(figures), peakOf(result.figures));
    figures = { ...figures, ...result.figures, peakRssMb };
  }
  if (database !== null && !options.keep) await databases?.drop(database);
  workspace.release(directory);
  return { figures, profiles };
}

function peakOf(figures: Figures): number {
  const { peakRssMb } = figures;
  return typeof peakRssMb === "number" ? peakRssMb : 0;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === import.meta.filename) {
  const [first, second] = process.argv.slice(2);
  if (first === "--raw-server") runRawServer();
  else if (first === "--raw-worker") await runRawWorker(second ?? "");
  else if (first === "--node") await runNode(second ?? "");
  else if (first === "--part") await runPart(JSON.parse(second ?? "null") as PartTask);
  else process.exitCode = await runBench(process.argv.slice(2));
}
