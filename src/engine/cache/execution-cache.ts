/**
 * The cache of executions. It holds executions with work, up to a window; executions with messages; and a few idle ones (LRU).
 * Scans load more work as room becomes free, oldest first for each pair of project and workflow, so that no pair keeps another
 * out.
 */

import type { Plan } from "../../kernel/definition/plan.ts";
import { assert } from "../../std/assert.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { DAMAGED, type LoadedExecution, type StoredHead, workKey } from "../../store/store.ts";
import { forgetSent, SentSlots } from "../dispatch/sent-commands.ts";
import { isServed, mayBeServed } from "../dispatch/served.ts";
import type { NodeState } from "../node-state.ts";
import { StoreScan } from "../store-scan.ts";
import { declareDamaged, dropAttempts, type Found, refuseDamaged } from "./damages.ts";
import { canWant, hashInJournal, restoreSlot } from "./restore-execution.ts";
import { type Queued, Slot } from "./slot.ts";

interface OwnershipView {
  becameClean(slot: Slot): void;
  /** Replies to a message that was not applied because another node owns its execution. */
  turnAway(execution: string, queued: Queued): void;
  /** Refuses a message, because its execution is damaged. */
  refuse(queued: Queued, why: Rejection): void;
  /** Called when a damaged execution can be read again: the node works on it again. */
  mended(slot: Slot): void;
}

export class ExecutionCache {
  readonly #node: NodeState;
  readonly #toLoad: string[] = [];
  readonly #loading = new Set<string>();
  #loads = 0;
  readonly #purging = new Set<string>();
  readonly #waitingForPlan = new Map<string, { slot: Slot; loaded: LoadedExecution }[]>();
  /** Clean slots that have nothing to do, oldest first. */
  readonly #idle = new TransientMap<string, Slot>();
  readonly #sent: SentSlots;
  /** Whether the store may have executions with work that are not in memory. */
  #backlog = true;
  readonly #scan = new StoreScan();
  #after: Record<string, number> = {};
  #working = 0;
  /** The number of executions with work in memory, by (project, workflow) pair. */
  readonly #perPair = new Map<string, number>();
  /** (project, workflow) pairs that have more work in the store. */
  readonly #behind = new Set<string>();
  /**
   * The (project, workflow) pairs that got more work in the store during a scan. The value is true if that work is in new executions
   * only.
   */
  readonly #meanwhile = new Map<string, boolean>();

  readonly #ownership: () => OwnershipView;
  readonly #isMailKnown: () => boolean;
  /**
   * Slots of executions that seem to be readable again. They wait until the mailbox is scanned, because a message to them may be
   * damaged too.
   */
  readonly #waitingForMail = new Set<Slot>();

  constructor(node: NodeState, ownership: () => OwnershipView, isMailKnown: () => boolean) {
    this.#node = node;
    this.#sent = new SentSlots(node);
    this.#ownership = ownership;
    this.#isMailKnown = isMailKnown;
  }

  /** Returns the slot of an execution, and loads the execution if it is not in memory. */
  slot(id: string): Slot {
    const known = this.#node.slots.get(id);
    if (known !== undefined) {
      this.#idle.delete(id);
      this.#sent.delete(known);
      return known;
    }
    const slot = this.#newSlot(id);
    this.#load(id);
    return slot;
  }

  /** Makes a slot for an execution with a newly generated id, which cannot be in the store. */
  freshSlot(id: string): Slot {
    const slot = this.#newSlot(id);
    slot.status = "clean";
    return slot;
  }

