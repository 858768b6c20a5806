/**
 * Which partitions a node has: a deterministic machine, inputs in, outputs out, by the node's own monotonic clock.
 * 1. It renews its lease. When it could not for so long that the lease may have ended, it drops everything it has.
 * 2. From each answer it sees what is free and belongs here, and takes that; the engine begins with what it got.
 * 3. What belongs elsewhere is handed over, some at a time, once members have been the same for a while.
 * 4. What the engine cannot read, since a newer node wrote it, is handed over at once while there is a newer node.
 * 5. To leave it hands everything over, gives it back clean, and ends its membership: nobody waits for a lease.
 *
 * What it believes is only ever less than what the store says: a partition is had from the answer of `take` until it
 * is yielded, lost or in doubt, and given back after that. If the store says that one is this node's and it does not
 * have it (the answer was lost, or it dropped it), it is taken anew, in another epoch, or given back.
 */
import { assert, unreachable } from "../../std/assert.ts";
import type { Membership } from "../../store/cluster-store.ts";
import type { Ownership } from "../../store/store.ts";
import {
  OWNERSHIP_SETTINGS,
  type OwnershipInput,
  type OwnershipOutput,
  type OwnershipSettings,
  type OwnershipView,
} from "./ownership-io.ts";
import { placement } from "./placement.ts";

/** A partition that the engine has. */
interface Held {
  readonly epoch: number;
  /** When it was taken, and the members then. */
  readonly takenAt: number;
  readonly members: string;
  /** The number of the yield that it is in. */
  yield: number | null;
}

type Call = "renew" | "take" | "release" | "leave";

export class OwnershipNode {
  readonly #settings: OwnershipSettings;
  #outputs: OwnershipOutput[] = [];
  #now = Number.NEGATIVE_INFINITY;
  #status: "active" | "leaving" | "left" = "active";
  /** The lease runs, as far as is known; until `#actUntil` at least. */
  #isMember = false;
  #actUntil = Number.NEGATIVE_INFINITY;
  #incarnation: string | null = null;
  #membership: Membership | null = null;
  #places: readonly string[] = [];
  /** The incarnations of the members, and since when they are these. */
  #members = "";
  #membersSince = 0;
  #call: Call | null = null;
  #renewAt = Number.NEGATIVE_INFINITY;
  /** When the last renewal was asked for, and whether something may have changed since. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #isHinted = false;
  readonly #held = new Map<number, Held>();
  #yields = 0;
  /** Yielded by the engine, to be released clean. */
  readonly #yielded = new Set<number>();
  /** Of the release under way. */
  #releasing: readonly number[] = [];
  /** As of the last renewal: what is to be taken, and what is this node's own though it neither has nor wants it. */
  #wanted: readonly number[] = [];
  #strays: readonly number[] = [];
  /** Handed over to others last. */
  #givenUp: readonly number[] = [];
  readonly #freeSince = new Map<number, number>();
  /** Where the engine found what it cannot read. */
  readonly #unreadable = new Set<number>();

  constructor(settings: Partial<OwnershipSettings> = {}) {
    this.#settings = { ...OWNERSHIP_SETTINGS, ...settings };
  }

