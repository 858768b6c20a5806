/** The trace of a run as a running hash, and as lines for people on request. Equal seeds must give equal hashes. */
import { hashText } from "../../src/std/random.ts";

export class Trace {
  #hash = 0;
  lines = 0;
  readonly #show: ((line: string) => void) | null;

  constructor(show: ((line: string) => void) | null) {
    this.#show = show;
  }

  note(now: number, what: string): void {
    this.lines++;
    this.#hash = hashText(`${this.#hash} ${now} ${what}`);
    this.#show?.(`${String(now - 1_000_000).padStart(8)} ${what}`);
  }

  /** A line for people only: not part of the hash, and made only if it is shown. */
  detail(make: () => string): void {
    this.#show?.(`         ${make()}`);
  }

  get hash(): string {
    return this.#hash.toString(16).padStart(8, "0");
  }
}

/** A broken invariant: the run has found a bug. */
export class Violation extends Error {
  override name = "Violation";
}

/** Throws a violation unless the invariant holds. */
export function must(holds: boolean, invariant: string): asserts holds {
  if (!holds) throw new Violation(invariant);
}
