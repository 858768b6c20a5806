/** What user code did, as it noted it itself, outside of the system. */
import { existsSync, readFileSync } from "node:fs";
import { until } from "./until.ts";

/** One happening: `begins`, `step`, `held` at a gate, `stopped` there, `ends`, `enumerates`. */
export interface Noted {
  readonly what: string;
  readonly pid: number;
  readonly execution: string;
  /** The idempotency key; null for an enumeration. */
  readonly key: string | null;
  readonly attempt: number;
  /** Of a step. */
  readonly name?: string;
  /** Of a gate. */
  readonly where?: string;
}

export class Ledger {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Everything noted so far, in order. */
  all(): Noted[] {
    if (!existsSync(this.path)) return [];
    const lines = readFileSync(this.path, "utf8").split("\n");
    // The last one may be under way.
    return lines.slice(0, -1).map((line) => JSON.parse(line) as Noted);
  }

  /** Those that have all these fields. */
  find(like: Partial<Noted>): Noted[] {
    const fields = Object.entries(like) as [keyof Noted, unknown][];
    return this.all().filter((noted) => fields.every(([field, value]) => noted[field] === value));
  }

  /** Resolves with them once there are so many. */
  async seen(like: Partial<Noted>, count = 1): Promise<Noted[]> {
    await until(`${count} of ${JSON.stringify(like)} in the ledger`, () => this.find(like).length >= count, {
      state: () => this.all().slice(-20),
    });
    return this.find(like);
  }
}
