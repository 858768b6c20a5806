import { useEffect, useState } from "preact/hooks";
import { change, type Problem } from "../../api/client.ts";
import type { Schedule } from "../../api/shapes.ts";
import { asProblem } from "../../api/use-live.ts";
import { plural } from "../../core/format.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { tell } from "../../ui/toast.tsx";

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

interface Found {
  readonly due: number;
  readonly existed: number;
  readonly missing: number;
  readonly started: number;
}

/** A dialog that starts the executions of past due times, after a dry run has told how many. */
export function BackfillDialog({
  schedule,
  path,
  onClose,
}: {
  readonly schedule: Schedule;
  readonly path: string;
  readonly onClose: () => void;
}) {
  const [from, setFrom] = useState(() => localText(Date.now() - DAY_MS));
  const [to, setTo] = useState(() => localText(Date.now()));
  // The proposed range: a day, or less if that has more due times than can be started at a time.
  const [proposedMs, setProposedMs] = useState<number | null>(DAY_MS);
  const [found, setFound] = useState<Found | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const send = (dryRun: boolean): Promise<Found> =>
    change<Found>("POST", `${path}/backfill`, {
      from: new Date(from).getTime(),
      to: Math.min(Date.now() - 1_000, new Date(to).getTime()),
      dryRun,
    });
  useEffect(() => {
    setFound(null);
    setProblem(null);
    let isLast = true;
    send(true).then(
      (answer) => isLast && setFound(answer),
      (thrown: unknown) => {
        if (!isLast) return;
        const refused = asProblem(thrown);
        if (proposedMs === null || proposedMs < HOUR_MS || refused.code !== "too_large")
          return setProblem(refused);
        setProposedMs(proposedMs / 2);
        setFrom(localText(Date.now() - proposedMs / 2));
      },
    );
    return () => {
      isLast = false;
    };
  }, [from, to]);
  const field = (label: string, value: string, write: (text: string) => void) => (
    <label class="field">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={value}
        onInput={(event) => {
          setProposedMs(null);
          write(event.currentTarget.value);
        }}
      />
    </label>
  );
  return (
    <ActionDialog
      title={`Backfill ${schedule.id}`}
      action={found === null ? "Start" : `Start ${plural(found.missing, "execution")}`}
      icon="play"
      isBusy={found === null && problem === null}
      whyNot={found?.missing === 0 ? "Every due time of this range has an execution." : null}
      problem={problem}
      onClose={onClose}
      run={async () => {
        const { started } = await send(false);
        tell(`${plural(started, "execution")} started.`);
      }}
    >
      {field("From", from, setFrom)}
      {field("To", to, setTo)}
      <p>
        {found === null
          ? problem === null
            ? "Counting…"
            : "\u00a0"
          : `${plural(found.due, "due time")} in this range, ${found.existed} with an execution. The others start at once.`}
      </p>
    </ActionDialog>
  );
}

/** A time as a field for local times has it: 2026-11-15T14:03. */
function localText(at: number): string {
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
