import type { Parent } from "../event.ts";
import type { ChildMessage, Sent } from "../message.ts";
import type { Step } from "../step.ts";

/** A child tells its parent how it ended. */
export function notifyParent(step: Step): void {
  const { execution } = step;
  const { parent, status, output, error } = execution;
  if (parent === null || !execution.ended) return;
  const payload = status === "done" ? (output ?? "null") : JSON.stringify(error);
  const end = { id: "", parent, status: status as ChildMessage["status"], payload };
  step.send(parent.execution, endOfChild(execution.id, end).message);
}

/** The message that says how a child ended. */
export function endOfChild(
  child: string,
  end: { id: string; parent: Parent; status: ChildMessage["status"]; payload: string },
): Sent {
  const { execution, phase, visit, handler, task } = end.parent;
  const { status, payload } = end;
  return {
    id: end.id,
    to: execution,
    message: { kind: "child", phase, visit, handler, task, child, status, payload },
  };
}
