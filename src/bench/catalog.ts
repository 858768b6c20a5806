/** All scenarios, in the order in which they run. */
import type { Scenario } from "./scenario.ts";
import { chain, latency } from "./scenarios/chain.ts";
import { fanout, million, retries } from "./scenarios/fan-out.ts";
import { httpLatency, httpWorkers } from "./scenarios/http-idle.ts";
import { httpFollowers, httpTasks } from "./scenarios/http-tasks.ts";
import { scriptKill } from "./scenarios/script-kill.ts";
import { idle, starts, timers } from "./scenarios/waiting.ts";

export const SCENARIOS: readonly Scenario[] = [
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

export function scenarioNamed(name: string): Scenario | undefined {
  return SCENARIOS.find((scenario) => scenario.name === name);
}
