/** Limits between nodes: this node's words to the homes of limits, and those of the homes that are here. */
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";
import type { Membership } from "../../store/cluster-store.ts";
import type { ClusterInput, Members } from "../io.ts";
import { recordConfirmed } from "../leases/report-intake.ts";
import type { NodeState } from "../node-state.ts";

/**
 * Who is there, by the store's word. As long as partitions of a node that has gone are nobody else's, what runs there
 * counts as its own.
 */
export function membersOf({ incarnation, nodes, partitions }: Membership): Members {
  const there = new Set(nodes.map((node) => node.incarnation));
  for (const { owner } of partitions) if (owner !== null) there.add(owner);
  const epochs = new Map(partitions.map(({ partition, epoch }) => [partition, epoch]));
  const reads = Math.min(...nodes.map((node) => node.reads));
  return { self: incarnation, live: [...there], epochs, reads };
}

export class QuotaExchange {
  readonly #node: NodeState;
  /** Homes elsewhere that want to know all that there is. */
  readonly #toDeclare = new Set<number>();
  /** When nodes that have not said what they have are called again. */
  #callAt = Number.NEGATIVE_INFINITY;
  /** When homes are stored again after the store failed. */
  #storeAt = Number.NEGATIVE_INFINITY;

  constructor(node: NodeState) {
    this.#node = node;
  }

  /** Who is there. */
  members(told: Members): void {
    const { members, tenures, limits, now } = this.#node;
    const { self, live, epochs } = told;
    if (self !== members.self) limits.shares?.rename();
    this.#node.members = told;
    limits.moved(epochs, now);
    const there = new Set(live);
    for (const { home } of tenures.all()) home.members(there, now);
  }

  /** Says what there is to say; true: something was granted here. */
  ask(): boolean {
    const node = this.#node;
    const { tenures, limits, members, now } = node;
    if (limits.shares === null) return false;
    let isGranted = false;
    const elsewhere = new Map<number, PermitAsk[]>();
    for (const ask of limits.shares.asks(now)) {
      const partition = tenures.partitionOf(ask.name);
      const home = tenures.at(partition)?.home;
      if (home !== undefined) isGranted = this.#tell(home.asked(members.self, ask, now)) || isGranted;
      else elsewhere.set(partition, [...(elsewhere.get(partition) ?? []), ask]);
    }
    // After the asks: what is granted now is used before it is asked about.
    isGranted = this.#tick() || isGranted;
    isGranted = limits.useKept() || isGranted;
    for (const [partition, asks] of elsewhere) node.emit({ kind: "ask-permits", partition, asks });
    for (const partition of this.#toDeclare) this.#declare(partition);
    this.#toDeclare.clear();
    isGranted = this.#call() || isGranted;
    this.#store();
    return isGranted;
  }

  /** Another node says what it has; what is at home elsewhere by now it will say there. */
  asked({ node: from, asks, declares }: Extract<ClusterInput, { kind: "permits-asked" }>): void {
    const { tenures, now } = this.#node;
    for (const ask of asks) {
      const home = tenures.at(tenures.partitionOf(ask.name))?.home;
      if (home !== undefined) this.#tell(home.asked(from, ask, now));
    }
    for (const partition of declares) tenures.at(partition)?.home.declared(from);
  }

  /** Homes want to know what this node has. */
  called(partitions: readonly number[]): void {
    for (const partition of partitions) this.#toDeclare.add(partition);
  }

  /** A home was stored, or could not be: then it is tried again. */
  stored({ partition, epoch, isStored }: Extract<ClusterInput, { kind: "home-stored" }>): void {
    const tenure = this.#node.tenures.at(partition);
    if (tenure === undefined || tenure.epoch !== epoch) return;
    tenure.home.stored(isStored);
    if (!isStored) this.#storeAt = this.#node.now + this.#node.settings.permitPatienceMs;
  }

  nextAt(): number {
    const { tenures, limits } = this.#node;
    if (limits.shares === null) return Number.POSITIVE_INFINITY;
    let next = limits.shares.nextAt();
    for (const { home } of tenures.all()) {
      next = Math.min(next, home.nextAt(this.#node.now));
      if (home.awaited.size > 0) next = Math.min(next, this.#callAt);
      if (home.isUnstored) next = Math.min(next, this.#storeAt);
    }
    return next;
  }

  #store(): void {
    const { tenures, now } = this.#node;
    if (now < this.#storeAt) return;
    for (const { partition, home } of tenures.all()) {
      const unstored = home.takeUnstored();
      if (unstored !== null) this.#node.emit({ kind: "store-home", partition, home: unstored });
    }
  }

  /** Asks those whose word is needed before anything can be given out. */
  #call(): boolean {
    const { tenures, settings, members, now } = this.#node;
    if (now < this.#callAt) return false;
    let isGranted = false;
    const calls = new Map<string, number[]>();
    for (const { partition, home } of tenures.all())
      for (const node of home.awaited) calls.set(node, [...(calls.get(node) ?? []), partition]);
    for (const [node, partitions] of calls) {
      if (node === members.self)
        for (const partition of partitions) isGranted = this.#declareHere(partition) || isGranted;
      else this.#node.emit({ kind: "call-permits", node, partitions });
    }
    if (calls.size > 0) this.#callAt = now + settings.permitPatienceMs;
    return isGranted;
  }

  /** What this node has itself of the limits of a new home that is here. */
  #declareHere(partition: number): boolean {
    const { tenures, members } = this.#node;
    const home = tenures.at(partition)?.home;
    if (home === undefined) return false;
    let isGranted = false;
    for (const ask of this.#declarations(partition))
      isGranted = this.#tell(home.asked(members.self, ask, this.#node.now)) || isGranted;
    home.declared(members.self);
    return isGranted;
  }

  #declarations(partition: number): readonly PermitAsk[] {
    const { tenures, limits, now } = this.#node;
    return limits.shares?.declarations((name) => tenures.partitionOf(name) === partition, now) ?? [];
  }

  /** Everything of a partition's limits to their new home. */
  #declare(partition: number): void {
    if (this.#node.tenures.at(partition) !== undefined) return;
    const asks = this.#declarations(partition);
    this.#node.emit({ kind: "ask-permits", partition, asks, declares: true });
  }

  #tick(): boolean {
    const { tenures, now } = this.#node;
    let isGranted = false;
    for (const { home } of tenures.all()) {
      if (home.nextAt(now) > now) continue;
      for (const { node, grant } of home.tick(now))
        isGranted = this.#tell(new Map([[node, grant]])) || isGranted;
    }
    return isGranted;
  }

  #tell(told: ReadonlyMap<string, PermitGrant>): boolean {
    const { self } = this.#node.members;
    const own = told.get(self);
    if (own !== undefined) {
      this.#node.limits.granted(own);
      recordConfirmed(this.#node);
    }
    for (const [node, grant] of told)
      if (node !== self) this.#node.emit({ kind: "grant-permits", node, grants: [grant] });
    return own !== undefined;
  }
}
