/**
 * Starts owed post-operations, oldest first (limits: post-op-pool.ts). Which ones are owed follows from the committed state of the
 * execution, so this queue stores nothing. After a restart or a commit of unknown outcome, they are started again with the same id.
 */
import { postOpPlan, targetOf } from "../../kernel/command/command-plan.ts";
import { commandAt, type OwedOp } from "../../kernel/command/owed-op.ts";
import type { Execution } from "../../kernel/execution.ts";
import { assert } from "../../std/assert.ts";
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { Slot } from "../cache/slot.ts";
import type { Input } from "../io.ts";
import type { NodeState } from "../node-state.ts";
import { PostOpPool } from "./post-op-pool.ts";
import type { PostOpTask } from "./post-ops.ts";

export class PostOpQueue {
  readonly #node: NodeState;
  readonly #cache: ExecutionCache;
  readonly #pools: Readonly<Record<OwedOp["op"], PostOpPool>>;

  constructor(node: NodeState, cache: ExecutionCache) {
    this.#node = node;
    this.#cache = cache;
    const { postOpsMax, postOpsEach } = node.settings;
    this.#pools = {
      persistence: new PostOpPool(postOpsMax, postOpsEach),
      broadcast: new PostOpPool(postOpsMax, postOpsEach),
    };
  }

  has(execution: string): boolean {
    return this.#pools.persistence.has(execution) || this.#pools.broadcast.has(execution);
  }

  /** Starts the due post-operations of a clean execution. */
  // @plant post-operation before its commit 4
  startDue(slot: Slot): void {
    const { execution } = slot;
    if (execution === null || execution.postops.size === 0 || slot.tenure.isYielding) return;
    /** Numbers of receipts whose broadcasts wait until an earlier broadcast of the same receipt has begun. */
    const held = new Set<number>();
    for (const op of execution.postops.values()) {
      const pool = this.#pools[op.op];
      if (pool.isFullFor(slot.id) || held.has(op.receipt)) continue;
      if (
        /* @plant post-operation before its time */ op.until > this.#node.now ||
        pool.isUnderWay(op.id) ||
        isQueued(slot, op)
      )
        continue;
      const task = taskOf(execution, op);
      if (pool.acquire(op.id, { execution: slot.id, target: placeOf(task) }))
        this.#node.emit({ kind: "perform", task });
      else if (op.ended === 0)
        // @plant broadcast overtakes the one before it
        held.add(op.receipt);
    }
  }

  /** Called when a try of a post-operation has ended: sends the outcome to the execution, and starts waiting post-operations. */
  performed({ execution, op, attempt, outcome }: Extract<Input, { kind: "performed" }>): void {
    for (const pool of Object.values(this.#pools)) pool.release(op);
    if (this.#node.tenures.of(execution) !== undefined) {
      const message = { kind: "postop", op, attempt, outcome } as const;
      this.#node.enqueueMessage(this.#cache.slot(execution), message);
    }
    for (const pool of Object.values(this.#pools)) this.#fill(pool);
  }

  /** Releases the places of post-operations that had not begun when the tenure of their partition ended. */
  releaseUnstarted(tasks: readonly PostOpTask[]): void {
    if (tasks.length === 0) return;
    for (const { id, op } of tasks) this.#pools[op].release(id);
    for (const pool of Object.values(this.#pools)) this.#fill(pool);
  }

  /** Starts waiting post-operations while the pool has room. An execution that is not clean now starts its post-operations later. */
  #fill(pool: PostOpPool): void {
    for (let next = pool.next(); next !== undefined; next = pool.next()) {
      if (this.#node.tenures.of(next) === undefined) continue;
      const slot = this.#cache.slot(next);
      if (slot.status === "clean") this.startDue(slot);
    }
  }
}

/** Whether the execution's queue already has the outcome of the post-operation. */
function isQueued({ queue }: Slot, { id }: OwedOp): boolean {
  return queue.some(
    (queued) => queued.kind === "message" && queued.message.kind === "postop" && queued.message.op === id,
  );
}

function taskOf(execution: Execution, owed: OwedOp): PostOpTask {
  const { id, phase, visit, handler, task, step, op, index, receipt, ended } = owed;
  const command = commandAt(execution.plan, owed);
  const plan = command === null ? undefined : postOpPlan(command, op, index);
  assert(plan !== undefined, "the plan must contain every pending post-operation");
  return {
    id,
    execution: execution.id,
    project: execution.project,
    workflow: execution.plan.definition.name,
    ...{ phase, visit, handler, task, step, index, receipt },
    attempt: ended + 1,
    ...("url" in plan ? { op: "broadcast", plan } : { op: "persistence", plan }),
  };
}

/** Returns the name of the target that limits apply to: a state store, or the host of a URL. */
function placeOf({ plan }: PostOpTask): string {
  const target = targetOf(plan);
  return "url" in plan && URL.canParse(target) ? new URL(target).host : target;
}