  #newSlot(id: string): Slot {
    const tenure = this.#node.tenures.of(id);
    assert(tenure !== undefined, "only executions of this node's partitions are in memory");
    const slot = new Slot(id, tenure);
    this.#node.slots.set(id, slot);
    tenure.slots.set(id, slot);
    return slot;
  }

  /** Whether an execution that was just counted may stay in memory. The first execution of a (project, workflow) pair always may. */
  hasRoomBeside(pair: string): boolean {
    return this.#working <= this.#node.settings.windowMax || this.#perPair.get(pair) === 1;
  }

  /** Records that an execution of this (project, workflow) pair waits in the store. */
  noteBacklog(pair: string, isNew: boolean): void {
    this.#backlog = true;
    this.#behind.add(pair);
    // A new execution comes after the cursor of the scan. Another execution may be before the cursor, so the scan of its pair starts
    // again.
    if (!isNew) delete this.#after[pair];
    if (this.#scan.isRunning) this.#meanwhile.set(pair, isNew && (this.#meanwhile.get(pair) ?? true));
  }

  /** Scans all work in the store again, because new workers may serve executions that the last scan skipped. */
  rescan(): void {
    this.#after = {};
    this.#backlog = true;
    this.#scan.invalidate();
    for (const slot of this.#node.slots.values()) this.count(slot);
  }

  /** Drops the state of an execution after a failed commit and loads it again. Its queued messages stay. */
  drop(slot: Slot): void {
    slot.reset();
    this.#load(slot.id);
  }

  /** Loads an execution again with its whole journal, because a part of it could not be read. */
  recheck(slot: Slot): void {
    slot.isDoubted = true;
    if (slot.status === "clean") this.drop(slot);
  }

  get working(): number {
    return this.#working;
  }
  get loading(): number {
    return this.#loading.size;
  }

  #load(id: string): void {
    this.#toLoad.push(id);
    this.#loading.add(id);
  }

  /** Purges the executions that have ended and are not in use. Loads of them wait until the purge is done. */
  purge(ids: readonly string[]): void {
    const node = this.#node;
    const free = ids.filter((id) => {
      if (node.tenures.of(id) === undefined) return false;
      const slot = node.slots.get(id);
      if (slot === undefined) return true;
      const isOver = slot.execution?.ended === true && slot.execution.postops.size === 0;
      const isIdle = slot.status === "clean" && slot.queue.length === 0 && isOver;
      if (isIdle) this.evict(slot);
      return isIdle;
    });
    if (free.length === 0) return;
    // @plant execution read while it is purged
    for (const id of free) this.#purging.add(id);
    node.dropped.forget(free);
    node.emit({ kind: "purge", ids: free });
  }

  /** Handles the end of a purge, or its failure. New executions with these ids get other attempt ids than the old ones. */
  purged(ids: readonly string[]): void {
    for (const id of ids) {
      this.#purging.delete(id);
      this.#node.suspects.delete(id);
      const tenure = this.#node.tenures.of(id);
      if (tenure !== undefined) tenure.lapses++;
    }
  }

  /** Emits the loads and the scan of the store that are needed now. */
  requestReads(): void {
    const node = this.#node;
    if (this.#waitingForMail.size > 0 && this.#isMailKnown()) this.#loadWaiting();
    const ids = this.#toLoad.splice(0);
    if (this.#purging.size > 0) this.#toLoad.push(...ids.filter((id) => this.#purging.has(id)));
    const free = this.#toLoad.length === 0 ? ids : ids.filter((id) => !this.#purging.has(id));
    if (free.length > 0) {
      this.#loads++;
      for (const id of free) {
        const slot = node.slots.get(id);
        if (slot !== undefined) slot.load = this.#loads;
      }
      const isDoubted = (id: string): boolean => node.slots.get(id)?.isDoubted === true;
      const [doubted, others] = [free.filter(isDoubted), free.filter((id) => !isDoubted(id))];
      if (others.length > 0) node.emit({ kind: "load", ids: others, load: this.#loads });
      if (doubted.length > 0) node.emit({ kind: "load", ids: doubted, load: this.#loads, whole: true });
    }
    if (!this.#backlog || this.#scan.isRunning || node.closing) return;
    const isThin =
      this.#working < node.settings.windowMax / 2 ||
      [...this.#behind].some((pair) => !this.#perPair.has(pair));
    if (!isThin) return;
    this.#scan.start();
    node.emit({
      kind: "scan-work",
      after: { ...this.#after },
      each: Math.max(16, node.settings.windowMax / 8),
      partitions: node.tenures.scope,
    });
  }

  scanned(heads: readonly StoredHead[], each: number): void {
    const isStale = this.#scan.finish();
    const perPair = new Map<string, number>();
    const coming = new Set<string>();
    const cut = new Set<string>();
    const { windowMax } = this.#node.settings;
    this.#behind.clear();
    for (const head of heads) {
      const pair = workKey(head.project, head.workflow);
      const seen = (perPair.get(pair) ?? 0) + 1;
      perPair.set(pair, seen);
      if (seen >= each) this.#behind.add(pair);
      if (cut.has(pair) || this.#node.tenures.of(head.id) === undefined) continue;
      const known = this.#node.slots.get(head.id);
      if (known !== undefined) known.wasPassed = true;
      if (known === undefined && mayBeServed(this.#node, head)) {
        const isFirst = !this.#perPair.has(pair) && !coming.has(pair);
        if (this.#working + this.#toLoad.length >= windowMax && !isFirst) {
          // The other executions of this (project, workflow) pair stay in the store, so the cursor of the scan stays here for this
          // pair.
          cut.add(pair);
          this.#behind.add(pair);
          continue;
        }
        coming.add(pair);
        this.slot(head.id);
      }
      this.#after[pair] = Math.max(this.#after[pair] ?? 0, head.order);
    }
    for (const [pair, isNew] of this.#meanwhile) {
      this.#behind.add(pair);
      if (!isNew) delete this.#after[pair];
    }
    this.#meanwhile.clear();
    this.#backlog = this.#behind.size > 0;
    if (!isStale) return;
    this.#after = {};
    this.#backlog = true;
  }

  loaded(load: number, id: string, loaded: LoadedExecution | null): void {
    const slot = this.#node.slots.get(id);
    // Ignores the result of an earlier load, which may be older than a commit since then.
    if (slot === undefined || slot.status !== "loading" || slot.load !== load) return;
    if (loaded === null) {
      this.#node.damagedMail.delete(id);
      this.#node.suspects.delete(id);
      return this.#ready(slot);
    }
    const { head, damage } = loaded;
    if (damage !== undefined) return this.#damaged(slot, { damage, head, readable: null });
    // The damaged row may be one that the snapshot covers: only the whole journal shows that it is repaired.
    // @plant damaged execution mended by its snapshot
    if (head.status === DAMAGED && loaded.snapshot !== null && !slot.isDoubted) return this.#doubt(slot);
    const hash = slot.isDoubted ? hashInJournal(loaded) : head.hash;
    const plan = this.#node.plans.get(hash);
    if (plan !== undefined) return this.#restore(slot, loaded, plan);
    const waiting = this.#waitingForPlan.get(hash);
    if (waiting !== undefined) waiting.push({ slot, loaded });
    else {
      this.#waitingForPlan.set(hash, [{ slot, loaded }]);
      this.#node.emit({ kind: "get-definition", hash });
    }
  }

  /**
   * Called when a definition was loaded from the store. `damage` is given if it is damaged. A null plan without `damage` means that a
   * newer version of Rondo wrote the definition.
   */
  definition(hash: string, plan: Plan | null, damage?: string): void {
    const waiting = this.#waitingForPlan.get(hash) ?? [];
    this.#waitingForPlan.delete(hash);
    if (plan !== null) this.#node.plans.put(plan);
    for (const { slot, loaded } of waiting) {
      if (this.#node.slots.get(slot.id) !== slot || slot.status !== "loading") continue;
      const place = { table: "definitions", execution: slot.id, row: hash.slice(0, 12) };
      if (plan !== null) this.#restore(slot, loaded, plan);
      else if (damage === undefined)
        this.#giveUp(slot, `this version of Rondo cannot read the definition ${hash.slice(0, 12)}`);
      else this.#damaged(slot, { damage: { ...place, why: damage }, head: loaded.head, readable: null });
    }
  }

  /** Called after a commit or a load: evicts the slot, or makes it idle, if nothing needs it in memory. */
  settle(slot: Slot): void {
    const node = this.#node;
    if (
      slot.status !== "clean" ||
      slot.queue.length > 0 ||
      slot.inspections.length > 0 ||
      slot.leaseCount > slot.sentLeases ||
      (slot.leaseCount > 0 && node.starts.has(slot))
    )
      return;
    const { execution } = slot;
    if (slot.leaseCount > 0 && !this.#sent.mayLeave(slot)) return;
    const isLeft = execution?.ended === true && !slot.hasEventsRow && !node.performs(slot.id);
    if (execution === null || isLeft) {
      this.evict(slot);
      return;
    }
    if (execution.ended && node.performs(slot.id)) return;
    // An ended execution with unpublished events counts as idle.
    if (slot.want === "time" && !execution.ended) {
      // The slot is evicted only after its current `want` is stored. Otherwise no scan would load the execution again.
      if (slot.storedWant !== "time" || slot.retryFired) return node.requestCommit(slot);
    } else if (!execution.ended && isServed(this.#node, slot)) {
      this.#idle.delete(slot.id);
      this.#letWait(slot);
      return;
    }
    this.#idle.set(slot.id, slot);
    if (this.#idle.size <= node.settings.idleMax) return;
    for (const oldest of this.#idle.values()) {
      this.#idle.delete(oldest.id);
      if (oldest.status !== "clean" || oldest.queue.length > 0) continue;
      if (oldest.leaseCount > oldest.sentLeases) continue;
      // Keeps the execution, because a worker serves it by now. The scan for work has skipped it already.
      if (oldest.want !== "time" && isServed(this.#node, oldest)) continue;
      this.evict(oldest);
      return;
    }
  }

  /** Evicts an execution that was loaded for a message or an inspection while the window is full. */
  #letWait(slot: Slot): void {
    const pair = slot.countedAs;
    // The first commit of a new execution decides whether it stays in memory (AfterCommit).
    if (!slot.wasLoaded || pair === null || slot.storedWant !== "work" || this.hasRoomBeside(pair)) return;
    this.noteBacklog(pair, false);
    this.evict(slot);
  }

  /** Counts a slot again, because its `want` may have changed. */
  count(slot: Slot): void {
    const { execution } = slot;
    const works =
      slot.want === "work" && slot.status !== "loading" && execution !== null && isServed(this.#node, slot);
    const pair = works ? workKey(execution.project, execution.plan.definition.name) : null;
    if (pair === slot.countedAs) return;
    this.#uncount(slot);
    if (pair === null) return;
    slot.countedAs = pair;
    this.#working++;
    this.#perPair.set(pair, (this.#perPair.get(pair) ?? 0) + 1);
  }

  #uncount(slot: Slot): void {
    const pair = slot.countedAs;
    if (pair === null) return;
    slot.countedAs = null;
    this.#working--;
    const left = (this.#perPair.get(pair) ?? 1) - 1;
    if (left === 0) this.#perPair.delete(pair);
    else this.#perPair.set(pair, left);
  }

  evict(slot: Slot): void {
    this.#idle.delete(slot.id);
    this.#sent.delete(slot);
    this.#node.starts.delete(slot);
    if (slot.leaseCount > 0) forgetSent(this.#node, slot);
    this.#loading.delete(slot.id);
    this.#node.slots.delete(slot.id);
    slot.tenure.slots.delete(slot.id);
    this.#node.dispatcher.withdraw(slot);
    const { suspects } = slot;
    if (suspects.length > 0)
      this.#node.suspects.set(slot.id, {
        handlers: suspects,
        droppedAt: slot.droppedAt,
        until: Number.POSITIVE_INFINITY,
      });
    this.#uncount(slot);
    for (const queue of slot.queues)
      for (const seq of queue.state.pageSeq) this.#node.pages.drop(slot.id, seq);
    slot.release();
  }

  #restore(slot: Slot, loaded: LoadedExecution, plan: Plan): void {
    const [node, { head }] = [this.#node, loaded];
    const unreadable = restoreSlot(node, slot, loaded, plan);
    if (unreadable?.kind === "newer") return this.#giveUp(slot, unreadable.why);
    if (unreadable !== null) return this.#damaged(slot, { ...unreadable, head });
    const mail = node.damagedMail.get(slot.id);
    if (mail !== undefined) return this.#damaged(slot, { damage: mail, head, readable: slot.execution });
    if (head.status === DAMAGED && !this.#isMailKnown()) return void this.#waitingForMail.add(slot);
    slot.isDoubted = false;
    if (head.status === DAMAGED || !canWant(slot, head)) this.#ownership().mended(slot);
    // @plant damaged journal reads as empty 2
    this.#ready(slot);
  }

  /** Reloads the whole journal once, without a snapshot, before the execution is declared damaged. */
  #damaged(slot: Slot, found: Found): void {
    if (!slot.isDoubted) return this.#doubt(slot);
    // @plant damaged journal reads as empty
    declareDamaged(this.#node, slot, found);
    for (const queued of slot.queue.splice(0)) this.#ownership().refuse(queued, refuseDamaged(found));
    this.evict(slot);
  }

  #doubt(slot: Slot): void {
    slot.isDoubted = true;
    this.drop(slot);
  }

  #loadWaiting(): void {
    for (const slot of this.#waitingForMail)
      if (this.#node.slots.get(slot.id) === slot && slot.status === "loading") this.drop(slot);
    this.#waitingForMail.clear();
  }

  #ready(slot: Slot): void {
    slot.status = "clean";
    this.#loading.delete(slot.id);
    this.count(slot);
    this.#ownership().becameClean(slot);
  }

  #giveUp(slot: Slot, why: string): void {
    const node = this.#node;
    const answer = reject("not_ready", `execution ${slot.id} cannot be read: ${why}`);
    node.emit({ kind: "unreadable", execution: slot.id, partition: slot.tenure.partition, why });
    for (const { request } of slot.inspections) node.emit({ kind: "inspected", request, inspection: answer });
    for (const queued of slot.queue.splice(0)) {
      if (queued.kind === "message" && queued.request !== null)
        node.emit({ kind: "reply", request: queued.request, answer });
      else this.#ownership().turnAway(slot.id, queued);
    }
    dropAttempts(node, slot);
    this.evict(slot);
  }
}
