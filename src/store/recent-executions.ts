/** An approximate LRU cache of executions by id, in two generations: when the young one is full, the old one is dropped. */
export class RecentExecutions<Known> {
  readonly #sizeMax: number;
  #young = new Map<string, Known>();
  #old = new Map<string, Known>();

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get(id: string): Known | undefined {
    const young = this.#young.get(id);
    if (young !== undefined) return young;
    const old = this.#old.get(id);
    if (old !== undefined) this.set(id, old);
    return old;
  }

  set(id: string, known: Known): void {
    if (this.#young.size >= this.#sizeMax / 2) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(id, known);
  }

  delete(id: string): void {
    this.#young.delete(id);
    this.#old.delete(id);
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
  }
}
