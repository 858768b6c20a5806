/** Handles the inputs of a node from its cluster: partitions, quotas, members, timers and mail. */
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { AfterCommit } from "../commit/after-commit.ts";
import type { ClusterInput, Members } from "../io.ts";
import { recordConfirmed } from "../leases/report-intake.ts";
import { QuotaExchange } from "../limits/quota-exchange.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { NodeState } from "../node-state.ts";
import type { PostOpQueue } from "../post-ops/post-op-queue.ts";
import type { TimerQueue } from "../timers/timer-queue.ts";
import { PartitionOwnership } from "./partition-ownership.ts";

interface NodeParts {
  readonly cache: ExecutionCache;
  readonly timers: TimerQueue;
  readonly mailbox: Mailbox;
  readonly afterCommit: AfterCommit;
  readonly postOps: PostOpQueue;
}

export class PartitionReads {
  readonly #node: NodeState;
  readonly #mailbox: Mailbox;
  readonly #timers: TimerQueue;
  readonly #afterCommit: AfterCommit;
  readonly ownership: PartitionOwnership;
  readonly permits: QuotaExchange;

  constructor(node: NodeState, parts: NodeParts) {
    this.#node = node;
    this.#mailbox = parts.mailbox;
    this.#timers = parts.timers;
    this.#afterCommit = parts.afterCommit;
    this.ownership = new PartitionOwnership(node, parts);
    this.permits = new QuotaExchange(node);
  }

  #members(members: Members): void {
    const node = this.#node;
    const before = node.writes;
    this.permits.members(members);
    if (node.writes <= before) return;
    // The last node of an older version has gone, so held-back executions can go on.
    for (const slot of [...node.slots.values()]) {
      if (slot.needs === 0 || node.isHeldBack(slot)) continue;
      slot.needs = 0;
      // @plant executions held back not resumed
      if (slot.status === "clean") this.#afterCommit.becameClean(slot);
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
      case "home-stored":
        return this.permits.stored(input);
      case "members":
        return this.#members(input);
      case "timers-due":
        for (const timer of input.timers)
          if (this.#node.tenures.of(timer.execution) !== undefined)
            this.#timers.remind(timer, this.#node.now);
        return;
      case "mail-stored":
        // @plant messages from other nodes not scanned
        return this.#mailbox.rescan();
    }
  }
}
