/**
 * Handles the partitions of a node. A partition that is taken is scanned as after a start. A partition that is yielding grants no
 * leases, and is released when no commit of it is in progress. A partition that is lost is dropped at once, and its pending requests
 * are answered with the advice to ask the new owner.
 */
import { isPlainId } from "../../kernel/definition/names.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { Ownership } from "../../store/store.ts";
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { Slot } from "../cache/slot.ts";
import type { AfterCommit } from "../commit/after-commit.ts";
import { type Handover, leaseTable, noteHandedOver } from "../leases/lease-handover.ts";
import { requestStop } from "../leases/report-intake.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { NodeState } from "../node-state.ts";
import type { PostOpQueue } from "../post-ops/post-op-queue.ts";
import type { PostOpTask } from "../post-ops/post-ops.ts";
import type { TimerQueue } from "../timers/timer-queue.ts";
import type { Tenure } from "./tenures.ts";

export interface PartitionParts {
  readonly cache: ExecutionCache;
  readonly timers: TimerQueue;
  readonly mailbox: Mailbox;
  readonly afterCommit: AfterCommit;
  readonly postOps: PostOpQueue;
}

export function notOwner(execution: string) {
  return reject("not_owner", `execution ${execution} is at another node`, { hint: "ask again" });
}

/** The rejection of a request about an execution that waits for the end of an upgrade of the cluster. */
export function heldBack(execution: string): Rejection {
  if (!isPlainId(execution))
    return reject(
      "not_ready",
      `the id ${JSON.stringify(execution)} cannot be used while a node of an older version is in the cluster`,
      { hint: "use letters, digits, _ : and -, or try again when the older nodes have been replaced" },
    );
  return reject("not_ready", `execution ${execution} waits until every node of the cluster is upgraded`, {
    hint: "ask again when the older nodes have been replaced",
  });
}

/** Returns why a request about an execution is refused now; null if it is accepted. */
export function whyNotTaken(node: NodeState, execution: string): Rejection | null {
  const tenure = node.tenures.of(execution);
  if (tenure === undefined || tenure.isYielding) return notOwner(execution);
  const slot = node.slots.get(execution);
  return slot !== undefined && node.isHeldBack(slot) ? heldBack(execution) : null;
}

export class PartitionOwnership {
  readonly #node: NodeState;
  readonly #parts: PartitionParts;
  readonly #yielding = new Set<Tenure>();

  constructor(node: NodeState, parts: PartitionParts) {
    this.#node = node;
    this.#parts = parts;
  }

  taken(owned: readonly Ownership[], { leases, quotas, declared, stored }: Handover): void {
    const node = this.#node;
    const { cache, timers, mailbox } = this.#parts;
    // If the node gets a partition again without a notice that it had lost it, data in memory is of the former tenure. It is dropped.
    this.lost(owned.map(({ partition }) => partition));
    const { live, ended } = node.members;
    node.tenures.take(owned, node.now, { quotas, live, ended, stored });
    // @plant handed-over leases forgotten
    noteHandedOver(node, leases, declared);
    for (const { execution } of leases) cache.slot(execution);
    // @plant work of new partitions not scanned
    cache.rescan();
    timers.rescan();
    mailbox.rescan();
  }

  yield(partitions: readonly number[]): void {
    for (const partition of partitions) {
      const tenure = this.#node.tenures.at(partition);
      if (tenure === undefined || tenure.isYielding) continue;
      tenure.isYielding = true;
      this.#yielding.add(tenure);
    }
  }

