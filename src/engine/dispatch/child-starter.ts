/** Starts child executions (tasks that name a workflow). No worker is needed: a message to the child's execution starts it. */
import type { Plan } from "../../kernel/definition/plan.ts";
import type { Slot } from "../cache/slot.ts";
import { fetchPage, taskText } from "../cache/task-pages.ts";
import { rateName } from "../limits/limits.ts";
import { waiterOf } from "../limits/permits.ts";
import type { NodeState } from "../node-state.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** The most children that one message starts. */
const STARTS_MAX = 256;

/** How often missing definitions are requested again. */
const ASK_AGAIN_MS = 30_000;

export class NewestPlans {
  readonly #plans = new Map<string, Plan | null>();
  readonly #asking = new Set<string>();
  #nextAskAt = 0;
  /** Workflows whose definition was requested before a newer one was stored. The answer to such a request may be outdated. */
  readonly #stale = new Set<string>();

  /** Returns the newest plan of a workflow; null if there is no such workflow; undefined while the plan is being requested. */
  get(node: NodeState, workflow: string): Plan | null | undefined {
    const known = this.#plans.get(workflow);
    if (known !== undefined || this.#asking.has(workflow)) return known;
    this.#asking.add(workflow);
    node.emit({ kind: "find-workflow", workflow });
    return undefined;
  }

  /**
   * Returns the newest plan of a workflow for a child, as `get` does. The shape of command documents counts as missing: only
   * submissions start its executions, since they check the commands in the input.
   */
  forChild(node: NodeState, workflow: string): Plan | null | undefined {
    const plan = this.get(node, workflow);
    return plan?.definition.commands === undefined ? plan : null;
  }

  /** Keeps the answer to a request for a plan. Returns false if a newer definition may have been stored since the request. */
  found(workflow: string, plan: Plan | null): boolean {
    this.#asking.delete(workflow);
    if (this.#stale.delete(workflow)) return false;
    this.#plans.set(workflow, plan);
    return true;
  }

  /** Drops the plan of a workflow, because a newer definition may be stored. */
  forget(workflow: string): void {
    this.#plans.delete(workflow);
    if (this.#asking.has(workflow)) this.#stale.add(workflow);
  }

  /** Returns the missing workflows that are to be requested again, because the notification of another node may have been lost. */
  missingAgain(now: number): readonly string[] {
    if (now < this.#nextAskAt) return [];
    this.#nextAskAt = now + ASK_AGAIN_MS;
    return [...this.#plans].filter(([, plan]) => plan === null).map(([workflow]) => workflow);
  }

  /** Whether the store is known to have no such workflow for children. */
  isMissing(workflow: string): boolean {
    const plan = this.#plans.get(workflow);
    return plan === null || plan?.definition.commands !== undefined;
  }
}

export function waitingFor(node: NodeState, workflow: string): readonly Slot[] {
  return [...node.slots.values()].filter(
    ({ status, queues }) =>
      status === "clean" && queues.some(({ state }) => state.plan.definition.workflow === workflow),
  );
}

export function startChildren(node: NodeState, slot: Slot, queue: HandlerQueue): void {
  const { state } = queue;
  const { workflow, concurrency = Number.POSITIVE_INFINITY, rate } = state.plan.definition;
  if (workflow === undefined || slot.execution?.open !== true || node.closing) return;
  const isAsked = slot.queue.some(
    (queued) => queued.kind === "message" && queued.message.kind === "children",
  );
  const room = Math.min(STARTS_MAX, concurrency - state.openChildren);
  if (isAsked || room <= 0 || !queue.hasTasks(node.now)) return;
  const plan = node.newest.forChild(node, workflow);
  if (plan === undefined || plan === null) return;
  const tasks: { task: number; input: string }[] = [];
  const scope = `${slot.execution.project}/${state.plan.scope}`;
  while (tasks.length < room) {
    const task = queue.peek(node.now);
    if (task < 0) break;
    const who = waiterOf(slot, queue);
    if (rate !== undefined && !node.limits.mayAcquire(rateName(scope), who, node.now)) {
      waitForRate(node, scope, slot, queue);
      break;
    }
    const input = taskText(node, slot, queue, task);
    if (input === undefined) {
      fetchPage(node, slot, queue, task);
      break;
    }
    queue.dequeue(task);
    if (rate !== undefined) node.limits.start(rateName(scope), who, node.now);
    tasks.push({ task, input });
  }
  if (tasks.length === 0) return;
  node.plans.put(plan);
  const at = queue.place;
  node.enqueueMessage(slot, {
    kind: "children",
    ...at,
    round: queue.visit.round,
    workflow,
    hash: plan.hash,
    tasks,
  });
}

/** Starts waiting children again at the time when the rate limit allows it. If the slot is dirty then, they start when it is clean. */
function waitForRate(node: NodeState, scope: string, parent: Slot, waiting: HandlerQueue): void {
  const { key } = waiting;
  node.limits.wait(rateName(scope), waiterOf(parent, waiting), () => {
    const slot = node.slots.get(parent.id);
    const queue = slot?.queues.find((candidate) => candidate.key === key);
    if (slot?.status === "clean" && queue !== undefined) startChildren(node, slot, queue);
  });
}
