/** Limits between nodes: this node's words to the homes of limits, and those of the homes that are here. */
import type { PermitAsk, PermitGrant } from "../protocol/permits.ts";
import type { NodeState } from "./node-state.ts";

export class PermitHomes {
  readonly #node: NodeState;

  constructor(node: NodeState) {
    this.#node = node;
  }

  /** Says what there is to say; true: something was granted here. */
  ask(): boolean {
    const node = this.#node;
    const { tenures, limits, settings, now } = node;
    const asks = limits.shares?.asks(now) ?? [];
    let isGranted = this.#tick();
    const elsewhere = new Map<number, PermitAsk[]>();
    for (const ask of asks) {
      const partition = tenures.partitionOf(ask.name);
      const home = tenures.at(partition)?.home;
      if (home !== undefined) isGranted = this.#tell(home.asked(settings.node, ask, now)) || isGranted;
      else elsewhere.set(partition, [...(elsewhere.get(partition) ?? []), ask]);
    }
    for (const [partition, some] of elsewhere) node.emit({ kind: "ask-permits", partition, asks: some });
    return isGranted;
  }

  /** Another node says what it has; what is at home elsewhere by now it will ask there. */
  asked(from: string, asks: readonly PermitAsk[]): void {
    const { tenures, now } = this.#node;
    for (const ask of asks) {
      const home = tenures.at(tenures.partitionOf(ask.name))?.home;
      if (home !== undefined) this.#tell(home.asked(from, ask, now));
    }
  }

  nextAt(): number {
    const { tenures, limits } = this.#node;
    let next = limits.shares?.nextAt() ?? Number.POSITIVE_INFINITY;
    if (!tenures.isWhole) for (const { home } of tenures.all()) next = Math.min(next, home.nextAt());
    return next;
  }

  #tick(): boolean {
    const { tenures, now } = this.#node;
    let isGranted = false;
    if (tenures.isWhole) return false;
    for (const { home } of tenures.all()) {
      if (home.nextAt() > now) continue;
      for (const { node, grant } of home.tick(now))
        isGranted = this.#tell(new Map([[node, grant]])) || isGranted;
    }
    return isGranted;
  }

  #tell(told: ReadonlyMap<string, PermitGrant>): boolean {
    const { node: self } = this.#node.settings;
    const own = told.get(self);
    if (own !== undefined) this.#node.limits.granted(own, this.#node.now);
    for (const [node, grant] of told)
      if (node !== self) this.#node.emit({ kind: "grant-permits", node, grants: [grant] });
    return own !== undefined;
  }
}
