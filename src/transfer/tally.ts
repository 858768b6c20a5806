import { DAMAGED } from "../store/store.ts";
import type { Line } from "./line.ts";

/** How much an export holds. */
export interface Moved {
  readonly executions: number;
  readonly definitions: number;
  readonly documents: number;
  readonly timers: number;
  readonly letters: number;
  readonly deadLetters: number;
  /** Executions that are damaged, and stay so where this is imported; absent: none is. */
  readonly damaged?: readonly string[];
  /** Documents that cannot be read, so they are not in the export; absent: all can. */
  readonly leftOut?: readonly string[];
}

/** Counts what lines bring. */
export class Tally {
  readonly #definitions = new Set<string>();
  readonly #damaged: string[] = [];
  readonly #leftOut: string[] = [];
  readonly #counts = { executions: 0, documents: 0, timers: 0, letters: 0, deadLetters: 0 };

  get moved(): Moved {
    const [damaged, leftOut] = [this.#damaged, this.#leftOut];
    return {
      ...{ ...this.#counts, definitions: this.#definitions.size },
      ...(damaged.length > 0 ? { damaged } : {}),
      ...(leftOut.length > 0 ? { leftOut } : {}),
    };
  }

  /** Something that is not exported. */
  leaveOut(what: string): void {
    this.#leftOut.push(what);
  }

  add(line: Line): void {
    const counts = this.#counts;
    if (line.kind === "execution") {
      counts.executions++;
      if (line.head.status === DAMAGED) this.#damaged.push(line.head.id);
    } else if (line.kind === "document") counts.documents++;
    else if (line.kind === "definition") this.#definitions.add(line.hash);
    else if (line.kind === "timers") counts.timers += line.rows.length;
    else if (line.kind === "letters") counts.letters += line.rows.length;
    else if (line.kind === "dead-letters") counts.deadLetters += line.rows.length;
  }
}
