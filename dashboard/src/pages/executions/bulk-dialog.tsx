/** Cancels or retries all executions that match the filter, after showing their number. */
import { useEffect, useState } from "preact/hooks";
import { change, type Problem } from "../../api/client.ts";
import type { BulkAnswer, ExecutionStatus } from "../../api/shapes.ts";
import { asProblem } from "../../api/use-live.ts";
import { count, plural } from "../../core/format.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { ReasonField } from "../../ui/reason-dialog.tsx";
import { tell } from "../../ui/toast.tsx";
import { type ListFilter, queryOf } from "./filters.tsx";

type Action = "cancel" | "retry";

/** The statuses in which each action is possible. */
const FITS: Readonly<Record<Action, readonly ExecutionStatus[]>> = {
  cancel: ["running", "paused"],
  retry: ["failed", "cancelled"],
};
/** The most requests for one count, each of a thousand executions. */
const COUNT_CALLS = 20;

export function BulkDialog(props: {
  readonly action: Action;
  readonly filter: ListFilter;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const { action, filter, onClose, onDone } = props;
  const statuses = FITS[action].filter(
    (status) => filter.status.length === 0 || filter.status.includes(status),
  );
  const [found, setFound] = useState<{ n: number; isAll: boolean } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [done, setDone] = useState<number | null>(null);
  const [reason, setReason] = useState("");
  useEffect(() => {
    countAll(action, filter, statuses).then(setFound, (thrown: unknown) => setProblem(asProblem(thrown)));
  }, []);
  const run = async (): Promise<void> => {
    let changed = 0;
    let refused = 0;
    for (const status of statuses)
      for await (const answer of calls({ action, filter, status, dryRun: false, reason })) {
        changed += answer.changed;
        refused += answer.refused.length;
        setDone(changed);
      }
    const rest =
      refused === 0 ? "" : ` ${plural(refused, "execution")} could not be: their status had changed.`;
    tell(`${plural(changed, "execution")} ${action === "cancel" ? "cancelled" : "retried"}.${rest}`);
    onDone();
  };
  const nothing =
    found?.n === 0 ? `None of these can be ${action === "cancel" ? "cancelled" : "retried"}.` : null;
  return (
    <ActionDialog
      title={action === "cancel" ? "Cancel executions" : "Retry executions"}
      action={
        done === null
          ? `${action === "cancel" ? "Cancel" : "Retry"} ${found === null ? "…" : count(found.n)}`
          : `${count(done)} done…`
      }
      isDanger={action === "cancel"}
      whyNot={nothing}
      isBusy={found === null}
      problem={problem}
      onClose={onClose}
      run={run}
    >
      <p>
        {found === null
          ? "Counting…"
          : `${found.isAll ? "" : "At least "}${plural(found.n, "execution")} ${found.n === 1 ? "matches" : "match"}: ${describe(filter, statuses)}.`}
      </p>
      <p class="muted">
        {action === "cancel"
          ? "Running attempts are told to stop, then each execution ends as cancelled. It can be retried unless it has cleaned up."
          : "Unfinished tasks of these executions run again. Finished tasks are kept."}
      </p>
      <ReasonField reason={reason} onWrite={setReason} />
    </ActionDialog>
  );
}

function describe({ q, workflow, project }: ListFilter, statuses: readonly string[]): string {
  const parts = [statuses.join(" or ") || "no status that allows it"];
  if (workflow !== undefined) parts.push(`workflow ${workflow}`);
  if (project !== undefined) parts.push(`project ${project}`);
  if (q !== undefined) parts.push(`with “${q}”`);
  return parts.join(", ");
}

async function countAll(
  action: Action,
  filter: ListFilter,
  statuses: readonly ExecutionStatus[],
): Promise<{ n: number; isAll: boolean }> {
  let n = 0;
  let left = COUNT_CALLS;
  for (const status of statuses)
    for await (const { matched } of calls({ action, filter, status, dryRun: true })) {
      n += matched;
      if (--left === 0) return { n, isAll: false };
    }
  return { n, isAll: true };
}

/** Repeats the bulk request until all executions are changed. */
async function* calls(request: {
  readonly action: Action;
  readonly filter: ListFilter;
  readonly status: ExecutionStatus;
  readonly dryRun: boolean;
  readonly reason?: string;
}): AsyncGenerator<BulkAnswer> {
  const { action, filter, status, dryRun, reason = "" } = request;
  let cursor: string | null = null;
  do {
    const answer: BulkAnswer = await change("POST", "/v1/executions/bulk", {
      ...{ action, dryRun, filter: { ...queryOf(filter), status } },
      ...(reason.trim() === "" ? {} : { reason: reason.trim() }),
      ...(cursor === null ? {} : { cursor }),
    });
    yield answer;
    cursor = answer.next;
  } while (cursor !== null);
}
