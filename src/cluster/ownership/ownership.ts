/**
 * Decides which partitions a node owns. It is a deterministic machine with inputs and outputs, on the node's own monotonic clock.
 * 1. It renews the node's lease. When the lease may have ended, it drops all partitions.
 * 2. From each answer of the store it finds free partitions that are assigned to this node, and takes them. The engine then begins to
 *    serve them.
 * 3. It hands over partitions that are assigned to other nodes, a few at a time, once the members have been unchanged for a while.
 * 4. It hands over partitions with data of a newer version at once, as long as a node of a newer version is a member.
 * 5. To leave, it hands over all partitions, releases them as clean, and ends its membership, so that no node has to wait for a lease.
 *    The machine never assumes more than the store says. The node owns a partition from the answer to `take` until the partition is
 *    handed over or lost, or the lease may have ended. If the store says that the node owns a further partition (because an answer was
 *    lost), the node takes it in a new epoch, or releases it.
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

/** A partition that the engine serves. */
interface Held {
  readonly epoch: number;
  /** When this node took the partition, and who the members of the cluster were at that time. */
  readonly takenAt: number;
  readonly members: string;
  /** The number of the `yield` that hands over the partition; null if it is not being handed over. */
  yield: number | null;
}

type Call = "renew" | "take" | "release" | "leave";

export class OwnershipNode {
  readonly #settings: OwnershipSettings;
  #outputs: OwnershipOutput[] = [];
  #now = Number.NEGATIVE_INFINITY;
  #status: "active" | "leaving" | "left" = "active";
  /** Whether the node has a lease. The lease lasts at least until `#actUntil`. */
  #isMember = false;
  #actUntil = Number.NEGATIVE_INFINITY;
  #incarnation: string | null = null;
  #membership: Membership | null = null;
  #places: readonly string[] = [];
  /** The incarnations of all members of the cluster, and since when they are unchanged. */
  #members = "";
  #membersSince = 0;
  #call: Call | null = null;
  #renewAt = Number.NEGATIVE_INFINITY;
  /** When the last renewal was sent, and whether a hint has arrived since that members or owners may have changed. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #isHinted = false;
  readonly #held = new Map<number, Held>();
  #yields = 0;
  /** Partitions that the engine has handed over, to be released as clean. */
  readonly #yielded = new Set<number>();
  /** The partitions in the release call that is under way. */
  #releasing: readonly number[] = [];
  /** The partitions that this node will take, computed at each renewal of its lease. */
  #wanted: readonly number[] = [];
  /** The partitions that belong to this node in the store although it neither serves nor wants them, computed at each renewal. */
  #strays: readonly number[] = [];
  /** The partitions that this node handed over last. */
  #givenUp: readonly number[] = [];
  readonly #freeSince = new Map<number, number>();
  /** Partitions with data that the engine cannot read. */
  readonly #unreadable = new Set<number>();

  constructor(settings: Partial<OwnershipSettings> = {}) {
    this.#settings = { ...OWNERSHIP_SETTINGS, ...settings };
  }

  /** Applies an input. Outputs come from `advance`. */
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
        // The partitions to take or release are forgotten. The next renewal shows the present state and decides anew.
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
        this.#lose(this.#inYield(input.yield), "the partition could not be handed over");
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

  /** Does everything that is possible now. Returns outputs, which the driver performs in order. */
  advance(now: number): OwnershipOutput[] {
    this.#pass(now);
    if (this.#call === null) this.#callNext();
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  /** Returns when `advance` has to be called next if no input arrives before; Infinity if it need not be called. */
  nextWakeAt(): number {
    if (this.#status === "left") return Number.POSITIVE_INFINITY;
    const lapseAt = this.#isMember ? this.#actUntil : Number.POSITIVE_INFINITY;
    return this.#call === null ? Math.min(lapseAt, this.#renewAt) : lapseAt;
  }

  /** Whether the node may act as the owner of its partitions now. */
  mayAct(now: number): boolean {
    return this.#isMember && now < this.#actUntil;
  }

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

  /** Advances the time before an input is applied. If the lease may have ended by then, all partitions are dropped first. */
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
    assert(
      call !== null && this.#call === call,
      `an answer must belong to the call that is under way (${call})`,
    );
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

  /** Whether a partition has data that this node cannot read, and a member of a newer version could own it. */
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

  /** Returns when the next lease of another node ends if it is not renewed. That node's partitions are then free. */
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

  /** Compares the partitions in the store's answer with those that the engine serves. If they differ, the store is right. */
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
    this.#lose(lost, "this node does not own the partition any more");
    this.#wanted = wanted;
    this.#strays = strays;
  }

  /**
   * Hands over partitions that are assigned to other nodes, a few at a time. A partition that was taken because it had no owner is kept
   * for a while, unless the members change.
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
    // The node is leaving and has done nothing in these epochs. It does not pass on the data of the last owner, so the partitions are
    // released as unclean.
    if (this.#status === "leaving") {
      this.#strays = owned.map(({ partition }) => partition);
      return;
    }
    for (const { partition, epoch } of owned) {
      assert(!this.#held.has(partition), "a partition that the node holds must not be taken again");
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

  /** Makes the next call to the store. Only one call is under way at a time, so that each answer describes the present state. */
  #callNext(): void {
    if (this.#status === "left") return;
    // A leaving node that owns nothing does not renew its lease. If `leave` had its effect although it seemed to fail, a renewal would
    // join the cluster again.
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
      assert(held !== undefined, "a partition that is yielded must be held by the node");
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
