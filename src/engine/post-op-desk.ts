/**
 * Which post-operations are under way: at most so many in the node and so many of one execution, in the order in which
 * they are owed. What is owed is a function of committed state, so nothing here has to survive: after a restart, a
 * takeover or a commit of unknown outcome it is given out again, with the same id.
 */
import { postOpPlan } from "../kernel/command-plan.ts";
import type { Execution } from "../kernel/execution.ts";
import { commandAt, type OwedOp } from "../kernel/owed-op.ts";
import { assert } from "../std/assert.ts";
import type { Input } from "./io.ts";
import type { NodeState } from "./node-state.ts";
import type { PostOpTask } from "./post-ops.ts";
import type { Residency } from "./residency.ts";
import type { Slot } from "./slot.ts";

export class PostOpDesk {
  readonly #node: NodeState;
  readonly #residency: Residency;
  /** By id: the execution. */
  readonly #underWay = new Map<string, string>();
  readonly #perExecution = new Map<string, number>();
  /** Executions that have more than there is room for, oldest first. */
  readonly #waiting = new Set<string>();

  constructor(node: NodeState, residency: Residency) {
    this.#node = node;
    this.#residency = residency;
  }

  /** Whether something of the execution is under way or waits for room. */
  has(execution: string): boolean {
    return this.#perExecution.has(execution) || this.#waiting.has(execution);
  }

  /** Gives out what a clean execution owes and what is due. */
  attend(slot: Slot): void {
    const { execution } = slot;
    if (execution === null || execution.postops.size === 0 || slot.tenure.isYielding) return;
    const { postOpsMax, postOpsEach } = this.#node.settings;
    for (const op of execution.postops.values()) {
      if (op.until > this.#node.now || this.#underWay.has(op.id) || isQueued(slot, op)) continue;
      if ((this.#perExecution.get(slot.id) ?? 0) >= postOpsEach) return;
      if (this.#underWay.size >= postOpsMax) {
        this.#waiting.add(slot.id);
        return;
      }
      this.#underWay.set(op.id, slot.id);
      this.#perExecution.set(slot.id, (this.#perExecution.get(slot.id) ?? 0) + 1);
      this.#node.emit({ kind: "perform", task: taskOf(execution, op) });
    }
  }

  /** A try has ended: its execution hears of it, and another has room. */
  performed({ execution, op, attempt, outcome }: Extract<Input, { kind: "performed" }>): void {
    this.#end(op, execution);
    if (this.#node.tenures.of(execution) !== undefined) {
      const message = { kind: "postop", op, attempt, outcome } as const;
      this.#node.enqueue(this.#residency.slot(execution), { kind: "message", message, request: null });
    }
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    if (this.#node.tenures.of(next) === undefined) return;
    const slot = this.#residency.slot(next);
    if (slot.status === "clean") this.attend(slot);
  }

  /** It was given out in a tenure that ended before anybody could begin. */
  takeBack({ id, execution }: PostOpTask): void {
    this.#end(id, execution);
  }

  #end(op: string, execution: string): void {
    if (!this.#underWay.delete(op)) return;
    const left = (this.#perExecution.get(execution) ?? 1) - 1;
    if (left === 0) this.#perExecution.delete(execution);
    else this.#perExecution.set(execution, left);
  }
}

/** Whether the end of its try waits to be stepped. */
function isQueued({ queue }: Slot, { id }: OwedOp): boolean {
  return queue.some(
    (queued) => queued.kind === "message" && queued.message.kind === "postop" && queued.message.op === id,
  );
}

function taskOf(execution: Execution, owed: OwedOp): PostOpTask {
  const { id, phase, visit, handler, task, step, op, index, receipt, ended } = owed;
  const command = commandAt(execution.plan, owed);
  const plan = command === null ? undefined : postOpPlan(command, op, index);
  assert(plan !== undefined, "a post-operation that is owed is in the plan");
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
