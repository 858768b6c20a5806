/**
 * A simulated process: an `OwnershipNode` with a clock of its own, its link to the store, and an engine that begins,
 * yields, drops, and writes all the time. Nothing reaches it while it is paused.
 */
import { OwnershipNode } from "../../../src/cluster/ownership/ownership.ts";
import type { OwnershipInput, OwnershipOutput } from "../../../src/cluster/ownership/ownership-io.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import type { Ownership } from "../../../src/store/store.ts";
import { must } from "../../../tools/sim/trace.ts";
import type { Owner } from "./ownership-check.ts";
import type { OwnershipWorld } from "./ownership-world.ts";

const ENGINE_MS = [5, 40, 300, 2_000];
const WRITE_MS = [3, 30, 200, 15_000];

export class SimOwner implements Owner {
  readonly url: string;
  readonly name: string;
  readonly has = new Map<number, number>();
  readonly node: OwnershipNode;
  isAlive = true;
  isLeaving = false;
  hasLeft = false;
  readonly #world: OwnershipWorld;
  readonly #random: SeededRandom;
  /** Its clock: what it showed at the beginning, and how fast it goes. */
  readonly #offset: number;
  readonly #rate: number;
  #incarnation: string | null = null;
  #renewals = 0;
  #hasAskedToLeave = false;
  #isPaused = false;
  readonly #waiting: (() => void)[] = [];
  #wakes = 0;

  constructor(world: OwnershipWorld, url: string, random: SeededRandom) {
    this.#world = world;
    this.#random = random;
    this.url = url;
    this.name = `${url}.${random.u32().toString(36)}`;
    this.node = new OwnershipNode(world.settings);
    this.#offset = random.below(1_000_000);
    this.#rate = world.has("skew") ? 0.98 + random.below(41) / 1_000 : 1;
    this.input({ kind: "tick" });
    this.#work();
  }

  /** Its own monotonic clock. */
  get now(): number {
    return this.#offset + this.#world.timeline.now * this.#rate;
  }

  get incarnation(): string | null {
    return this.#incarnation;
  }

  mayAct(): boolean {
    return this.node.mayAct(this.now);
  }

  kill(): void {
    this.isAlive = false;
    this.#world.trace.note(this.#world.timeline.now, `${this.name} is killed`);
  }

  leave(): void {
    this.isLeaving = true;
    this.#deliver(() => this.input({ kind: "leave" }));
  }

  hinted(): void {
    this.#deliver(() => this.input({ kind: "hinted" }));
  }

