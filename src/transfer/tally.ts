import type { Line } from "./line.ts";

/** How much an export holds. */
export interface Moved {
  readonly executions: number;
  readonly definitions: number;
  readonly documents: number;
  readonly timers: number;
  readonly letters: number;
  readonly deadLetters: number;
}

/** Counts what lines bring. */
export class Tally {
  readonly #definitions = new Set<string>();
  readonly #counts = { executions: 0, documents: 0, timers: 0, letters: 0, deadLetters: 0 };

  get moved(): Moved {
    return { ...this.#counts, definitions: this.#definitions.size };
  }

  add(line: Line): void {
    const counts = this.#counts;
    if (line.kind === "execution") counts.executions++;
    else if (line.kind === "document") counts.documents++;
    else if (line.kind === "definition") this.#definitions.add(line.hash);
    else if (line.kind === "timers") counts.timers += line.rows.length;
    else if (line.kind === "letters") counts.letters += line.rows.length;
    else if (line.kind === "dead-letters") counts.deadLetters += line.rows.length;
  }
}
