/**
 * A drill: executions of one handler with a limit, on three nodes, of which one dies every 7 s for 8 minutes. Times are a tenth
 * of the real ones (a lease of 10 s, a heartbeat of 30 s). The handler never exceeds its limit. While no living node has an
 * attempt open, the next one begins within a lease and a heartbeat.
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
/** The quota server may die at the end of the wait: the next one begins a lease later. The rest is for commits, messages and polls. */
const MORE_MS = 1_000 + 500;
const LOOK_EVERY_MS = 10;
/** More tasks than can be done while nodes die. */
const TASKS = 200;
const EXECUTIONS = 6;
const NODES = 3;
const SILENCE: readonly Fault[] = ["frozen-workers"];

/**
 * The world of a seed's drill. The limit is 7 for an even seed, else 1. For every fourth seed, a project with a limit of 1 takes
 * part. For every fifth one, workers are silent now and then, for longer than a heartbeat.
 */
export function drillWorld(seed: number, show: ((line: string) => void) | null): World {
  const concurrency = seed % 2 === 0 ? 7 : 1;
  const isSilent = seed % 5 === 3;
  const projects = seed % 4 === 0 ? ["default", "other"] : ["default"];
  const tasks = Array.from({ length: TASKS }, (_, i) => i);
  const handlers = { h: { use: "lim.do", tasks, concurrency, retry: { crashes: 50 } } };
  const definition = parseDefinition({ rondo: 1, name: "lim", phases: [{ name: "p0", handlers }] });
  const world = new World({
    seed,
    executions: EXECUTIONS,
    nodes: NODES,
    faults: new Set<Fault>(["lost-replies", "lost-messages", ...(isSilent ? SILENCE : [])]),
    show,
    drill: {
      plan: compilePlan(unwrap(definition)),
      deathEveryMs: DEATH_EVERY_MS,
      awayMs: AWAY_MS,
      lastsMs: LASTS_MS,
      projects,
    },
  });
  // Silent workers take no work. A node may die when it has just got the only permit: then there is one more wait.
  const waits = concurrency === 1 || projects.length > 1 ? 2 : 1;
  if (!isSilent) watch(world, waits * LEASE_AND_HEARTBEAT_MS + MORE_MS);
  return world;
}

/** Checks, from the first attempt on, that it is never longer than this that no living node has an attempt open. */
function watch(world: World, idleMaxMs: number): void {
  const { timeline } = world;
  const endsAt = timeline.now + LASTS_MS;
  let busyAt = Number.POSITIVE_INFINITY;
  const look = () => {
    const isBusy = world.site.hosts.some((host) => host.openUnder(() => true).size > 0);
    if (isBusy) busyAt = timeline.now;
    const idleMs = timeline.now - busyAt;
    must(idleMs <= idleMaxMs, `no living node has had an attempt open for ${idleMs} ms`);
    if (timeline.now < endsAt) timeline.after(LOOK_EVERY_MS, look);
  };
  look();
}