  pause(ms: number): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#world.trace.note(this.#world.timeline.now, `${this.name} pauses for ${ms}`);
    this.#world.timeline.after(ms, () => this.resume());
  }

  /** What has come meanwhile is taken in any order: sockets and timers are not one queue. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    for (const run of this.#random.shuffle(this.#waiting.splice(0))) this.#deliver(run);
  }

  input(input: OwnershipInput): void {
    if (this.hasLeft) return;
    const { timeline, trace, check } = this.#world;
    trace.note(timeline.now, `${this.name} < ${input.kind}`);
    this.node.input(input, this.now);
    for (;;) {
      const outputs = this.node.advance(this.now);
      if (outputs.length === 0) break;
      for (const output of outputs) this.#perform(output);
    }
    check.alone(this, this.#world.owners);
    const wake = ++this.#wakes;
    const at = this.node.nextWakeAt();
    if (at === Number.POSITIVE_INFINITY) return;
    timeline.after(Math.ceil((at - this.now) / this.#rate), () =>
      this.#deliver(() => wake === this.#wakes && this.input({ kind: "tick" })),
    );
  }

  #perform(output: OwnershipOutput): void {
    const { timeline, trace, check } = this.#world;
    trace.note(timeline.now, `${this.name} > ${JSON.stringify(output)}`);
    switch (output.kind) {
      case "renew":
      case "take":
      case "release":
      case "leave":
        return this.#call(output);
      case "yield":
        return this.#yield(output.yield, output.partitions);
      case "engine-taken":
        for (const one of output.owned) {
          check.began(this.name, one);
          this.has.set(one.partition, one.epoch);
        }
        return;
      case "engine-lost":
        if (this.#world.bug === "keeps what is lost") return;
        for (const partition of output.partitions) this.has.delete(partition);
        return;
      case "left":
        this.hasLeft = true;
        this.isAlive = false;
        return;
      case "may-grant":
      case "stop-granting":
        return;
    }
  }

  /** The request takes a while, and so does the answer; either can be lost. */
  #call(output: Extract<OwnershipOutput, { kind: "renew" | "take" | "release" | "leave" }>): void {
    const { timeline, bug } = this.#world;
    must(output.kind !== "renew" || !this.#hasAskedToLeave, "who has asked to leave does not join again");
    this.#hasAskedToLeave ||= output.kind === "leave";
    const asked = this.now;
    const own = this.#incarnation;
    const fate = this.#world.fate();
    timeline.after(this.#world.delay(), () => {
      const answer = fate === "lost before" || this.#world.isDown ? null : this.#effect(output, own);
      const isTold = answer !== null && fate === "ok";
      timeline.after(this.#world.delay() + (isTold ? 0 : this.#random.below(2_000)), () =>
        this.#deliver(() => {
          if (!isTold) return this.input({ kind: "call-failed" });
          const askedAt = bug === "lease from the answer" ? this.now : asked;
          if (answer.kind === "membership") this.#incarnation = answer.membership.incarnation;
          if (answer.kind === "has-left") this.#incarnation = null;
          this.input(answer.kind === "membership" ? { ...answer, askedAt } : answer);
          if (answer.kind === "membership") this.#world.check.heard(this, answer.membership);
        }),
      );
    });
  }

  #effect(
    output: Extract<OwnershipOutput, { kind: "renew" | "take" | "release" | "leave" }>,
    own: string | null,
  ): OwnershipInput {
    const { tables, databaseNow: now, check, bug } = this.#world;
    switch (output.kind) {
      case "renew": {
        const next = `${this.name}-${++this.#renewals}`;
        const renewal = { url: this.url, incarnation: own, next, leaseMs: this.#world.leaseMs };
        const membership = tables.renew(renewal, now);
        if (membership.incarnation !== own) this.#world.hint(this);
        return { kind: "membership", membership, askedAt: 0 };
      }
      case "take": {
        const owned = tables.take(own ?? "", output.partitions, now);
        check.gaveOut(owned);
        return { kind: "taken", owned };
      }
      case "release":
        tables.release(own ?? "", output.partitions, {
          clean: bug === "everything is clean" || output.clean,
        });
        this.#world.hint(this);
        return { kind: "released" };
      case "leave":
        if (bug === "leaves no word") return { kind: "has-left" };
        if (own !== null) tables.leave(own, { clean: false });
        this.#world.hint(this);
        return { kind: "has-left" };
    }
  }

  #yield(number: number, partitions: readonly number[]): void {
    const { timeline, bug, check } = this.#world;
    const epochs = partitions.map((partition) => [partition, this.has.get(partition)] as const);
    const fails = this.#world.has("losses") && this.#random.chance(0.1);
    const isEarly = bug === "yields too early";
    const end = (): void => {
      for (const [partition, epoch] of epochs) {
        if (epoch === undefined || this.has.get(partition) !== epoch) continue;
        this.has.delete(partition);
        if (!fails) check.yielded(partition, epoch);
      }
      if (!isEarly) this.input({ kind: fails ? "yield-failed" : "yielded", yield: number });
    };
    timeline.after(this.#random.below(this.#random.pick(ENGINE_MS)), () => this.#deliver(end));
    if (isEarly) timeline.after(0, () => this.#deliver(() => this.input({ kind: "yielded", yield: number })));
  }

  /** Writes somewhere, now and then, as long as its own clock lets it; but the write may be under way for long. */
  #work(): void {
    if (!this.isAlive) return;
    const { timeline } = this.#world;
    const own = [...this.has].map(([partition, epoch]): Ownership => ({ partition, epoch, uncleanEpoch: 0 }));
    if (own.length > 0 && !this.#isPaused && this.mayAct()) {
      const one = this.#random.pick(own);
      const incarnation = this.#incarnation ?? "";
      timeline.after(this.#random.below(this.#random.pick(WRITE_MS)), () => {
        const isAccepted = this.#world.write(incarnation, one);
        const isStillHad = () => this.has.get(one.partition) === one.epoch;
        if (!isAccepted)
          this.#deliver(() => isStillHad() && this.input({ kind: "fenced", partitions: [one.partition] }));
      });
    }
    timeline.after(this.#random.between(50, 800), () => this.#work());
  }

  #deliver(run: () => unknown): void {
    if (!this.isAlive) return;
    if (this.#isPaused) this.#waiting.push(run);
    else run();
  }
}
