// A build as a graph of 300 steps in one phase: a step begins when the steps that it needs are done. The first step finds the
// others and adds them. Each step takes its time, so the critical path is known: the longest way through the graph.
import { setTimeout } from "node:timers/promises";
import { workflow } from "rondo";

interface Step {
  readonly name: string;
  readonly ms: number;
  readonly needs: readonly string[];
}

/** Steps in layers of ten; each needs one to three steps of the layer before. */
function stepsOf(count: number): Step[] {
  return Array.from({ length: count }, (_, i) => {
    const layer = Math.floor(i / 10);
    const needed = [i * 7, i * 3 + 1, i + 5].slice(0, 1 + (i % 3)).map((n) => (layer - 1) * 10 + (n % 10));
    return {
      name: `step-${i}`,
      ms: 20 + ((i * 37) % 60),
      needs: layer === 0 ? ["plan"] : [...new Set(needed)].map((n) => `step-${n}`),
    };
  });
}

/** When the last step is done if every step begins as soon as it can. */
function criticalPath(steps: readonly Step[]): number {
  const ends = new Map([["plan", 0]]);
  for (const { name, ms, needs } of steps)
    ends.set(name, ms + Math.max(...needs.map((need) => ends.get(need) ?? 0)));
  return Math.max(...ends.values());
}

export const build = workflow<{ steps: number }>({ name: "build" })
  .phase("build", {
    enumerate: (): Step[] => [{ name: "plan", ms: 0, needs: [] }],
    identity: ({ name }) => name,
    after: ({ needs }) => needs,
    adds: true,
    process: async ({ task: { name, ms }, input, add, now }) => {
      if (name === "plan") add(...stepsOf(input.steps));
      const startedAt = now();
      await setTimeout(ms);
      return { name, startedAt, endedAt: now() };
    },
  })
  .returns(async ({ phases, input }) => {
    const steps = stepsOf(input.steps);
    const times = new Map<string, { startedAt: number; endedAt: number }>();
    for await (const { name, ...time } of phases.build.results()) times.set(name, time);
    const isEarly = ({ name, needs }: Step) =>
      needs.some((need) => (times.get(need)?.endedAt ?? 0) > (times.get(name)?.startedAt ?? 0));
    const all = [...times.values()];
    const took =
      Math.max(...all.map(({ endedAt }) => endedAt)) - Math.min(...all.map(({ startedAt }) => startedAt));
    const path = criticalPath(steps);
    return {
      steps: phases.build.count - 1,
      early: steps.filter(isEarly).length,
      criticalPathMs: path,
      ratio: Number((took / path).toFixed(2)),
    };
  });
