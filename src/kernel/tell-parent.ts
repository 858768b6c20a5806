import type { ChildMessage } from "./message.ts";
import type { Step } from "./step.ts";

/** A child tells its parent how it ended. */
export function tellParent(step: Step): void {
  const { execution } = step;
  const { parent, status, output, error } = execution;
  if (parent === null || !execution.ended) return;
  const { phase, visit, handler, task } = parent;
  step.send(parent.execution, {
    kind: "child",
    phase,
    visit,
    handler,
    task,
    child: execution.id,
    status: status as ChildMessage["status"],
    payload: status === "done" ? (output ?? "null") : JSON.stringify(error),
  });
}
