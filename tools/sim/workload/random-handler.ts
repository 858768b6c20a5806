/** Random handlers: code, scripts, sleeps, waits and children, with every option that changes the engine's behaviour. */
import type { SeededRandom } from "../../../src/std/random.ts";
import { RANGES } from "./versions.ts";

/** A handler with the code `use`; it may name one of the child workflows. */
export function randomHandler(
  random: SeededRandom,
  use: string,
  children: readonly string[],
): Record<string, unknown> {
  const dice = random.below(14);
  if (dice === 0) return { sleep: random.pick([0, 50, 500, 5_000]) };
  if (dice === 1)
    return {
      waitFor: random.pick(["go", "stop"]),
      ...(random.chance(0.5) ? { timeout: random.pick([100, 2_000]), optional: random.chance(0.5) } : {}),
    };
  if (dice <= 3 && children.length > 0) return randomChildren(random, use, children);
  const code = dice === 4 ? randomScript(random) : { use, ...randomVersion(random) };
  const options = { ...code, ...randomOptions(random), ...randomRate(random) };
  if (dice <= 6) return options;
  if (dice === 7) return { ...options, tasks: listed(random, 5) };
  return {
    ...options,
    enumerate: { use: dice !== 4 && random.chance(0.8) ? use : `${use}-list` },
    ...(random.chance(0.3) ? { identity: "/id" } : {}),
    ...(random.chance(0.3) ? { key: "/key", concurrencyPerKey: random.between(1, 2) } : {}),
    ...(random.chance(0.2) ? { batch: random.between(2, 5) } : {}),
  };
}

function listed(random: SeededRandom, below: number): unknown[] {
  return Array.from({ length: random.below(below) }, (_, i) => ({ listed: i }));
}

function randomChildren(
  random: SeededRandom,
  use: string,
  children: readonly string[],
): Record<string, unknown> {
  const tasks = random.pick(["implied", "implied", "listed", "enumerated"] as const);
  return {
    workflow: random.pick(children),
    retry: { attempts: random.between(1, 3), min: random.pick([0, 10, 200]), max: 200 },
    ...(tasks === "listed" ? { tasks: listed(random, 4) } : {}),
    ...(tasks === "enumerated" ? { enumerate: { use: `${use}-list` }, heartbeat: 300 } : {}),
    ...(random.chance(0.3) ? { tolerate: random.pick([1, "50%"]) } : {}),
    ...(random.chance(0.5) ? { concurrency: random.between(1, 2) } : {}),
  };
}

function randomScript(random: SeededRandom): Record<string, unknown> {
  return {
    script: Array.from({ length: random.between(1, 3) }, (_, i) => ({ name: `r${i}`, expression: "s => s" })),
    ...(random.chance(0.4) ? { resume: false } : {}),
  };
}

function randomVersion(random: SeededRandom): Record<string, unknown> {
  return random.chance(0.25) ? { version: random.pick(Object.keys(RANGES)) } : {};
}

function randomRate(random: SeededRandom): Record<string, unknown> {
  if (!random.chance(0.15)) return {};
  return { rate: { limit: random.between(1, 3), per: random.pick([500, 2_000]) } };
}

/** A rate by key, a rate that is spread, or both, for a handler with tasks that workers process. */
export function randomRates(
  random: SeededRandom,
  { use, script, enumerate }: Record<string, unknown>,
): Record<string, unknown> {
  if (use === undefined && script === undefined) return {};
  const rate = () => ({
    limit: random.between(1, 3),
    per: random.pick([1_000, 3_000]),
    ...(random.chance(0.5) ? { spread: true } : {}),
  });
  return {
    ...(random.chance(0.3) ? { rate: rate() } : {}),
    ...(enumerate !== undefined && random.chance(0.8) ? { key: "/key", ratePerKey: rate() } : {}),
  };
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
