/** All scenarios, in the order in which they run: over files, over PostgreSQL, and with a broker. */
import {
  chainLatency,
  chains,
  fanOut,
  first,
  starts as realStarts,
  steps,
  visits,
} from "./real/in-process.ts";
import { scenariosOf } from "./real/job.ts";
import { retried, stored } from "./real/large.ts";
import { nodeScenarios } from "./real/nodes.ts";
import { rabbitJobs } from "./real/rabbit.ts";
import { server } from "./real/server.ts";
import type { Scenario } from "./scenario.ts";
import { amqp } from "./scenarios/amqp-tasks.ts";
import { chain, latency } from "./scenarios/chain.ts";
import { fanout, million, retries } from "./scenarios/fan-out.ts";
import { httpLatency, httpWorkers } from "./scenarios/http-idle.ts";
import { httpFollowers, httpTasks } from "./scenarios/http-tasks.ts";
import { pgIdle, pgTakeover, pgTwoNodes } from "./scenarios/pg-nodes.ts";
import { pgChain, pgFanout, pgLatency, pgStarts } from "./scenarios/pg-rates.ts";
import { scriptKill } from "./scenarios/script-kill.ts";
import { idle, starts, timers } from "./scenarios/waiting.ts";

export const FILE_SCENARIOS: readonly Scenario[] = [
  fanout,
  million,
  retries,
  chain,
  latency,
  starts,
  timers,
  idle,
  httpTasks,
  httpFollowers,
  httpLatency,
  httpWorkers,
  scriptKill,
];

export const POSTGRES_SCENARIOS: readonly Scenario[] = [
  pgFanout,
  pgChain,
  pgLatency,
  pgStarts,
  pgTwoNodes,
  pgTakeover,
  pgIdle,
];

/** These run only if they are named, because not every machine has RabbitMQ. */
export const BROKER_SCENARIOS: readonly Scenario[] = [amqp];

/** The jobs of `--real`, over an embedded store and over PostgreSQL. */
export const REAL_SCENARIOS: readonly Scenario[] = [
  ...[
    fanOut,
    first,
    chains,
    chainLatency,
    steps,
    realStarts,
    server,
    ...rabbitJobs,
    visits,
    retried,
    stored,
  ].flatMap(scenariosOf),
  ...nodeScenarios,
];

/** The budgets: these jobs of `--real` over a file, and the scenarios that measure more than such a job does. */
const BUDGET_JOBS: readonly string[] = ["fan-out", "chains", "chain", "starts"];
export const BUDGET_SCENARIOS: readonly Scenario[] = [
  ...[million, retries, timers, httpTasks, httpLatency, scriptKill],
  ...REAL_SCENARIOS.filter((one) => one.store === "file" && BUDGET_JOBS.includes(one.job as string)),
];

export function scenarioNamed(name: string): Scenario | undefined {
  return [...FILE_SCENARIOS, ...POSTGRES_SCENARIOS, ...BROKER_SCENARIOS, ...REAL_SCENARIOS].find(
    (scenario) => scenario.name === name,
  );
}
