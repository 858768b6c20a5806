/** Handles the inputs of a node from its cluster: partitions, quotas, members, timers and mail. */
import type { ClusterInput, Members } from "../io.ts";
import { recordConfirmed } from "../leases/report-intake.ts";
import { QuotaExchange } from "../limits/quota-exchange.ts";
import type { NodeState } from "../node-state.ts";
import { PartitionOwnership, type PartitionParts } from "./partition-ownership.ts";

export class PartitionReads {
  readonly #node: NodeState;
  readonly #parts: PartitionParts;
  readonly ownership: PartitionOwnership;
  readonly permits: QuotaExchange;

  constructor(node: NodeState, parts: PartitionParts) {
    this.#node = node;
    this.#parts = parts;
    this.ownership = new PartitionOwnership(node, parts);
    this.permits = new QuotaExchange(node);
  }

  #members(members: Members): void {
    const node = this.#node;
    const before = node.writes;
    this.permits.members(members);
    if (node.writes <= before) return;
    // All nodes of an older version have gone, so executions that were held back can continue.
    for (const slot of [...node.slots.values()]) {
      if (slot.needs === 0 || node.isHeldBack(slot)) continue;
      slot.needs = 0;
      // @plant executions held back not resumed
      if (slot.status === "clean") this.#parts.afterCommit.becameClean(slot);
    }
  }

  handle(input: ClusterInput): void {
    switch (input.kind) {
      case "taken":
        if (this.#node.roster.queued !== null)
          this.#node.emit({ kind: "took-over", worker: this.#node.roster.queued.id });
        return this.ownership.taken(input.owned, input.left);
      case "yield":
        return this.ownership.yield(input.partitions);
      case "lost":
        return this.ownership.lost(input.partitions);
      case "permits-asked":
        return this.permits.asked(input);
      case "permits-granted":
        for (const grant of input.grants) this.#node.limits.granted(grant);
        return recordConfirmed(this.#node);
      case "permits-called":
        return this.permits.called(input.partitions);
      case "quotas-stored":
        return this.permits.stored(input);
      case "members":
        return this.#members(input);
      case "timers-due":
        for (const timer of input.timers)
          if (this.#node.tenures.of(timer.execution) !== undefined)
            this.#parts.timers.remind(timer, this.#node.now);
        return;
      case "mail-stored":
        // @plant messages from other nodes not scanned
        return this.#parts.mailbox.rescan();
    }
  }
}
