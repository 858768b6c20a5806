/** What the writer knows of an execution without asking the database. */
export interface Known {
  readonly e: number;
  /** Sequence number of the last event. */
  end: number;
  status: string;
  want: string;
  finishedAt: number | null;
  epoch: number;
}

/**
 * Recently written executions by id, in two generations: when the young one is full, the old one is dropped. An
 * entry that is used moves to the young one.
 */
export class RecentExecutions {
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

  /** After a rollback nothing here can be trusted. */
  clear(): void {
    this.#young.clear();
    this.#old.clear();
  }
}
