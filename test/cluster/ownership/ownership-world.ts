/**
 * Ownership under one seed: 2 to 7 nodes over one store in memory, with clocks of different speed, processes that
 * pause beyond their lease, are killed, join and leave, calls that are lost before or after their effect, a database
 * that is away or whose clock jumps. Then everything heals, and the world must come to rest in time: every partition
 * has one owner, then the one it belongs to; a node that leaves is replaced at once, one that is killed after its lease.
 */
import { OWNERSHIP_SETTINGS, type OwnershipSettings } from "../../../src/cluster/ownership/ownership-io.ts";
import { placement } from "../../../src/cluster/ownership/placement.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { LEASE_MS } from "../../../src/store/cluster-store.ts";
import { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { fenceOf, type Ownership } from "../../../src/store/store.ts";
import { Timeline } from "../../../tools/sim/timeline.ts";
import { must, Trace } from "../../../tools/sim/trace.ts";
import { headOf, start } from "../../store/example-writes.ts";
import { OwnershipCheck } from "./ownership-check.ts";
import { SimOwner } from "./sim-owner.ts";

const FAULTS = [
  "losses",
  "pauses",
  "kills",
  "joins",
  "leaves",
  "outages",
  "slow database",
  "skew",
  "jumps",
  "no hints",
] as const;
type Fault = (typeof FAULTS)[number];

/** What can be wrong on purpose: with what runs an `OwnershipNode`, and with the numbers that it runs by. */
export const BUGS = [
  "lease from the answer",
  "keeps what is lost",
  "everything is clean",
  "leaves no word",
  "yields too early",
  "no fence",
  "lease counted too long",
  "never gives up",
  "renews too late",
] as const;
export type Bug = (typeof BUGS)[number];

const PARTITIONS = 24;
const FAULTY_MS = 60_000;
/** How long a request or an answer takes at most. */
const SLOW_MS = 8_000;
/** What was on its way when everything healed comes so late, and begins more. */
const LATE_MS = SLOW_MS + 2_000;
/** From the release until the next owner has begun. */
const HAND_OVER_MS = 500;

export class OwnershipWorld {
  readonly timeline = new Timeline();
  readonly trace: Trace;
  readonly tables: MemoryTables;
  readonly check: OwnershipCheck;
  readonly settings: Partial<OwnershipSettings>;
  readonly leaseMs = LEASE_MS;
  readonly bug: Bug | null;
  owners: SimOwner[] = [];
  isDown = false;
  readonly #random: SeededRandom;
  readonly #faults: ReadonlySet<Fault>;
  readonly #generation: string;
  #isHealed = false;
  #jumped = 0;
  #nodes = 0;
  #executions = 0;

  constructor(seed: number, options: { bug?: Bug; show?: (line: string) => void } = {}) {
    this.bug = options.bug ?? null;
    this.#random = new SeededRandom(seed);
    this.trace = new Trace(options.show ?? null);
    this.tables = new MemoryTables({ partitions: PARTITIONS, random: this.#random.child("tables") });
    this.#generation = this.tables.info([]).generation;
    const quiet = this.#random.below(4);
    this.#faults = new Set(FAULTS.filter(() => this.#random.below(4) >= quiet));
    this.check = new OwnershipCheck({ clockJumps: this.#faults.has("jumps") });
    this.settings = { yieldMax: this.#random.pick([4, OWNERSHIP_SETTINGS.yieldMax]), ...this.#planted() };
  }

  has(fault: Fault): boolean {
    return this.#faults.has(fault) && (fault === "skew" || fault === "no hints" || !this.#isHealed);
  }

  /** Runs to the end; throws a `Violation` if something does not hold. */
  run(): void {
    const nodes = this.#random.between(2, 7);
    for (let i = 0; i < nodes; i++) this.timeline.after(this.#random.below(5_000), () => this.#join());
    this.timeline.after(5_000, () => this.#disturb());
    this.#runFor(FAULTY_MS);
    this.#heal();
    this.#runFor(this.leaseMs + LATE_MS);
    this.#mustBeOwned("after everything has healed");
    // As many rounds as the fewest at a time take, each seen by the next renewal of both.
    const rounds = Math.ceil(PARTITIONS / (this.settings.yieldMax ?? 1)) + 1;
    this.#runFor(OWNERSHIP_SETTINGS.stableMs + rounds * 2 * OWNERSHIP_SETTINGS.renewMs + LATE_MS);
    this.#mustBeOwned("after some time of peace");
    // What nobody took for long went to another, which keeps it for a while.
    if (this.#misplaced.length > 0) this.#runFor(OWNERSHIP_SETTINGS.orphanKeepMs);
    must(this.#misplaced.length === 0, `partitions ${this.#misplaced.join()} are where they belong`);
    this.#part();
    this.trace.note(this.timeline.now, `end ${this.check.written} ${this.check.refused}`);
  }

  get databaseNow(): number {
    return Math.floor(this.timeline.now + this.#jumped);
  }

  delay(): number {
    if (this.#isHealed) return this.#random.below(10);
    const most = this.#random.pick([4, 50, 900]);
    return this.#random.below(this.has("slow database") && this.#random.chance(0.1) ? SLOW_MS : most);
  }

  fate(): "ok" | "lost before" | "lost after" {
    if (!this.has("losses") || this.#random.chance(0.8)) return "ok";
    return this.#random.pick(["lost before", "lost after"]);
  }

  /** Tells the others. */
  hint(from: SimOwner): void {
    if (this.has("no hints")) return;
    for (const owner of this.owners)
      if (owner !== from) this.timeline.after(20 + this.delay(), () => owner.hinted());
  }

  /** Creates an execution in a partition; answers whether that was accepted. */
  write(incarnation: string, one: Ownership): boolean {
    const { partition } = one;
    let id: string;
    do id = `e${++this.#executions}`;
    while (partitionOf(id, PARTITIONS) !== partition);
    const writes = [start(id, { head: headOf(id, { partition }) })];
    const fence = fenceOf({ generation: this.#generation, owned: [one] });
    const verdict =
      this.bug === "no fence" ? { kind: "ok" } : this.tables.commit({ fence, writes }, incarnation);
    this.check.wrote(partition, one.epoch, verdict.kind === "ok");
    return verdict.kind === "ok";
  }

  #planted(): Partial<OwnershipSettings> {
    switch (this.bug) {
      case "lease counted too long":
        return { leaseShare: 1.2 };
      case "never gives up":
        return { stableMs: Number.POSITIVE_INFINITY };
      case "renews too late":
        return { renewMs: 9_800 };
      default:
        return {};
    }
  }

  get #living(): SimOwner[] {
    return this.owners.filter(({ isAlive }) => isAlive);
  }

  #join(url = `http://node-${++this.#nodes}`): void {
    this.owners = this.owners.filter(({ isAlive }) => isAlive);
    this.owners.push(new SimOwner(this, url, this.#random.child(`${url} ${this.timeline.now}`)));
  }

  /** Something bad, and soon the next. */
  #disturb(): void {
    if (this.#isHealed) return;
    const random = this.#random;
    const victim = this.#living.length === 0 ? null : random.pick(this.#living);
    const fault = random.pick(FAULTS);
    if (this.has(fault)) this.#inflict(fault, victim);
    this.timeline.after(random.below(4_000), () => this.#disturb());
  }

  #inflict(fault: Fault, victim: SimOwner | null): void {
    const random = this.#random;
    switch (fault) {
      case "pauses":
        return victim?.pause(random.below(random.pick([500, 4_000, 9_000, 25_000])));
      case "kills":
        victim?.kill();
        // A supervisor starts it again; sometimes.
        if (victim !== null && random.chance(0.7))
          this.timeline.after(random.below(random.pick([300, 15_000])), () => this.#join(victim.url));
        return;
      case "joins":
        if (this.#living.length < 7) this.#join();
        return;
      case "leaves":
        if (this.#living.length > 2) victim?.leave();
        return;
      case "outages":
        this.isDown = true;
        this.timeline.after(random.below(random.pick([1_000, 6_000, 20_000])), () => {
          this.isDown = false;
        });
        return;
      case "jumps":
        this.#jumped += random.between(-8_000, 8_000);
        return;
      default:
        return;
    }
  }

  #heal(): void {
    this.#isHealed = true;
    this.isDown = false;
    for (const owner of this.#living) owner.resume();
    while (this.#living.filter(({ isLeaving }) => !isLeaving).length < 2) this.#join();
    this.trace.note(this.timeline.now, "healed");
  }

  #runFor(ms: number): void {
    let isOver = false;
    this.timeline.after(ms, () => {
      isOver = true;
    });
    while (!isOver) this.timeline.next();
  }

  /**
   * Every partition has exactly one owner that may act, and the store says the same; but for the moment in which one
   * is handed over.
   */
  #mustBeOwned(when: string): void {
    const waiting = new Set(Array.from({ length: PARTITIONS }, (_, partition) => partition));
    const until = this.timeline.now + HAND_OVER_MS + (this.has("no hints") ? OWNERSHIP_SETTINGS.renewMs : 0);
    for (;;) {
      for (const partition of waiting) if (this.#isOwned(partition, when)) waiting.delete(partition);
      if (waiting.size === 0) return;
      must(this.timeline.now < until, `partitions ${[...waiting].join()} have no owner ${when}`);
      this.#runFor(50);
    }
  }

  #isOwned(partition: number, when: string): boolean {
    const having = this.#living.filter((one) => one.mayAct() && one.has.has(partition));
    must(having.length < 2, `partition ${partition} has ${having.length} owners ${when}`);
    const [owner] = having;
    if (owner === undefined) return false;
    const own = { partition, epoch: owner.has.get(partition) ?? 0, uncleanEpoch: 0 };
    must(
      this.write(owner.incarnation ?? "", own),
      `the store takes the word of the owner of ${partition} ${when}`,
    );
    return true;
  }

  get #misplaced(): number[] {
    const places = placement(
      PARTITIONS,
      this.#living.map(({ url }) => url),
    );
    return this.#living.flatMap(({ has, url }) => [...has.keys()].filter((one) => places[one] !== url));
  }

  /** One leaves, one is killed. */
  #part(): void {
    const [first, second] = this.#random.shuffle(this.#living);
    if (this.#living.length < 3 || first === undefined || second === undefined) return;
    first.leave();
    // An engine takes its time, up to 2 s.
    this.#runFor(2_100);
    must(first.hasLeft, "a node that is to leave does");
    this.#mustBeOwned("after a node has left");
    second.kill();
    this.#runFor(this.leaseMs);
    this.#mustBeOwned("after a node was killed");
  }
}
