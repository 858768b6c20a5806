import { useEffect, useReducer } from "preact/hooks";

/** A value that components can watch. It is the only kind of shared state in the dashboard. */
export class Cell<T> {
  readonly #watchers = new Set<() => void>();
  #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const tell of [...this.#watchers]) tell();
  }

  watch(tell: () => void): () => void {
    this.#watchers.add(tell);
    return () => void this.#watchers.delete(tell);
  }
}

/** Returns the value of a cell; the component is rendered again when the value changes. */
export function useCell<T>(cell: Cell<T>): T {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const { value } = cell;
  useEffect(() => {
    if (!Object.is(cell.value, value)) draw(undefined);
    return cell.watch(() => draw(undefined));
  }, [cell]);
  return value;
}
