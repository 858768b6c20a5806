/** Scripts that do not end: how long after its time limit the last of them is killed. */

import { openSandboxPool } from "../../../src/worker/sandbox/sandbox-pool.ts";
import { measureKillLatency } from "../kill-latency.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";

export const scriptKill: Scenario = {
  name: "script-kill",
  about: "scripts without an end, killed at their limit",
  goals: [{ figure: "lateMs", label: "ms beyond the limit, the worst", bound: "most", value: 250 }],
  parts: [runKills],
};

async function runKills(bench: Bench): Promise<Figures> {
  // Without a jail the figure is still right, because the parent does the killing.
  const pool = await openSandboxPool({ childrenMax: 1, unsafeNoJail: true });
  try {
    const measured = await measureKillLatency(pool, { repetitions: bench.isShort ? 1 : 5 });
    const others = measured.filter(({ end }) => end !== "killed time");
    if (others.length > 0)
      throw new Error(
        `not killed for their time: ${others.map(({ name, end }) => `${name} (${end})`).join(", ")}`,
      );
    return { ways: measured.length, lateMs: Math.max(...measured.map(({ lateMs }) => lateMs)) };
  } finally {
    await pool.close();
  }
}
