/**
 * The connection of a simulated process to its database. A call can fail before its effect, or its answer can get lost after
 * it. Both directions can be slow, so slow that the partition has another owner by then.
 */
import type { SeededRandom } from "../../src/std/random.ts";
import type { World } from "./world.ts";

/** The state of the database. */
export interface Database {
  /** The time until which calls fail. */
  downUntil: number;
  /** The time until which calls are slow. */
  slowUntil: number;
}

/** A call and its callbacks. */
interface Call<T> {
  /** The longest way there without faults. */
  readonly withinMs: number;
  /** The effect at the database. */
  readonly make: () => T;
  readonly answer: (made: T) => void;
  /** Called when the call failed. `isMade`: it failed after its effect. */
  readonly failed: (isMade: boolean) => void;
}

const LOST = 0.03;
/** The share of calls that are delayed although the database is healthy. */
const HELD_UP = 0.01;

export class DatabaseLink {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #database: Database;
  /** The time until which this process cannot reach the database. */
  cutUntil = 0;

  constructor(world: World, random: SeededRandom, database: Database) {
    this.#world = world;
    this.#random = random;
    this.#database = database;
  }

  /** How long the database is unreachable. */
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

  /** Makes a call. Its effect happens at the database, whatever happens to the process. */
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
