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

/** The result of one seed of a small simulation: its trace, and the broken invariant, if it found one. */
export interface TracedRun {
  readonly hash: string;
  readonly violation: string | null;
  readonly kinds: ReadonlySet<string>;
  readonly lines: number;
}

/** Runs a small simulation until it ends or finds a broken invariant. Other errors are thrown. */
export async function traced(world: {
  readonly trace: Trace;
  readonly kinds: ReadonlySet<string>;
  readonly run: () => Promise<void>;
}): Promise<TracedRun> {
  let violation: string | null = null;
  try {
    await world.run();
  } catch (thrown) {
    if (!(thrown instanceof Violation)) throw thrown;
    violation = thrown.message;
  }
  const { trace, kinds } = world;
  return { hash: trace.hash, violation, kinds, lines: trace.lines };
}

/** Throws a violation unless the invariant holds. */
export function must(holds: boolean, invariant: string): asserts holds {
  if (!holds) throw new Violation(invariant);
}
