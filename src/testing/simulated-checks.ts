/** What must hold of every simulated run of a workflow, whatever the workflow is. */
import type { PublicEvent } from "../kernel/journal/public-event.ts";
import type { ExecutionView } from "../kernel/view.ts";

interface Run {
  readonly execution: ExecutionView;
}

/** The journal has no gaps, counts each task once in a round, and ends once. */
export function checkJournal(events: readonly PublicEvent[]): void {
  const settled = new Set<string>();
  let round = 1;
  events.forEach((event, i) => {
    if (event.seq !== i + 1) throw new Error(`event ${event.seq} comes after event ${i}`);
    const { kind } = event;
    if (kind.endsWith(".retried") || kind === "retried") round++;
    if (!kind.endsWith("tasks.settled")) return;
    for (const task of settledTasks(event)) {
      const key = `${round}/${task}`;
      if (settled.has(key)) throw new Error(`task ${task} is counted twice`);
      settled.add(key);
    }
  });
}

/** It ended as a run without faults does. */
export function checkSame({ execution }: Run, { execution: expected }: Run): void {
  const { status, error } = execution;
  if (status !== expected.status)
    throw new Error(
      `it ended ${status}${error === null ? "" : ` (${error.message})`}, without faults it ends ${expected.status}`,
    );
  const output = JSON.stringify(execution.output);
  const without = JSON.stringify(expected.output);
  if (output !== without) throw new Error(`its output is ${output}, without faults it is ${without}`);
}

function settledTasks(event: PublicEvent): string[] {
  const { phase, visit, handler, tasks } = event as unknown as {
    readonly phase: string;
    readonly visit: number;
    readonly handler: string;
    readonly tasks: readonly unknown[];
  };
  if (!Array.isArray(tasks)) return [];
  return tasks.map((task) => {
    const number = Array.isArray(task)
      ? task[0]
      : typeof task === "object"
        ? (task as { n?: number }).n
        : task;
    return `${phase}.${visit}/${handler}#${String(number)}`;
  });
}
