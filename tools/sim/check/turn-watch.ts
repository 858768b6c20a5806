/**
 * Checks invariants after each turn: priorities are kept, no waiter at a limit is passed repeatedly, and attempts do not stay
 * open without a journaled start.
 */

import type { Slot } from "../../../src/engine/cache/slot.ts";
import type { Output } from "../../../src/engine/io.ts";
import { isLimited, waiterOf } from "../../../src/engine/limits/permits.ts";
import type { Held } from "../../../src/engine/limits/priority-holds.ts";
import type { Waiter } from "../../../src/engine/limits/wait-queue.ts";
import type { NodeState } from "../../../src/engine/node-state.ts";
import type { Grant } from "../../../src/protocol/work.ts";

/** A waiter at a limit, and how often others passed it. */
interface Passed {
  /** Differs after each call of the waiter. */
  readonly entry: Waiter;
  readonly by: Map<string, number>;
}

export class TurnWatch {
  /** Executions with commits under way before the turn, and the work that they hold back. */
  readonly #waiting = new Map<Slot, readonly Held[]>();
  /** Waiters that were passed, by limit and waiter. */
  #passed = new Map<string, Passed>();

  /** Returns the invariant that a turn with these outputs violates; null if all hold. */
  broken(node: NodeState, outputs: readonly Output[]): string | null {
    let broken: string | null = null;
    const committed = outputs.flatMap((output) => (output.kind === "commit" ? output.content.writes : []));
    // Work of a lost partition waits no more.
    const isSame = (slot: Slot) =>
      slot.status === "dirty" &&
      node.slots.get(slot.id) === slot &&
      !committed.some(({ execution }) => execution === slot.id);
    for (const slot of [...this.#waiting.keys()]) if (!isSame(slot)) this.#waiting.delete(slot);
    for (const output of outputs) {
      if (output.kind !== "grant") continue;
      broken ??= this.#brokenGrant(node, output.worker, output.grant);
    }
    this.#note(node);
    return broken ?? unrecordedStart(node);
  }

  #brokenGrant(node: NodeState, workerId: string, grant: Grant): string | null {
    const slot = node.slots.get(grant.execution);
    const queue = slot?.handlerQueue(grant);
    const worker = node.roster.workers.get(workerId);
    if (slot === undefined || queue === undefined || worker === undefined) return null;
    const { priority } = queue.state.plan;
    const leases = grant.items.flatMap(({ number }) => queue.leases.get(number) ?? []);
    // Recorded starts and enumerations with a mark were granted in an earlier turn.
    const isCareful =
      grant.do === "enumerate" || leases.some(({ task }) => queue.state.tasks.startOf(task) !== undefined);
    for (const [other, held] of isCareful ? [] : this.#waiting) {
      const higher = held.find(
        (one) =>
          one.project === slot.execution?.project &&
          one.priority > priority &&
          node.roster.servedBy(worker, one.wanted, one.project) !== undefined,
      );
      if (higher !== undefined)
        return `${slot.id} of priority ${priority} is given out while ${other.id} of ${higher.priority} waits for its commit`;
    }
    const { id } = waiterOf(slot, queue);
    for (const { permits } of leases) {
      for (const name of permits) {
        const limit = node.limits.find(name);
        for (const waiter of node.limits.waiting(name)) {
          const passed = this.#passed.get(`${name} ${waiter.id}`);
          if (passed?.entry !== waiter || waiter.priority < priority || waiter.id.startsWith(id)) continue;
          const times = (passed.by.get(id) ?? 0) + 1;
          passed.by.set(id, times);
          if (times > 2 * (limit?.max ?? 0) + 4)
            return `limit ${name}: ${id} was given ${times} permits past ${waiter.id}, which waits`;
        }
      }
    }
    return null;
  }

  /** Notes the state after the turn. */
  #note(node: NodeState): void {
    for (const slot of node.slots.values())
      if (slot.status === "dirty" && !this.#waiting.has(slot)) this.#waiting.set(slot, heldBy(node, slot));
    const passed = new Map<string, Passed>();
    for (const [name] of node.limits.states()) {
      for (const entry of node.limits.waiting(name)) {
        const key = `${name} ${entry.id}`;
        const before = this.#passed.get(key);
        passed.set(key, before?.entry === entry ? before : { entry, by: new Map() });
      }
    }
    this.#passed = passed;
  }
}

/** How long a start that is due may wait for others. */
const GATHER_MS = 100;

/** An attempt that should have a journaled start by now, or a commit under way for it. */
function unrecordedStart(node: NodeState): string | null {
  const { startAfterMs } = node.settings;
  for (const slot of node.slots.values()) {
    if (slot.status !== "clean" || slot.queue.length > 0 || node.isHeldBack(slot)) continue;
    for (const { leases, state } of slot.queues)
      for (const { task, startedAt, recorded, reported, isAdopted, confirmBy } of leases.values()) {
        if (task < 0 || startedAt === 0 || recorded || reported || confirmBy !== undefined) continue;
        // After a failed commit it is not known whether the start was recorded before.
        if (state.tasks.startOf(task) !== undefined) continue;
        if (isAdopted === true || startedAt + startAfterMs + GATHER_MS < node.now)
          return `${slot.id}: task ${task} has been open since ${startedAt}, and its start is not journaled`;
      }
  }
  return null;
}

/** The work that an execution can give out after its commit, if no limit or time prevents it. */
function heldBy(node: NodeState, slot: Slot): Held[] {
  const { execution } = slot;
  if (execution?.open !== true || slot.tenure.isYielding) return [];
  const { project } = execution;
  return slot.queues.flatMap((queue) => {
    const { plan, finished } = queue.state;
    const isReady = plan.mode !== "workflow" && !plan.waits && !finished && queue.hasTasks(node.now);
    return isReady && !isLimited(node, slot, queue)
      ? [{ project, priority: plan.priority, wanted: plan.wanted }]
      : [];
  });
}
