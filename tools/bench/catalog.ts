/** All scenarios, in the order in which they run: over files, over PostgreSQL, and with a broker. */
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

export function scenarioNamed(name: string): Scenario | undefined {
  return [...FILE_SCENARIOS, ...POSTGRES_SCENARIOS, ...BROKER_SCENARIOS].find(
    (scenario) => scenario.name === name,
  );
}
