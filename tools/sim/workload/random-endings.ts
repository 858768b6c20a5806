/** Random endings: handlers that are compensated, and phases of a clean-up, in random places among the others. */
import type { SeededRandom } from "../../../src/std/random.ts";

type Handlers = Record<string, Record<string, unknown>>;

/** Adds a clean-up to a workflow; returns the fields that name its phases. */
export function randomEndings(
  random: SeededRandom,
  prefix: string,
  phases: Record<string, unknown>[],
): Record<string, unknown> {
  const retry = () => ({
    attempts: random.between(2, 4),
    crashes: random.between(2, 4),
    min: random.pick([0, 50, 400]),
    max: 400,
  });
  for (const phase of phases)
    for (const [name, handler] of Object.entries((phase["handlers"] ?? {}) as Handlers)) {
      const waits = handler["sleep"] !== undefined || handler["waitFor"] !== undefined;
      if (waits || random.chance(0.3)) continue;
      const use = `${prefix}.${String(phase["name"])}.${name}.undo`;
      handler["compensate"] = {
        use,
        retry: retry(),
        ...(random.chance(0.2) ? { concurrency: random.between(1, 2) } : {}),
      };
    }
  const ends: Record<string, unknown> = {};
  for (const field of ["onCancel", "onFailure", "finally"]) {
    if (!random.chance(0.5)) continue;
    const name = `z${field}`;
    ends[field] = name;
    const use = `${prefix}.${name}`;
    const handlers: Handlers = { one: { use: `${use}.one`, retry: retry() } };
    if (random.chance(0.3))
      handlers["list"] = { use: `${use}.list`, enumerate: { use: `${use}.list` }, retry: retry() };
    if (random.chance(0.2)) handlers["nap"] = { sleep: random.pick([0, 300]) };
    phases.splice(random.below(phases.length + 1), 0, { name, handlers });
  }
  if (random.chance(0.2)) ends["cleanupTimeout"] = random.pick([2_000, 20_000]);
  const hasCleanup =
    Object.keys(ends).some((field) => field !== "cleanupTimeout") ||
    phases.some(({ handlers }) =>
      Object.values((handlers ?? {}) as Handlers).some(({ compensate }) => compensate !== undefined),
    );
  return hasCleanup ? ends : {};
}
