/** Adds one of those who watch an execution; the returned function takes it out again. */
export function addWatcher<T>(all: Map<string, Set<T>>, execution: string, watcher: T): () => void {
  const watchers = all.get(execution) ?? new Set();
  watchers.add(watcher);
  all.set(execution, watchers);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0 && all.get(execution) === watchers) all.delete(execution);
  };
}
