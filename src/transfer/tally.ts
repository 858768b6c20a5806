import { DAMAGED } from "../store/store.ts";
import type { Line } from "./line.ts";

/** The counts of an export. */
export interface Moved {
  readonly executions: number;
  readonly definitions: number;
  readonly documents: number;
  readonly timers: number;
  readonly letters: number;
  readonly deadLetters: number;
  /** Ids of damaged executions. They are damaged after an import too. Left out if there are none. */
  readonly damaged?: readonly string[];
  /** Ids of documents that cannot be read and so are not in the export. Left out if there are none. */
  readonly leftOut?: readonly string[];
}

/** Counts the lines of an export by kind. */
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

  /** Records a document that is left out of the export. */
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
