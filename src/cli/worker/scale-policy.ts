/** When to add a worker process and when to end one, by how busy they are over a few samples. */
export interface Load {
  readonly held: number;
  readonly capacity: number;
}

/** Samples over which busyness is averaged, and idleness must last. */
const SAMPLES_UP = 3;
const SAMPLES_DOWN = 10;
const BUSY = 0.8;
/** What the others may be busy with once one has gone. */
const SPARE = 0.5;

export class ScalePolicy {
  readonly #min: number;
  readonly #max: number;
  #busy: number[] = [];
  #idle = 0;

  constructor({ min, max }: { min: number; max: number }) {
    this.#min = min;
    this.#max = max;
  }

  /** Takes a sample of those that serve; says whether one more is wanted (1), one less (-1), or neither. */
  sample(loads: readonly Load[]): -1 | 0 | 1 {
    const count = loads.length;
    if (count < this.#min) return 1;
    if (count > this.#max) return -1;
    const held = loads.reduce((sum, load) => sum + load.held, 0);
    const capacity = loads.reduce((sum, load) => sum + load.capacity, 0);
    this.#busy = [...this.#busy, capacity === 0 ? 0 : held / capacity].slice(-SAMPLES_UP);
    const average = this.#busy.reduce((sum, busy) => sum + busy, 0) / this.#busy.length;
    if (count < this.#max && this.#busy.length === SAMPLES_UP && average >= BUSY) return this.#decide(1);
    const without = count === 0 ? 0 : (capacity * (count - 1)) / count;
    const isSpare = count > this.#min && held <= without * SPARE;
    this.#idle = isSpare ? this.#idle + 1 : 0;
    return this.#idle >= SAMPLES_DOWN ? this.#decide(-1) : 0;
  }

  /** What was decided has to show its effect first. */
  #decide(change: -1 | 1): -1 | 1 {
    this.#busy = [];
    this.#idle = 0;
    return change;
  }
}
