import { useState } from "preact/hooks";
import type { Problem } from "../api/client.ts";
import { asProblem, reloadAll } from "../api/use-live.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Trouble } from "./state.tsx";

/** Asks before an action is done, and for its reason, which is stored in the audit log. */
export function ReasonDialog(props: {
  readonly title: string;
  /** What will happen. */
  readonly text: string;
  /** The text of the button that does it. */
  readonly action: string;
  readonly isDanger?: boolean;
  /** Whether a reason can be given. */
  readonly hasReason?: boolean;
  readonly onClose: () => void;
  readonly run: (reason: string | undefined) => Promise<void>;
}) {
  const { title, text, action, isDanger = false, hasReason = true, onClose, run } = props;
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const send = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await run(reason.trim() === "" ? undefined : reason.trim());
      reloadAll();
      onClose();
    } catch (thrown) {
      setProblem(asProblem(thrown));
      setIsBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void send()}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind={isDanger ? "danger" : "main"} type="submit" isBusy={isBusy}>
            {action}
          </Button>
        </>
      }
    >
      <p>{text}</p>
      {hasReason ? (
        <label class="field">
          <span>
            Reason <span class="muted">optional, stored in the audit log</span>
          </span>
          <input
            value={reason}
            maxLength={500}
            autoFocus
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
      ) : null}
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
