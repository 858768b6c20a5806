/** Parses stored tags. Damaged tags are left out; an audit finds them and derives them from the journal. */
export function readTags(stored: string): Record<string, string> {
  try {
    const tags = JSON.parse(stored) as unknown;
    if (typeof tags !== "object" || tags === null || Array.isArray(tags)) return {};
    return Object.fromEntries(Object.entries(tags).filter(([, value]) => typeof value === "string"));
  } catch {
    return {};
  }
}

/** Parses the stored tasks of a dead letter; null if they are damaged. */
export function readTasks(stored: string): number[] | null {
  try {
    const tasks = JSON.parse(stored) as unknown;
    return Array.isArray(tasks) && tasks.every(Number.isSafeInteger) ? (tasks as number[]) : null;
  } catch {
    return null;
  }
}
