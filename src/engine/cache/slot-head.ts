import type { Execution } from "../../kernel/execution.ts";
import type { Head, Want } from "../../store/store.ts";

/** The small row that lists show. */
export function headOf(execution: Execution, partition: number, want: Want): Head {
  return {
    id: execution.id,
    partition,
    workflow: execution.plan.definition.name,
    hash: execution.plan.hash,
    project: execution.project,
    status: execution.status,
    phase: execution.ended ? null : (execution.current?.plan.name ?? null),
    want,
    priority: 0,
    createdAt: execution.createdAt,
    finishedAt: execution.finishedAt,
    tags: execution.tags,
    error:
      execution.ended && execution.error !== null
        ? `${execution.error.code}: ${execution.error.message}`.slice(0, 500)
        : null,
  };
}