  /** Takes an input. Nothing comes out before `advance`. */
  input(input: OwnershipInput, now: number): void {
    this.#pass(now);
    if (this.#status === "left") return;
    switch (input.kind) {
      case "membership":
        this.#answered("renew");
        return this.#renewed(input.membership, input.askedAt);
      case "taken":
        this.#answered("take");
        return this.#taken(input.owned);
      case "released":
        this.#answered("release");
        for (const partition of this.#releasing) this.#yielded.delete(partition);
        return;
      case "has-left":
        this.#answered("leave");
        return this.#leaveForGood();
      case "call-failed":
        this.#answered(this.#call);
        // Whatever was planned: first it must be known what is.
        this.#wanted = [];
        this.#strays = [];
        this.#renewAt = this.#now;
        return;
      case "yielded":
        for (const partition of this.#inYield(input.yield)) {
          this.#held.delete(partition);
          this.#yielded.add(partition);
        }
        return;
      case "yield-failed":
        this.#lose(this.#inYield(input.yield), "it could not be handed over");
        return this.#renewSoon();
      case "fenced":
        this.#lose(input.partitions, "a write was refused");
        return this.#renewSoon();
      case "unreadable":
        for (const partition of input.partitions) this.#unreadable.add(partition);
        return this.#giveUpUnreadable();
      case "hinted":
        return this.#renewSoon();
      case "leave":
        return this.#leave();
      case "tick":
        return;
      default:
        return unreachable(input);
    }
  }

  /** Does what can be done now; gives out what is to be performed, in order. */
  advance(now: number): OwnershipOutput[] {
    this.#pass(now);
    if (this.#call === null) this.#callNext();
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  /** When `advance` is needed again if nothing comes in; Infinity: never. */
  nextWakeAt(): number {
    if (this.#status === "left") return Number.POSITIVE_INFINITY;
    const lapseAt = this.#isMember ? this.#actUntil : Number.POSITIVE_INFINITY;
    return this.#call === null ? Math.min(lapseAt, this.#renewAt) : lapseAt;
  }

  /** Whether the node may act as owner at this moment, whether or not it has been told of it. */
  mayAct(now: number): boolean {
    return this.#isMember && now < this.#actUntil;
  }

  /** Where to find the owner of a partition, as far as is known. */
  ownerOf(partition: number): string | null {
    const { nodes = [], partitions = [] } = this.#membership ?? {};
    const owner = this.#held.has(partition) ? this.#incarnation : (partitions[partition]?.owner ?? null);
    if (owner === this.#incarnation && !this.#held.has(partition)) return null;
    return nodes.find(({ incarnation }) => incarnation === owner)?.url ?? null;
  }

  view(): OwnershipView {
    const { nodes = [], partitions = [] } = this.#membership ?? {};
    const held = [...this.#held].sort(([a], [b]) => a - b);
    const status = this.#isMember ? "member" : "joining";
    return {
      status: this.#status === "active" ? status : this.#status,
      incarnation: this.#incarnation,
      mayActUntil: this.#actUntil,
      nodes,
      stableSince: this.#membersSince,
      owned: held.map(([partition, { epoch }]) => ({ partition, epoch })),
      yielding: held.flatMap(([partition, one]) => (one.yield === null ? [] : partition)),
      places: this.#places,
      owners: partitions.map(({ partition }) => this.ownerOf(partition)),
    };
  }

  /** Time first: whatever comes in after the lease may have ended comes too late. */
  #pass(now: number): void {
    this.#now = Math.max(this.#now, now);
    if (!this.#isMember || this.#now < this.#actUntil) return;
    this.#isMember = false;
    this.#emit({ kind: "stop-granting" });
    this.#lose([...this.#held.keys()], "the lease could not be renewed in time");
    this.#wanted = [];
    this.#strays = [];
    this.#freeSince.clear();
    this.#renewAt = this.#now;
    if (this.#status === "leaving") this.#leaveForGood();
  }

  #answered(call: Call | null): void {
    assert(call !== null && this.#call === call, `an answer is to the call under way (${call})`);
    this.#call = null;
  }

  #renewed(membership: Membership, askedAt: number): void {
    const actUntil = askedAt + (membership.leaseUntil - membership.now) * this.#settings.leaseShare;
    const isLate = actUntil <= this.#now;
    this.#renewAt = askedAt + this.#settings.renewMs;
    if (isLate || this.#isHinted) this.#renewSoon();
    if (isLate) return;
    this.#renewAt = Math.min(this.#renewAt, this.#nextLapseAt(membership));
    this.#incarnation = membership.incarnation;
    this.#membership = membership;
    // @plant end of the node's lease ignored
    this.#actUntil = actUntil;
    if (!this.#isMember) this.#emit({ kind: "may-grant" });
    this.#isMember = true;
    this.#noteMembers(membership);
    this.#compare(membership);
    if (this.#status !== "active") return;
    this.#giveUpUnreadable();
    this.#giveUp(membership);
  }

  /** What cannot be read here is not for this node while a newer one is there. */
  #isForNewer(partition: number): boolean {
    if (!this.#unreadable.has(partition)) return false;
    const { nodes = [] } = this.#membership ?? {};
    const own = nodes.find(({ incarnation }) => incarnation === this.#incarnation)?.reads ?? 0;
    return nodes.some(({ reads }) => reads > own);
  }

  #giveUpUnreadable(): void {
    if (this.#status !== "active") return;
    this.#yield(
      [...this.#held].flatMap(([partition, held]) =>
        /* @plant unreadable partition kept */ held.yield === null && this.#isForNewer(partition)
          ? partition
          : [],
      ),
    );
  }

  /** When the lease of another node ends unless it renews: then what it had is free. */
  #nextLapseAt({ nodes, now, incarnation }: Membership): number {
    const others = nodes.filter((node) => node.incarnation !== incarnation);
    const left = Math.min(...others.map(({ leaseUntil }) => leaseUntil - now));
    return this.#now + left + this.#settings.hintGapMs;
  }

  #noteMembers({ nodes, partitions }: Membership): void {
    const members = nodes.map(({ incarnation }) => incarnation).join(" ");
    if (members === this.#members) return;
    this.#members = members;
    this.#membersSince = this.#now;
    this.#places = placement(
      partitions.length,
      nodes.map(({ url }) => url),
    );
  }

  /** What the store says against what is had: the store is right. After a lapse nothing is this incarnation's. */
  #compare({ partitions, nodes, incarnation }: Membership): void {
    const { orphanMs } = this.#settings;
    const url = this.#url();
    const live = new Set(nodes.map((node) => node.incarnation));
    const wanted: number[] = [];
    const strays: number[] = [];
    const lost: number[] = [];
    for (const { partition, owner, epoch } of partitions) {
      const isOwn = owner === incarnation;
      const held = this.#held.get(partition);
      if (held !== undefined && !(isOwn && epoch === held.epoch)) lost.push(partition);
      else if (held !== undefined) continue;
      if (!isOwn) this.#yielded.delete(partition);
      else if (this.#yielded.has(partition)) continue;
      if (
        this.#status === "leaving" ||
        /* @plant unreadable partition taken again */ this.#isForNewer(partition)
      ) {
        if (isOwn) strays.push(partition);
        continue;
      }
      const isFree = owner === null || !live.has(owner);
      if (!isFree) this.#freeSince.delete(partition);
      else if (!this.#freeSince.has(partition)) this.#freeSince.set(partition, this.#now);
      const isOrphan = this.#now - (this.#freeSince.get(partition) ?? this.#now) >= orphanMs;
      if ((isFree || isOwn) && (this.#places[partition] === url || isOrphan)) wanted.push(partition);
      else if (isOwn) strays.push(partition);
    }
    this.#lose(lost, "it is not this node's any more");
    this.#wanted = wanted;
    this.#strays = strays;
  }

  /**
   * Hands over what belongs elsewhere: the next ones when the last ones have been taken. What was taken as an orphan
   * stays for long while members are the same, since the one that it belongs to did not take it.
   */
  #giveUp({ partitions, nodes }: Membership): void {
    const { stableMs, orphanKeepMs, yieldMax } = this.#settings;
    if (this.#now - this.#membersSince < stableMs || this.#yielded.size > 0) return;
    const url = this.#url();
    const live = new Set<string | null>(nodes.map(({ incarnation }) => incarnation));
    if (this.#givenUp.some((partition) => !live.has(partitions[partition]?.owner ?? null))) return;
    const away: number[] = [];
    for (const [partition, held] of this.#held) {
      if (held.yield !== null) return;
      const isKept = held.members === this.#members && this.#now - held.takenAt < orphanKeepMs;
      if (this.#places[partition] !== url && !isKept) away.push(partition);
    }
    this.#givenUp = away.sort((a, b) => a - b).slice(0, yieldMax);
    this.#yield(this.#givenUp);
  }

  #taken(owned: readonly Ownership[]): void {
    this.#wanted = [];
    if (!this.#isMember || owned.length === 0) return;
    // Nothing was done in these epochs, nor is what was left for them passed on: they go back, and are not clean.
    if (this.#status === "leaving") {
      this.#strays = owned.map(({ partition }) => partition);
      return;
    }
    for (const { partition, epoch } of owned) {
      assert(!this.#held.has(partition), "what is had is not taken");
      this.#held.set(partition, { epoch, takenAt: this.#now, members: this.#members, yield: null });
      this.#freeSince.delete(partition);
    }
    this.#emit({ kind: "engine-taken", owned });
  }

  #leave(): void {
    if (this.#status !== "active") return;
    this.#status = "leaving";
    this.#wanted = [];
    if (!this.#isMember) return this.#leaveForGood();
    this.#yield([...this.#held].flatMap(([partition, held]) => (held.yield === null ? partition : [])));
  }

  #leaveForGood(): void {
    if (this.#isMember) this.#emit({ kind: "stop-granting" });
    this.#isMember = false;
    this.#status = "left";
    this.#emit({ kind: "left" });
  }

  /** One call at a time, so that each answer is about what is. */
  #callNext(): void {
    if (this.#status === "left") return;
    // Once nothing is had, the lease is not needed, and a renewal after a `leave` that seemed to fail would join again.
    const isEmpty = this.#status === "leaving" && this.#held.size === 0;
    if (!isEmpty && this.#now >= this.#renewAt) this.#renew();
    else if (!this.#isMember) return;
    else if (this.#yielded.size > 0) this.#release([...this.#yielded], true);
    else if (isEmpty) this.#ask({ kind: "leave" });
    else if (this.#strays.length > 0) this.#release(this.#strays, false);
    else if (this.#wanted.length > 0) this.#ask({ kind: "take", partitions: this.#wanted });
  }

  #renew(): void {
    this.#askedAt = this.#now;
    this.#isHinted = false;
    this.#ask({ kind: "renew" });
  }

  #release(partitions: readonly number[], clean: boolean): void {
    this.#releasing = partitions;
    if (!clean) this.#strays = [];
    this.#ask({ kind: "release", partitions, clean });
  }

  #ask(output: Extract<OwnershipOutput, { kind: Call }>): void {
    this.#call = output.kind;
    this.#emit(output);
  }

  #renewSoon(): void {
    this.#isHinted = true;
    const soon = Math.max(this.#now, this.#askedAt + this.#settings.hintGapMs);
    this.#renewAt = Math.min(this.#renewAt, soon);
  }

  #yield(partitions: readonly number[]): void {
    if (partitions.length === 0) return;
    const number = ++this.#yields;
    for (const partition of partitions) {
      const held = this.#held.get(partition);
      assert(held !== undefined, "what is yielded is had");
      held.yield = number;
    }
    this.#emit({ kind: "yield", yield: number, partitions });
  }

  #inYield(number: number): number[] {
    return [...this.#held].flatMap(([partition, held]) => (held.yield === number ? partition : []));
  }

  #lose(partitions: readonly number[], why: string): void {
    const lost = partitions.filter((partition) => this.#held.delete(partition));
    if (lost.length > 0) this.#emit({ kind: "engine-lost", partitions: lost, why });
  }

  #url(): string | undefined {
    return this.#membership?.nodes.find(({ incarnation }) => incarnation === this.#incarnation)?.url;
  }

  #emit(output: OwnershipOutput): void {
    this.#outputs.push(output);
  }
}
