/**
 * How a process of a simulated cluster reaches its database: a call fails before it has had its effect, or its answer is
 * lost after it; both ways can be slow, so slow that the partition has another owner by then.
 */
import type { SeededRandom } from "../../src/std/random.ts";
import type { World } from "./world.ts";

/** How the database does. */
export interface Database {
  /** Its calls fail until then. */
  downUntil: number;
  /** Its calls take long until then. */
  slowUntil: number;
}

/** What came of a call: null if nobody knows. */
interface Call<T> {
  /** How long it takes to get there at most, when all is well. */
  readonly withinMs: number;
  /** What it does there. */
  readonly make: () => T;
  readonly answer: (made: T) => void;
  /** It failed; `isMade`: after it had its effect. */
  readonly failed: (isMade: boolean) => void;
}

const LOST = 0.03;
/** Calls that are held up on their way though the database does well. */
const HELD_UP = 0.01;

export class DatabaseLink {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #database: Database;
  /** It cannot be reached from here until then. */
  cutUntil = 0;

  constructor(world: World, random: SeededRandom, database: Database) {
    this.#world = world;
    this.#random = random;
    this.#database = database;
  }

  /** How long it cannot be reached. */
  get unreachableMs(): number {
    const until = Math.max(this.cutUntil, this.#database.downUntil);
    return Math.max(0, until - this.#world.timeline.now);
  }

  /** How long a call takes to get there. */
  wayMs(withinMs: number): number {
    const random = this.#random;
    const isSlow = this.#database.slowUntil > this.#world.timeline.now;
    const isHeldUp = this.#world.has("slow-database") && random.chance(HELD_UP);
    if (!isSlow && !isHeldUp) return random.below(withinMs);
    return random.below(withinMs) + random.below(random.pick([600, 3_000]));
  }

  /** Makes a call. What it does happens at the database, whatever becomes of the process. */
  call<T>({ withinMs, make, answer, failed }: Call<T>): void {
    const world = this.#world;
    const dice = this.#random.u32() / 4294967296;
    const isCut = this.unreachableMs > 0;
    world.timeline.after(this.wayMs(withinMs), () => {
      const isLost = world.has("failed-commits") && dice < LOST;
      if (isCut || this.unreachableMs > 0 || isLost) return failed(false);
      const made = make();
      if (world.has("lost-replies") && dice > 1 - LOST) failed(true);
      else answer(made);
    });
  }
}
