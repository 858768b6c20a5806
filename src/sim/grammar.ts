/** Random workflows: small definitions that between them reach every rule of the kernel. */
import { parseDefinition } from "../kernel/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/plan.ts";
import { assert } from "../std/assert.ts";
import type { SeededRandom } from "../std/random.ts";
import { isRejection } from "../std/rejection.ts";

/** A random workflow that is valid by construction. */
export function randomPlan(random: SeededRandom, name: string): Plan {
  const count = random.between(1, 4);
  const names = Array.from({ length: count }, (_, i) => `p${i}`);
  const hasRepair = random.chance(0.4);
  const phases: Record<string, unknown>[] = names.map((phase, i) => ({
    name: phase,
    handlers: randomHandlers(random, name, phase),
    ...randomNext(random, { name, names, i }),
    ...(hasRepair && random.chance(0.7) ? { onError: "repair" } : {}),
  }));
  const last = phases.at(-1) as Record<string, unknown>;
  if (hasRepair) {
    if (last["next"] === undefined) last["final"] = true;
    phases.push({
      name: "repair",
      handlers: randomHandlers(random, name, "repair"),
      ...(random.chance(0.5) ? { final: "failed" } : {}),
    });
  }
  const data = {
    rondo: 1,
    name,
    phases,
    ...(random.chance(0.5) ? { returns: { use: `${name}.returns` } } : {}),
  };
  const parsed = parseDefinition(data);
  assert(!isRejection(parsed), `the grammar makes valid definitions: ${JSON.stringify(parsed)}`);
  return compilePlan(parsed);
}

function randomNext(
  random: SeededRandom,
  at: { name: string; names: readonly string[]; i: number },
): Record<string, unknown> {
  const phase = at.names[at.i] as string;
  if (random.chance(0.2)) {
    const among = [...new Set([random.pick(at.names), at.names.at(-1) as string])];
    return { next: { use: `${at.name}.${phase}.next`, among }, maxVisits: random.between(1, 3) };
  }
  if (random.chance(0.1) && at.i + 2 < at.names.length) return { next: at.names[at.i + 2] };
  return {};
}

function randomHandlers(random: SeededRandom, workflow: string, phase: string): Record<string, unknown> {
  const count = random.pick([0, 1, 1, 1, 2, 3]);
  const handlers: Record<string, unknown> = {};
  for (let i = 0; i < count; i++) handlers[`h${i}`] = randomHandler(random, `${workflow}.${phase}.h${i}`);
  return handlers;
}

function randomHandler(random: SeededRandom, use: string): Record<string, unknown> {
  const dice = random.below(10);
  if (dice === 0) return { sleep: random.pick([0, 50, 500, 5_000]) };
  if (dice === 1)
    return {
      waitFor: random.pick(["go", "stop"]),
      ...(random.chance(0.5) ? { timeout: random.pick([100, 2_000]), optional: random.chance(0.5) } : {}),
    };
  const options = randomOptions(random);
  if (dice <= 3) return { use, ...options };
  if (dice === 4)
    return { use, tasks: Array.from({ length: random.below(5) }, (_, i) => ({ listed: i })), ...options };
  return {
    use,
    enumerate: { use: random.chance(0.8) ? use : `${use}-list` },
    ...(random.chance(0.3) ? { identity: "/id" } : {}),
    ...randomLimits(random),
    ...options,
  };
}

function randomLimits(random: SeededRandom): Record<string, unknown> {
  return random.chance(0.3) ? { key: "/key", concurrencyPerKey: random.between(1, 2) } : {};
}

function randomOptions(random: SeededRandom): Record<string, unknown> {
  return {
    retry: {
      attempts: random.between(1, 4),
      crashes: random.between(2, 4),
      min: random.pick([0, 10, 200]),
      max: random.pick([200, 1_000]),
      backoff: random.pick(["exponential", "constant"]),
    },
    heartbeat: random.pick([300, 1_000]),
    ...(random.chance(0.3) ? { tolerate: random.pick([1, 2, "50%"]) } : {}),
    ...(random.chance(0.3) ? { concurrency: random.between(1, 3) } : {}),
    ...(random.chance(0.2) ? { priority: random.between(-1, 2) } : {}),
  };
}
