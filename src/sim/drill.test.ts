// A handler with a limit in a cluster whose nodes die one after another: it goes on, and never runs more than it may.
// Times are a tenth of the real ones: a lease of 10 s, a heartbeat of 30 s, a death every 7 s for 8 minutes.
import { expect, test } from "vitest";
import { effort } from "../../test/tools/long.ts";
import { parseDefinition } from "../kernel/parse-definition.ts";
import { compilePlan } from "../kernel/plan.ts";
import { unwrap } from "../std/rejection.ts";
import type { Fault } from "./faults.ts";
import { World } from "./world.ts";

const LEASE_AND_HEARTBEAT_MS = 1_000 + 3_000;
const DRILL_MS = 48_000;
/** Seeds whose handlers neither fail nor wait by themselves. */
const SEEDS = [2, 3, 5, 9].slice(0, effort({ usual: 1, long: 4 }));

/** The times, since the beginning, at which attempts began under the limit. */
function begun(seed: number, limit: number): number[] {
  const tasks = Array.from({ length: 200 }, (_, i) => ({ id: i }));
  const handlers = { h: { use: "lim.do", tasks, concurrency: limit, retry: { crashes: 50 } } };
  const definition = parseDefinition({ rondo: 1, name: "lim", phases: [{ name: "p0", handlers }] });
  const drill = {
    plan: compilePlan(unwrap(definition)),
    deathEveryMs: 700,
    awayMs: 200,
    healAtMs: DRILL_MS,
  };
  const faults = new Set<Fault>(["lost-replies", "lost-messages"]);
  const world = new World({ seed, executions: 6, nodes: 3, faults, show: null, drill });
  const start = world.timeline.now;
  const times: number[] = [];
  world.onRun = () => times.push(world.timeline.now - start);
  world.run();
  return times.filter((at) => at < DRILL_MS);
}

test.each([1, 7])(
  "a limit of %i with a node death every 7 s: no long stretch without an attempt",
  (limit) => {
    for (const seed of SEEDS) {
      const times = begun(seed, limit);
      const gaps = times.map((at, i) => at - (times[i - 1] ?? 0));
      // Partitions change hands as well: that takes a lease at a time.
      expect(Math.max(...gaps, DRILL_MS - (times.at(-1) ?? 0))).toBeLessThan(2 * LEASE_AND_HEARTBEAT_MS);
      expect(times.length).toBeGreaterThan(40);
    }
  },
);
