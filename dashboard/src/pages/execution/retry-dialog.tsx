/** Retries tasks of an execution, after a dry run has told how many will run. */
import { useEffect, useState } from "preact/hooks";
import { change, may, type Problem } from "../../api/client.ts";
import type { RetriedTasks, Session } from "../../api/shapes.ts";
import { asProblem } from "../../api/use-live.ts";
import { plural } from "../../core/format.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { tell } from "../../ui/toast.tsx";
import type { About } from "./execution.tsx";

/** The tasks of a retry: of a handler (all failed ones, or these numbers), or of an error group. */
export interface RetryChoice {
  readonly phase?: string;
  readonly visit?: number;
  readonly handler?: string;
  readonly numbers?: readonly number[];
  readonly error?: string;
}

/** Returns why the user cannot retry tasks of this execution, whatever their status is; null if there is no such reason. */
export function whyNoRetry({ at, facts }: Pick<About, "at" | "facts">, who: Session): string | null {
  if (!may("operator", who)) return `This needs the role operator; ${who.name} is ${who.role}.`;
  if (at !== null) return "This is an earlier state. Go back to now first.";
  return facts.cleanedUp === true ? "The execution has cleaned up after itself. Start a new one." : null;
}

export function RetryDialog(props: {
  readonly path: string;
  readonly choice: RetryChoice;
  /** Describes the tasks, such as "failed tasks of charge". */
  readonly what: string;
  readonly onClose: () => void;
}) {
  const { path, choice, what, onClose } = props;
  const [found, setFound] = useState<RetriedTasks | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const send = (dryRun: boolean): Promise<RetriedTasks> =>
    change<RetriedTasks>("POST", `${path}/tasks/retry`, { ...choice, ...(dryRun ? { dryRun } : {}) });
  useEffect(() => {
    send(true).then(setFound, (thrown: unknown) => setProblem(asProblem(thrown)));
  }, []);
  return (
    <ActionDialog
      title="Retry tasks"
      action={found === null ? "Retry" : `Retry ${plural(found.tasks, "task")}`}
      icon="retry"
      isBusy={found === null && problem === null}
      whyNot={problem !== null || found?.tasks === 0 ? "None of these tasks can be retried." : null}
      problem={problem}
      onClose={onClose}
      run={async () => {
        const { tasks } = await send(false);
        tell(`${plural(tasks, "task")} will run again.`);
      }}
    >
      <p>
        {found === null
          ? problem === null
            ? "Counting…"
            : `Retry ${what}.`
          : `${plural(found.tasks, "task")} will run again: ${what}. Finished tasks are kept.`}
      </p>
      {found === null || found.skipped.length === 0 ? null : (
        <p class="muted">
          Later phases do not run again: {found.skipped.join(", ")}. The output of the execution is computed
          again.
        </p>
      )}
    </ActionDialog>
  );
}
