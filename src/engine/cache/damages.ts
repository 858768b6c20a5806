/** Executions whose stored data cannot be read: they leave memory, and their heads get the status `damaged`. */
import { endOfChild } from "../../kernel/advance.ts";
import type { Execution } from "../../kernel/execution.ts";
import { type Damage, damageRemedy, describeDamage } from "../../kernel/journal/damage.ts";
import { type ExecutionView, viewExecution } from "../../kernel/view.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import {
  currentHash,
  DAMAGED,
  type MailboxMessage,
  type Store,
  type StoredHead,
  userTags,
} from "../../store/store.ts";
import type { EnginePort } from "../engine-port.ts";
import type { Inspection } from "../io.ts";
import { requestStop } from "../leases/report-intake.ts";
import { toMailboxMessage } from "../mailbox/mailbox.ts";
import type { NodeState } from "../node-state.ts";
import type { Slot } from "./slot.ts";

const ERROR_CHARS = 500;

export interface Found {
  readonly damage: Damage;
  readonly head: StoredHead;
  /** The state of the execution before the damaged row; null if no event can be read. */
  readonly readable: Execution | null;
}

/**
 * Declares an execution damaged: marks its head, answers waiting inspections, notifies subscribers once, and ends the attempts of the
 * execution at this node.
 */
export function declareDamaged(node: NodeState, slot: Slot, found: Found): void {
  if (found.head.status !== DAMAGED) {
    // @plant damaged execution skipped silently
    node.emit({ kind: "damaged", head: damagedHead(found) });
    const end = { status: DAMAGED, output: null } as const;
    node.emit({ kind: "progressed", execution: slot.id, seq: found.readable?.seq ?? 0, end });
  }
  const inspection = inspectDamaged(found, node.now);
  for (const { request } of slot.inspections.splice(0)) node.emit({ kind: "inspected", request, inspection });
  dropAttempts(node, slot);
}

/** The view of a damaged execution: its readable state, and the damage. */
function inspectDamaged(found: Found, now: number): Inspection {
  const { damage, head } = found;
  const remedy = damageRemedy(damage, head.id);
  const toDo = `${remedy.charAt(0).toUpperCase()}${remedy.slice(1)}.`;
  return { view: viewDamaged(found, now), why: `It is damaged: ${describeDamage(damage)}. ${toDo}` };
}

export function refuseDamaged({ damage, head }: Found): Rejection {
  return reject("wrong_status", `execution ${head.id} is damaged: ${describeDamage(damage)}`, {
    hint: damageRemedy(damage, head.id),
  });
}

/** The head of a damaged execution. It wants no work, and without `finishedAt` retention leaves it alone. */
function damagedHead({ head, damage }: Found): StoredHead {
  const error = describeDamage(damage).slice(0, ERROR_CHARS);
  return { ...head, status: DAMAGED, want: "nothing", finishedAt: null, error };
}

function viewDamaged(found: Found, now: number): ExecutionView {
  const { damage, head, readable } = found;
  const shown = {
    status: DAMAGED,
    finishedAt: null,
    damage: { table: damage.table, row: damage.row, why: damage.why },
    error: { code: "Damaged", message: describeDamage(damage) },
  } as const;
  const { id, workflow, project, phase, createdAt } = head;
  const nothing: ExecutionView = {
    ...{ id, workflow, workflowHash: currentHash(head), project, phase, tags: userTags(head), createdAt },
    ...{ input: null, output: null, phases: [], parent: null, revision: 0 },
    ...shown,
  };
  if (readable === null) return nothing;
  try {
    return { ...viewExecution(readable, now), ...shown };
  } catch {
    // The events before the damaged row lead to a state that cannot be shown as a view.
    return { ...nothing, revision: readable.seq };
  }
}

/**
 * Ends the open leases and pending heartbeats of an execution that leaves memory because it is unreadable, also leases that a former
 * owner handed over. The workers of these attempts are notified, but an attempt may go on until its worker notices. If the execution
 * becomes readable in this tenure, the node treats these attempts like those of a former owner that has just ended.
 */
export function dropAttempts(node: NodeState, slot: Slot): void {
  let isOpen = slot.suspects.length > 0;
  let silenceMs = Math.max(node.settings.suspectMs, node.settings.heartbeatMs);
  for (const queue of slot.allQueues)
    for (const lease of [...queue.leases.values()]) {
      isOpen = true;
      silenceMs = Math.max(silenceMs, node.heartbeatMs(queue.state.plan));
      requestStop(node, slot, { queue, lease }, "lost");
      node.endLease(queue, lease, null);
    }
  for (const handed of node.handedOver.get(slot.id) ?? []) {
    const { execution, phase, visit, handler, round, epoch, task, attempt, claim, worker, permits } = handed;
    isOpen = true;
    for (const permit of permits) node.limits.release(permit);
    const attempts = [
      { execution, phase, visit, handler, round, epoch, attempts: [{ task, attempt, claim }] },
    ];
    node.emit({ kind: "cancel", worker, attempts, why: "lost" });
  }
  node.handedOver.delete(slot.id);
  slot.suspect = false;
  if (isOpen)
    node.suspects.set(slot.id, { handlers: null, droppedAt: node.now, until: node.now + silenceMs });
  // Increments a counter, so that tasks that are granted again get new claim numbers.
  slot.tenure.lapses++;
  const told = new Set(slot.beats.map(({ worker }) => worker));
  for (const worker of told) {
    const attempts = slot.beats.filter((one) => one.worker === worker).map(({ beat }) => beat);
    node.emit({ kind: "cancel", worker, attempts, why: "lost" });
  }
  slot.beats.splice(0);
}

/** Drops a damaged execution; returns a rejection if it is not damaged. */
export async function dropDamaged(
  parts: {
    readonly store: Pick<Store, "dropDamaged">;
    readonly engine: Pick<EnginePort, "purge" | "mailStored">;
  },
  view: ExecutionView,
): Promise<Rejection | null> {
  const { store, engine } = parts;
  const { id } = view;
  if (view.status !== DAMAGED || !(await store.dropDamaged(id, endForParent(view))))
    return reject(
      "wrong_status",
      `execution ${id} is ${view.status}: only damaged executions can be dropped`,
      {
        hint: "cancel the execution, or wait until it has ended and is purged",
      },
    );
  // Makes sure that a new execution with the id of the dropped one gets other attempt ids.
  engine.purge([id]);
  // The parent of the dropped execution may be at this node, so this node is notified directly. PostgreSQL notifies other nodes about
  // the message.
  engine.mailStored();
  return null;
}

function endForParent({ id, parent }: ExecutionView): MailboxMessage | null {
  if (parent === null) return null;
  const message = `the child ${id} was damaged, and was dropped`;
  const payload = JSON.stringify({ code: "Damaged", message, fatal: true });
  return toMailboxMessage(endOfChild(id, { id: `${id}/dropped`, parent, status: "failed", payload }));
}
