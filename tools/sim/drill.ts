/**
 * A drill: executions of one handler with a limit, on three nodes, of which one dies every 7 s for 8 minutes. Times are a tenth
 * of the real ones (a lease of 10 s, a heartbeat of 30 s). The handler must make progress, and never exceed its limit.
 */
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { compilePlan } from "../../src/kernel/definition/plan.ts";
import { unwrap } from "../../src/std/rejection.ts";
import type { Fault } from "./faults.ts";
import { must } from "./trace.ts";
import { World } from "./world.ts";

const LASTS_MS = 48_000;
const DEATH_EVERY_MS = 700;
const AWAY_MS = 200;
const LEASE_AND_HEARTBEAT_MS = 1_000 + 3_000;
/** More tasks than can be done while nodes die. */
const TASKS = 200;
const EXECUTIONS = 6;
const NODES = 3;

/** The world of a seed's drill. The limit is 7 for an even seed, else 1. */
export function drillWorld(seed: number, show: ((line: string) => void) | null): World {
  const concurrency = seed % 2 === 0 ? 7 : 1;
  const tasks = Array.from({ length: TASKS }, (_, i) => i);
  const handlers = { h: { use: "lim.do", tasks, concurrency, retry: { crashes: 50 } } };
  const definition = parseDefinition({ rondo: 1, name: "lim", phases: [{ name: "p0", handlers }] });
  const world: World = new World({
    seed,
    executions: EXECUTIONS,
    nodes: NODES,
    faults: new Set<Fault>(["lost-replies", "lost-messages"]),
    show,
    drill: {
      plan: compilePlan(unwrap(definition)),
      deathEveryMs: DEATH_EVERY_MS,
      awayMs: AWAY_MS,
      lastsMs: LASTS_MS,
      onAttempt: () => {
        const idleMs = Math.min(world.timeline.now, endsAt) - lastAt;
        // Partitions move too, and each move takes up to a lease.
        must(idleMs <= 3 * LEASE_AND_HEARTBEAT_MS, `no attempt began for ${idleMs} ms`);
        lastAt = world.timeline.now;
      },
    },
  });
  let lastAt = world.timeline.now;
  const endsAt = lastAt + LASTS_MS;
  return world;
}
