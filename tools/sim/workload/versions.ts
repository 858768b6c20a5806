/**
 * The versions of simulated code, and the versions that match each range, as a written table: the checks must not share the
 * engine's matching.
 */

/** From the lowest to the highest. */
export const VERSIONS = ["0.9.0", "1.0.0", "1.0.1", "1.2.0", "2.0.0", "3.0.0"] as const;

/** The versions that match each range. */
export const RANGES: Readonly<Record<string, readonly string[]>> = {
  "~1.0": ["1.0.0", "1.0.1"],
  "^1": ["1.0.0", "1.0.1", "1.2.0"],
  ">=1 <3": ["1.0.0", "1.0.1", "1.2.0", "2.0.0"],
  "~3": ["3.0.0"],
};

/** Ranges of workflows with versions. They are not drawn for handlers, so that runs without such workflows do not change. */
const PINNED: Readonly<Record<string, readonly string[]>> = {
  "^1.0.0": ["1.0.0", "1.0.1", "1.2.0"],
  "^2.0.0": ["2.0.0"],
};

/** The version that must get the work among those served ("" for code without one); null: none matches. */
export function expectedVersion(served: ReadonlySet<string>, range: string | null): string | null {
  const fitting = VERSIONS.filter(
    (version) =>
      served.has(version) && (range === null || (RANGES[range] ?? PINNED[range])?.includes(version) === true),
  );
  return fitting.at(-1) ?? (range === null && served.has("") ? "" : null);
}
