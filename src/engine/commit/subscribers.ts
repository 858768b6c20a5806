/** Those who follow executions, by id. */
export class Subscribers<T> {
  readonly #byExecution = new Map<string, Set<T>>();

  /** Adds one; the returned function takes it away. */
  add(execution: string, watcher: T): () => void {
    const watchers = this.#byExecution.get(execution) ?? new Set();
    watchers.add(watcher);
    this.#byExecution.set(execution, watchers);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#byExecution.get(execution) === watchers)
        this.#byExecution.delete(execution);
    };
  }

  /** Those of an execution, as they are now. */
  of(execution: string): readonly T[] {
    const watchers = this.#byExecution.get(execution);
    return watchers === undefined ? [] : [...watchers];
  }

  all(): readonly T[] {
    return [...this.#byExecution.values()].flatMap((watchers) => [...watchers]);
  }
}