  /** Releases yielding partitions that have no commit in progress. */
  release(): void {
    const released: number[] = [];
    for (const tenure of this.#yielding) {
      // @plant lease table written before commits end
      if (!this.#isQuiet(tenure)) continue;
      const leases = leaseTable(this.#node, tenure);
      // Waits for attempts in this process to end, except for executions whose reports are held back. With those, the end of the
      // tenure is unclean.
      const isHeldBack = () => [...tenure.slots.values()].some((slot) => this.#node.isHeldBack(slot));
      if (leases === null && !isHeldBack()) continue;
      this.#yielding.delete(tenure);
      const { partition } = tenure;
      this.#node.emit({
        kind: "yielded",
        partition,
        // @plant suspects handed over as clean
        leases: this.#hasSuspects(tenure) ? null : leases,
      });
      released.push(partition);
    }
    // All at once: each call scans the timers, mail and limits in memory.
    // @plant partition kept after a yield
    if (released.length > 0) this.lost(released);
  }

  #isQuiet({ slots }: Tenure): boolean {
    for (const slot of slots.values())
      if (slot.status === "dirty" || (slot.queue.length > 0 && !this.#node.isHeldBack(slot))) return false;
    return true;
  }

  /** Whether attempts of a former owner may still run in the partition. */
  #hasSuspects(tenure: Tenure): boolean {
    for (const slot of tenure.slots.values()) if (slot.suspects.length > 0) return true;
    return this.#node.hasSuspects((execution) => this.#node.tenures.of(execution) === tenure);
  }

  lost(partitions: readonly number[]): void {
    const node = this.#node;
    const ended = new Map<number, Tenure>();
    for (const partition of partitions) {
      const tenure = node.tenures.at(partition);
      if (tenure === undefined) continue;
      ended.set(partition, tenure);
      this.#yielding.delete(tenure);
      node.tenures.end(tenure);
      for (const slot of [...tenure.slots.values()]) this.#drop(slot);
    }
    if (ended.size === 0) return;
    const isOver = (execution: string) => ended.has(node.tenures.partitionOf(execution));
    node.roster.queued?.forget(isOver);
    // Drops grants and post-operations that were not sent yet, because a node must not act for a partition that it has lost.
    const unperformed: PostOpTask[] = [];
    node.outputs = node.outputs.filter((output) => {
      if (output.kind === "grant") return !isOver(output.grant.execution);
      if (output.kind !== "perform" || !isOver(output.task.execution)) return true;
      unperformed.push(output.task);
      return false;
    });
    this.#parts.postOps.releaseUnstarted(unperformed);
    this.#parts.mailbox.forget(isOver);
    this.#parts.timers.forget(isOver);
    node.limits.forget(isOver);
    for (const execution of [...node.suspects.keys()]) if (isOver(execution)) node.suspects.delete(execution);
    for (const [execution, leases] of node.handedOver) {
      if (!isOver(execution)) continue;
      node.handedOver.delete(execution);
      const { partition, epoch } = ended.get(node.tenures.partitionOf(execution)) as Tenure;
      for (const { permits } of leases)
        for (const permit of permits)
          node.limits.linger(permit, { partition, epoch, ms: node.settings.takeoverMs });
    }
  }

  #drop(slot: Slot): void {
    const node = this.#node;
    const { afterCommit, cache } = this.#parts;
    for (const queued of slot.queue.splice(0)) afterCommit.turnAway(slot.id, queued);
    for (const { request } of slot.inspections.splice(0))
      node.emit({ kind: "inspected", request, inspection: notOwner(slot.id) });
    for (const queue of slot.allQueues) {
      for (const lease of [...queue.leases.values()]) {
        // Attempts at remote workers report to the new owner. Attempts in this process are stopped.
        if (lease.local && !lease.reported) requestStop(node, slot, { queue, lease }, "lost");
        // The attempt keeps its permits here until the new owner has adopted it or declared it lost.
        const silenceMs = slot.tenure.isYielding ? 0 : node.heartbeatMs(queue.state.plan);
        const { partition, epoch } = slot.tenure;
        const ms = node.settings.takeoverMs + silenceMs;
        node.endLease(queue, lease, node.tenures.isWhole ? null : { partition, epoch, ms });
      }
    }
    cache.evict(slot);
    node.suspects.delete(slot.id);
  }
}
