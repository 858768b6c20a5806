/** Finds what causes alerts: failed executions, new groups of errors, old queues, dead nodes. Each is read from the store or the nodes. */
import type { ClusterShown } from "../parts.ts";
import type { FoundGroup } from "../services/dead-letter-groups.ts";
import type { AlertRule, Happening } from "./alert.ts";

/** An execution that failed. */
export interface FailedExecution {
  readonly id: string;
  readonly workflow: string;
  readonly project: string;
  readonly finishedAt: number;
  readonly error: string | null;
}

export function failureOf({ id, workflow, project, finishedAt, error }: FailedExecution): Happening {
  return {
    // An execution that is retried and fails again is another cause.
    key: `${id} ${finishedAt}`,
    at: finishedAt,
    text: `Execution ${id} of ${workflow} failed${error === null ? "" : `: ${error}`}`,
    page: `/executions/${encodeURIComponent(id)}`,
    data: { execution: id, workflow, project, error },
  };
}

export function groupOf({ group }: FoundGroup): Happening {
  const { id, name, message, workflow, project, tasks, sample, firstAt } = group;
  return {
    key: id,
    at: firstAt ?? 0,
    text: `New error in ${workflow}: ${name}: ${message}`,
    page: `/dead-letters?group=${encodeURIComponent(id)}`,
    data: { group: id, name, message, workflow, project, tasks, execution: sample.execution },
  };
}

/** A queue that no worker has taken work from for a time. */
export interface OldQueue {
  readonly use: string;
  readonly tasks: number;
  readonly since: number;
}

export function queueOf({ use, tasks, since }: OldQueue, minutes: string): Happening {
  return {
    key: use,
    at: since,
    text: `The queue of ${use} is older than ${minutes}: ${tasks} ${tasks === 1 ? "task waits" : "tasks wait"}`,
    page: "/queues",
    data: { use, tasks, since },
  };
}

/**
 * Returns nodes that were reported dead and have left the ring. The store decides about membership, so a node that is only slow
 * is not among them.
 */
export function deathsOf({ ring: { deaths, nodes } }: ClusterShown): readonly Happening[] {
  const living = new Set(nodes.map(({ incarnation }) => incarnation));
  return deaths
    .filter(({ incarnation }) => !living.has(incarnation))
    .map(({ url, incarnation, at }) => ({
      key: `${url} ${incarnation}`,
      at,
      text: `The node ${url} died`,
      page: "/ring",
      data: { url, incarnation },
    }));
}

/** Whether a rule applies to a workflow and a project. */
export function concerns(
  { workflow, project }: Pick<AlertRule, "workflow" | "project">,
  of: { readonly workflow: string; readonly project: string },
): boolean {
  return (workflow ?? of.workflow) === of.workflow && (project ?? of.project) === of.project;
}
