/** Tags as they are stored. Those that damage has made unreadable are left out: they follow from the journal, and an audit finds it. */
export function readTags(stored: string): Record<string, string> {
  try {
    const tags = JSON.parse(stored) as unknown;
    if (typeof tags !== "object" || tags === null || Array.isArray(tags)) return {};
    return Object.fromEntries(Object.entries(tags).filter(([, value]) => typeof value === "string"));
  } catch {
    return {};
  }
}

/** The tasks of a dead letter as they are stored; null: they cannot be read. */
export function readTasks(stored: string): number[] | null {
  try {
    const tasks = JSON.parse(stored) as unknown;
    return Array.isArray(tasks) && tasks.every(Number.isSafeInteger) ? (tasks as number[]) : null;
  } catch {
    return null;
  }
}
