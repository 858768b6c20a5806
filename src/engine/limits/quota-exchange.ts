/** Exchanges quotas between nodes: requests of this node to quota servers, and grants of the quota servers on this node. */
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";
import type { Membership } from "../../store/cluster-store.ts";
import type { ClusterInput, Members } from "../io.ts";
import { recordConfirmed } from "../leases/report-intake.ts";
import type { NodeState } from "../node-state.ts";
import type { Tenure } from "../partitions/tenures.ts";

/** Returns the members of the cluster in the form that the engine uses. */
export function membersOf({ incarnation, nodes, ended, partitions }: Membership): Members {
  const epochs = new Map(partitions.map(({ partition, epoch }) => [partition, epoch]));
  const reads = Math.min(...nodes.map((node) => node.reads));
  return { self: incarnation, live: nodes.map((node) => node.incarnation), ended, epochs, reads };
}

export class QuotaExchange {
  readonly #node: NodeState;
  /** Partitions to whose new quota servers this node must declare all its permits. */
  readonly #toDeclare = new Set<number>();
  /** The time at which nodes that have not declared their permits are asked again. */
  #callAt = Number.NEGATIVE_INFINITY;
  /** The time at which quotas are stored again after the store has failed. */
  #storeAt = Number.NEGATIVE_INFINITY;

  constructor(node: NodeState) {
    this.#node = node;
  }

  /** Applies the members of the cluster. */
  members(told: Members): void {
    const { members, tenures, limits, now } = this.#node;
    const { self, live, ended, epochs } = told;
    if (self !== members.self) limits.shares?.rename();
    this.#node.members = told;
    limits.moved(epochs, now);
    const there = new Set(live);
    for (const tenure of tenures.all()) {
      tenure.quotas.members(there, ended, now);
      if (!tenure.quotas.isIdle) tenures.withQuotas.add(tenure);
    }
  }

  /** Sends all pending requests and grants. Returns true if this node was granted permits. */
  exchange(): boolean {
    const node = this.#node;
    const { tenures, limits, members, now } = node;
    if (limits.shares === null) return false;
    let isGranted = false;
    const elsewhere = new Map<number, PermitAsk[]>();
    for (const ask of limits.shares.asks(now)) {
      const partition = tenures.partitionOf(ask.name);
      const tenure = tenures.at(partition);
      if (tenure !== undefined) isGranted = this.#deliver(this.#ask(tenure, members.self, ask)) || isGranted;
      else elsewhere.set(partition, [...(elsewhere.get(partition) ?? []), ask]);
    }
    // The quota servers of this node run after its own requests, so that permits that are granted now can be used before they are
    // reported.
    isGranted = this.#tick() || isGranted;
    isGranted = limits.useKept() || isGranted;
    for (const [partition, asks] of elsewhere) node.emit({ kind: "ask-permits", partition, asks });
    for (const partition of this.#toDeclare) this.#declare(partition);
    this.#toDeclare.clear();
    isGranted = this.#call() || isGranted;
    this.#store();
    for (const tenure of tenures.withQuotas) if (tenure.quotas.isIdle) tenures.withQuotas.delete(tenure);
    return isGranted;
  }

  /** Applies a request at the quota server of this node; returns the grants to send. */
  #ask(tenure: Tenure, node: string, ask: PermitAsk): ReadonlyMap<string, PermitGrant> {
    this.#node.tenures.withQuotas.add(tenure);
    return tenure.quotas.asked(node, ask, this.#node.now);
  }

  /** Answers requests of another node. If a quota server has moved, that node repeats its requests to the new one. */
  asked({ node: from, asks, declares }: Extract<ClusterInput, { kind: "permits-asked" }>): void {
    const { tenures } = this.#node;
    for (const ask of asks) {
      const tenure = tenures.at(tenures.partitionOf(ask.name));
      if (tenure !== undefined) this.#deliver(this.#ask(tenure, from, ask));
    }
    for (const partition of declares) tenures.at(partition)?.quotas.declared(from);
  }

  /** Called when new quota servers ask this node to declare its permits. */
  called(partitions: readonly number[]): void {
    for (const partition of partitions) this.#toDeclare.add(partition);
  }

  /** Called when quotas were stored, or could not be stored; a failed write is repeated. */
  stored({ partition, epoch, isStored }: Extract<ClusterInput, { kind: "quotas-stored" }>): void {
    const tenure = this.#node.tenures.at(partition);
    if (tenure === undefined || tenure.epoch !== epoch) return;
    tenure.quotas.stored(isStored);
    this.#node.tenures.withQuotas.add(tenure);
    if (!isStored) this.#storeAt = this.#node.now + this.#node.settings.permitPatienceMs;
  }

  nextAt(): number {
    const { tenures, limits } = this.#node;
    if (limits.shares === null) return Number.POSITIVE_INFINITY;
    let next = limits.shares.nextAt();
    for (const { quotas } of tenures.withQuotas) {
      next = Math.min(next, quotas.nextAt(this.#node.now));
      if (quotas.undeclaredNodes.size > 0) next = Math.min(next, this.#callAt);
      if (quotas.isUnstored) next = Math.min(next, this.#storeAt);
    }
    return next;
  }

  #store(): void {
    const { tenures, now } = this.#node;
    if (now < this.#storeAt) return;
    for (const { partition, quotas } of tenures.withQuotas) {
      const unstored = quotas.drainUnstored();
      if (unstored !== null) this.#node.emit({ kind: "store-quotas", partition, home: unstored });
    }
  }

  /** Asks nodes for the declarations without which permits cannot be granted. */
  #call(): boolean {
    const { tenures, settings, members, now } = this.#node;
    if (now < this.#callAt) return false;
    let isGranted = false;
    const calls = new Map<string, number[]>();
    for (const { partition, quotas } of tenures.withQuotas)
      for (const node of quotas.undeclaredNodes) calls.set(node, [...(calls.get(node) ?? []), partition]);
    for (const [node, partitions] of calls) {
      if (node === members.self)
        for (const partition of partitions) isGranted = this.#declareHere(partition) || isGranted;
      else this.#node.emit({ kind: "call-permits", node, partitions });
    }
    if (calls.size > 0) this.#callAt = now + settings.permitPatienceMs;
    return isGranted;
  }

  /** Declares the permits of this node to a new quota server that is also on this node. */
  #declareHere(partition: number): boolean {
    const { tenures, members } = this.#node;
    const tenure = tenures.at(partition);
    if (tenure === undefined) return false;
    let isGranted = false;
    for (const ask of this.#declarations(partition))
      isGranted = this.#deliver(this.#ask(tenure, members.self, ask)) || isGranted;
    tenure.quotas.declared(members.self);
    return isGranted;
  }

  #declarations(partition: number): readonly PermitAsk[] {
    const { tenures, limits, now } = this.#node;
    return limits.shares?.declarations((name) => tenures.partitionOf(name) === partition, now) ?? [];
  }

  /** Declares the permits of this node to the new quota server of a partition. */
  #declare(partition: number): void {
    if (this.#node.tenures.at(partition) !== undefined) return;
    const asks = this.#declarations(partition);
    this.#node.emit({ kind: "ask-permits", partition, asks, declares: true });
  }

  #tick(): boolean {
    const { tenures, now } = this.#node;
    let isGranted = false;
    for (const { quotas } of tenures.withQuotas) {
      if (quotas.nextAt(now) > now) continue;
      for (const { node, grant } of quotas.tick(now))
        isGranted = this.#deliver(new Map([[node, grant]])) || isGranted;
    }
    return isGranted;
  }

  #deliver(told: ReadonlyMap<string, PermitGrant>): boolean {
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
